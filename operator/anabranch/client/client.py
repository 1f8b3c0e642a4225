"""The client: all calls of the API, with one connection pool and one identity."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from anabranch.client.agent_events import AgentEventCalls
from anabranch.client.branches import BranchCalls
from anabranch.client.exports import ExportCalls
from anabranch.client.follow import FeedCalls
from anabranch.client.jobs import JobCalls
from anabranch.client.lineage import LineageCalls
from anabranch.client.memory import MemoryCalls
from anabranch.client.runs import RunCalls
from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping


class AnabranchClient(
    ExportCalls, FeedCalls, LineageCalls, BranchCalls, RunCalls, JobCalls, MemoryCalls, AgentEventCalls
):
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

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """A client as a pod's environment describes it.

        Args:
            environment: ``ANABRANCH_URL``, and ``ANABRANCH_TOKEN_FILE`` or ``ANABRANCH_TOKEN``.

        Raises:
            InvalidInputError: If one of them is missing.
        """
        return cls(**settings(environment))


def settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """What an environment says of the API: the arguments of a client."""
    url, file = environment.get("ANABRANCH_URL"), environment.get("ANABRANCH_TOKEN_FILE")
    token = environment.get("ANABRANCH_TOKEN")
    if not url or not (file or token):
        raise InvalidInputError(
            "The environment does not say where the API is, or whose token to show.",
            hint="Set ANABRANCH_URL, and ANABRANCH_TOKEN_FILE or ANABRANCH_TOKEN.",
        )
    return {"url": url, "token_file": Path(file)} if file else {"url": url, "token": token}
