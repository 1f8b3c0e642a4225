"""What a tool is: a name, words that never change, a model for what it takes and one for what it gives.

Descriptions are fixed texts. What others wrote into memory travels in the members of an answer alone, each with its
provenance, so that no client can take it for something that the server says.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mcp_types import Tool as ListedTool
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from anabranch.model.crd.base import LongToken, Name, Namespace, Token
from anabranch.model.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anabranch.client import AnabranchClient

A = TypeVar("A", bound=Wire)


class AtBranch(Wire):
    """What most tools begin with: which branch they are about."""

    namespace: Namespace = Field(description="of the Branch")
    branch: Name = Field(description="its id (br_…) or its resource's name")


class AtAgent(Wire):
    """What the tools of an agent's memory begin with: whose it is."""

    namespace: Namespace = Field(description="of your ServiceAccount")
    agent: LongToken = Field(description="your agent id: your ServiceAccount's name, unless you were given another")
    instance: Token = Field(default="default", description="which of your instances; your sessions share one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[A]):
    """A tool.

    Attributes:
        name: By which it is called.
        title: For people.
        description: What it does, and when to use it; fixed.
        takes: Its arguments.
        gives: Its answer.
        run: Does it, as whoever the client's token belongs to.
        writes: Whether it changes anything.
        repeatable: Whether doing it twice is doing it once.
        destroys: Whether what was there may be gone afterwards.
    """

    name: str
    title: str
    description: str
    takes: type[A]
    gives: type[BaseModel]
    run: Callable[[AnabranchClient, A], Awaitable[BaseModel]]
    writes: bool = False
    repeatable: bool = True
    destroys: bool = False

    def listed(self) -> ListedTool:
        """The tool as a client is told of it."""
        return ListedTool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=_taken(self.takes),
            output_schema=_given(self.gives),
            annotations=ToolAnnotations(
                title=self.title,
                read_only_hint=not self.writes,
                destructive_hint=self.destroys,
                idempotent_hint=self.repeatable,
                open_world_hint=False,
            ),
        )


# A server is made for each call of a branch's tools, and to make their schemas anew takes longer than the call: so they
# are made once. Nobody changes them.


@functools.cache
def _taken(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


@functools.cache
def _given(model: type[BaseModel]) -> dict[str, Any]:
    """The schema, whose root says that it is an object, as the older revisions of the protocol want it."""
    return {"type": "object", **model.model_json_schema(mode="serialization")}
