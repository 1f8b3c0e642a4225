"""A module for each page: what it asks the API, and what it makes of a form."""
