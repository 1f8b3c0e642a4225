"""Pages: how many items, and from where on. A cursor opens only the list, with the filters, that it came from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from anabranch.domain.cursor import Sealer
from anabranch.model.limits import PAGE_DEFAULT, PAGE_MAX

T = TypeVar("T")


class QueryModel(BaseModel):
    """Query parameters: closed, since one that is misspelt and ignored would answer another question."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Paging(QueryModel):
    """The query parameters of a list."""

    limit: int = Field(PAGE_DEFAULT, ge=1, le=PAGE_MAX, description="items at most")
    cursor: str | None = Field(None, max_length=2048, description="`next_cursor` of the page before")


PageQuery = Annotated[Paging, Query()]


@dataclass(frozen=True, slots=True)
class Pager:
    """Makes and opens the cursors of one list.

    Attributes:
        sealer: Seals them.
        purpose: Names the list and all its filters.
    """

    sealer: Sealer
    purpose: str

    def place(self, cursor: str | None) -> Any:
        """Where a cursor says to go on; None at the beginning."""
        return None if cursor is None else self.sealer.open(self.purpose, cursor)[0]

    def cursor(self, place: Any) -> str | None:
        """The cursor for a place; None where the list ends."""
        return None if place is None else self.sealer.seal(self.purpose, [place])

    def after(self, items: Sequence[T], limit: int, place: Callable[[T], Any]) -> str | None:
        """The cursor behind the last of some items; None if they are fewer than were asked for."""
        return self.cursor(place(items[-1])) if len(items) >= limit else None
