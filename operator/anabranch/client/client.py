"""The client: all calls of the API, with one connection pool and one identity."""

from __future__ import annotations

from anabranch.client.baselines import BaselineCalls
from anabranch.client.branches import BranchCalls
from anabranch.client.follow import FeedCalls
from anabranch.client.jobs import JobCalls
from anabranch.client.runs import RunCalls


class AnabranchClient(BaselineCalls, FeedCalls, BranchCalls, RunCalls, JobCalls):
    """A client of the HTTP API; an asynchronous context manager.

    Used as::

        async with AnabranchClient("https://anabranch.example", token_file=Path("/run/secrets/token")) as client:
            fact = await client.record("team", "handbook", "deploy/rollback")

    Answers are the models of `anabranch.model`. What the API refuses is raised as the `AnabranchError` that it was
    raised as there. Calls that may be made twice without harm are made again while the API is away.

    Args:
        url: Of the API, without a path.
        token: A token of the cluster for the installation's audience.
        token_file: Instead: where the token is, read anew for each request.
        timeout: Seconds to wait for a connection, and between two pieces of an answer.
    """
