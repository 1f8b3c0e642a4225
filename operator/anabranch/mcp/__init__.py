"""The Model Context Protocol: an agent's calls as tools, over HTTP inside the API and over stdio before it.

Tools call the HTTP API by its client, so they ask for the same grants, keep the same limits and refuse in the same
words as its routes, whichever way they are reached.
"""
