"""What the three kinds have in common: field types, conditions, and CEL rules that travel with the field they guard.

One set of classes serves four readers. The operator parses `spec` and writes `status` through them; the schemas in
`crds/` are generated from them (see `schema`); the docstring under each attribute is what `kubectl explain` prints;
and the rules stand beside the field. A rule is CEL only, never repeated in Python: the API server refuses the object
before any program of ours sees it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel

from anabranch.model import limits

GROUP: Final = "anabranch.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"


class Rule(NamedTuple):
    """A CEL rule: `self` is the value that it stands on, `oldSelf` what it was. The message says what to do."""

    rule: str
    message: str


def rules(*entries: Rule, **extra: Any) -> dict[str, Any]:
    """CEL rules, and other schema members of Kubernetes' own, for `json_schema_extra`."""
    return {"x-kubernetes-validations": [entry._asdict() for entry in entries], **extra}


SET: Final[dict[str, Any]] = {"x-kubernetes-list-type": "set"}


def map_by(key: str) -> dict[str, Any]:
    """Schema members of a list whose items are told apart by one field: appliers own items, not the list."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class Spec(BaseModel):
    """A part of what people write: frozen, and closed, since a field that is ignored would be a false promise."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )


def _without_defaults(schema: dict[str, Any]) -> None:
    """What one program writes whole needs nothing filled in; the API server would fill it in before we were there."""
    for field in schema.get("properties", {}).values():
        field.pop("default", None)


class Report(BaseModel):
    """A part of what the operator writes. Unknown fields are dropped: another release may have written them."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        json_schema_extra=_without_defaults,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )


class Status(Report):
    """The root of a `status`."""

    def whole(self) -> dict[str, Any]:
        """The whole status in its JSON form; what is None is left out, for it is written in place of the one before."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


_DURATION: Final = r"^[1-9][0-9]{0,5}(s|m|h)$"
_PERIOD: Final = r"^[1-9][0-9]{0,5}(s|m|h|d)$"
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration(value: Any) -> timedelta:
    """Parse a duration as the resources write it: a whole number and a unit, `30s`, `5m` or `1h`.

    Raises:
        ValueError: If it has another form.
    """
    return _parse(value, form=_DURATION, examples="30s, 5m, 1h")


def format_duration(value: timedelta) -> str:
    """The shortest text that `parse_duration` reads back; fractions of a second are dropped."""
    return _format(value, units="hms")


def parse_period(value: Any) -> timedelta:
    """Parse how long something is kept: like a duration, and in days too, `12h` or `30d`.

    Raises:
        ValueError: If it has another form.
    """
    return _parse(value, form=_PERIOD, examples="90s, 12h, 30d")


def format_period(value: timedelta) -> str:
    """The shortest text that `parse_period` reads back; fractions of a second are dropped."""
    return _format(value, units="dhms")


def _parse(value: Any, *, form: str, examples: str) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str) or not re.fullmatch(form, value):
        raise ValueError(f"a duration is a whole number and a unit: {examples}")
    return timedelta(seconds=int(value[:-1]) * _UNITS[value[-1]])


def _format(value: timedelta, *, units: str) -> str:
    seconds = int(value.total_seconds())
    unit = next(unit for unit in units if seconds % _UNITS[unit] == 0)
    return f"{seconds // _UNITS[unit]}{unit}"


def _format_time(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_SCOPE: Final = r"^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*$"
_REASON: Final = r"^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$"
_TOKEN: Final = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"  # noqa: S105  (a token of grammar, not of identity)

Name = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=_NAME)]
Namespace = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Scope = Annotated[str, StringConstraints(min_length=1, max_length=limits.SCOPE_BYTES, pattern=_SCOPE)]
Token = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=_TOKEN)]
LongToken = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=_TOKEN)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z]+(_[0-9a-z]{26}){1,2}$")]
Hash = Annotated[str, StringConstraints(min_length=71, max_length=71, pattern=r"^sha256:[0-9a-f]{64}$")]
Revision = Annotated[str, StringConstraints(min_length=1, max_length=18, pattern=r"^(0|[1-9][0-9]{0,17})$")]
Count = Annotated[int, Field(ge=0, le=limits.MAX_SAFE_INTEGER)]
Ordinal = Annotated[int, Field(ge=1, le=limits.MAX_SAFE_INTEGER)]
Time = Annotated[datetime, PlainSerializer(_format_time, return_type=str)]
Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _DURATION, "maxLength": 7}),
]
Period = Annotated[
    timedelta,
    BeforeValidator(parse_period),
    PlainSerializer(format_period, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _PERIOD, "maxLength": 7}),
]


class Condition(Report):
    """One condition, in the form that all of Kubernetes uses."""

    type: Annotated[str, StringConstraints(min_length=1, max_length=316, pattern=r"^[A-Z][A-Za-z]*$")]
    """What the condition is about: Ready, or another word in CamelCase."""

    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""

    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation of the spec that was looked at."""

    last_transition_time: Time
    """When `status` last changed."""

    reason: Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=_REASON)]
    """Why, as one word that programs can test."""

    message: Annotated[str, StringConstraints(max_length=32768)]
    """Why, and what to do about it, in a sentence for people."""
