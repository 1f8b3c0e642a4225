"""Backups of lines: made before what they protect is published, kept elsewhere, and put back."""
