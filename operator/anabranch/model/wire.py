"""What everything on the wire is made of: the types of fields, and a base that is frozen and closed.

An unknown field is an error, not a surprise. Revisions are decimal strings (they may outgrow 2^53-1); sequences and
generations are integers.
"""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from anabranch.model import limits
from anabranch.model.errors import AnabranchError
from anabranch.model.locators import check_locator
from anabranch.model.text import check_key, check_scope


def _valid(check: Any) -> AfterValidator:
    """A model-level check as a pydantic validator: its error keeps its words, and its hint (see `misfits`)."""

    def validate(value: str) -> str:
        try:
            return str(check(value))
        except AnabranchError as error:
            told = {"detail": error.detail, "hint": error.hint}
            raise PydanticCustomError("refused", "{detail}", told) from None

    return AfterValidator(validate)


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time lies outside the years 1 to 9999 of UTC") from None


def _tellable(value: datetime) -> datetime:
    """The years 1 and 9999 are none of anything that happened.

    Their outermost moments are what programs send for "not set", and what the database's driver takes for infinity: no
    answer could tell that.
    """
    if not MINYEAR < value.year < MAXYEAR:
        raise ValueError("the time lies outside the years 2 to 9998 of UTC: leave it out where it is not known")
    return value


Hash = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Revision = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,17})$")]
Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
TellableMoment = Annotated[AwareDatetime, AfterValidator(_in_utc), AfterValidator(_tellable)]
"""A time that others are told."""

Sequence = Annotated[int, Field(ge=1, le=limits.MAX_SAFE_INTEGER)]
Generation = Annotated[int, Field(ge=1, le=limits.MAX_SAFE_INTEGER)]
Key = Annotated[str, _valid(check_key)]
Scope = Annotated[str, _valid(check_scope)]
Locator = Annotated[str, _valid(check_locator)]
Visibility = Literal["private", "shareable"]
Traceparent = Annotated[str, StringConstraints(pattern=r"^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$")]
Layer = Literal["base", "shared", "private", "merged"]
"""What of a record to look at: the parent manifest, the followed updates, the private overlay, or all of them."""


def is_none(value: object) -> bool:
    """Whether there is nothing to be said in a field that is left out then."""
    return value is None


class Wire(BaseModel):
    """What every object on the wire has in common: frozen, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")
