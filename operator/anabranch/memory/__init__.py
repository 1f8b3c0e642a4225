"""What agents remember of themselves, what the platform notes for them, and what they are told."""
