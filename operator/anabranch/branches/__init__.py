"""Branches: the run of an agent on a fixed manifest, and what only that agent sees."""
