"""Anabranch: branching, reviewed memory for fleets of AI agents, on Kubernetes and Postgres."""

__version__ = "0.1.0"
