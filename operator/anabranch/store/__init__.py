"""Postgres, and nothing else: one module for each aggregate, its SQL named and described in ``sql/``."""
