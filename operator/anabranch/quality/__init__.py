"""Quality: what can be counted of a memory, and what it answers."""
