"""Decisions as functions of values: no clock, no network, no database. What is decided here is tested without either."""
