"""Decisions as functions of values, without clock, network or database: so they are tested without them, too."""
