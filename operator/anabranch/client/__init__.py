"""The client of the HTTP API, for agents and for the commands: typed, asynchronous, and patient where that is safe."""

from anabranch.client.client import AnabranchClient

__all__ = ["AnabranchClient"]
