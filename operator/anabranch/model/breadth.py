"""Whether a value has about as many members and entries as its model says: looked at before it is validated.

pydantic notes each thing that does not fit. Of a batch of eight megabytes that is one list of numbers these are two
million, which take half a minute and three gigabytes: one request would end the process. So what is far too broad is
refused for that alone, and first; what is not has few enough faults for all of them to be told.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args, get_origin

from annotated_types import MaxLen
from pydantic import BaseModel

from anabranch.model.errors import InvalidInputError
from anabranch.model.limits import BATCH_CHANGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

STRANGERS: Final = 100
"""Members that no field of a model has, in all of a value, beyond which the rest is not looked at."""

ENTRIES: Final = BATCH_CHANGES
"""Entries of a list that says no limit of its own."""

SMALL_BYTES: Final = 4 << 10
"""A body of so many bytes has room for a few thousand faults at most: that costs less than to look."""


@dataclass(frozen=True, slots=True)
class _Object:
    fields: Mapping[str, _Shape | None]


@dataclass(frozen=True, slots=True)
class _List:
    entry: _Shape | None
    limit: int


_Shape = _Object | _List


def check_breadth(model: type[BaseModel], value: Any, *, within: str = "") -> None:
    """Check that a parsed JSON value is not much broader than its model; what it holds is the model's to say.

    Args:
        model: What it is to be.
        value: As it was parsed.
        within: What the fields are in, for the error: ``body``.

    Raises:
        InvalidInputError: If a list is longer than it may be, or there are over a hundred members that no field has.
    """
    _look(_shape(model), value, within, Strangers())


class Strangers:
    """Counts the members of a value that have no field."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, names: Iterable[str], place: str) -> None:
        """Count those of one object.

        Raises:
            InvalidInputError: If there are too many by now.
        """
        for name in names:
            self.count += 1
            if self.count > STRANGERS:
                raise InvalidInputError(
                    f"{f'{place}.{name[:60]}'.removeprefix('.')}: there is no such field, nor are there {STRANGERS} "
                    "others that were sent.",
                    hint="Send what GET /openapi.json describes.",
                )


def _look(shape: _Shape | None, value: Any, place: str, strangers: Strangers) -> None:
    if isinstance(shape, _Object) and isinstance(value, dict):
        strangers.note((name for name in value if name not in shape.fields), place)
        for name, below in shape.fields.items():
            if below is not None and name in value:
                _look(below, value[name], f"{place}.{name}", strangers)
    elif isinstance(shape, _List) and isinstance(value, list):
        if len(value) > shape.limit:
            raise InvalidInputError(
                f"{place.removeprefix('.')}: has {len(value)} entries, the limit is {shape.limit}.",
                hint="Send less at once.",
            )
        if shape.entry is not None:
            for index, each in enumerate(value):
                _look(shape.entry, each, f"{place}[{index}]", strangers)


@functools.cache
def _shape(model: type[BaseModel]) -> _Object:
    return _Object(
        {field.alias or name: _shape_of(field.annotation, field.metadata) for name, field in model.model_fields.items()}
    )


def _shape_of(annotation: Any, metadata: Iterable[Any] = ()) -> _Shape | None:
    """The shape of a field; None: there is nothing to count, or it may be anything."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape_of(arguments[0], arguments[1:])
    if origin in (Union, UnionType):
        return next((shape for one in arguments if (shape := _shape_of(one)) is not None), None)
    if origin in (tuple, list):
        limit = next((each.max_length for each in metadata if isinstance(each, MaxLen)), ENTRIES)
        return _List(_shape_of(arguments[0]), limit)
    return _shape(annotation) if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
