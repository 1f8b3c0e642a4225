"""Search of what lines say: making the index, and asking it."""
