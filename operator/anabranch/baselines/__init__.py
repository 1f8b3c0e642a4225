"""Baselines: what a line's resource asks of it, and what readers get of its manifests."""
