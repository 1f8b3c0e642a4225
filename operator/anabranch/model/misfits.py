"""What is wrong with an object that does not fit its model, in words for whoever sent it.

pydantic speaks of tuples, inputs and patterns, to whoever wrote the model. Here each finding names the field as it
stands in the JSON, the limit, and what to do, in the same words at every door.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import ValidationError

SHOWN: Final = 3
"""How many findings stand in the text of an error."""

LISTED: Final = 100
"""How many are listed beside it."""

TELLABLE: Final = 10_000
"""How many are looked at. Each costs some microseconds to tell, and whoever has more has something else in mind."""

_FORMS: Final = {
    r"^sha256:[0-9a-f]{64}$": "is no digest: write sha256: and 64 lower-case hex digits",
    r"^(0|[1-9][0-9]{0,17})$": 'is no revision: write it as text of up to 18 digits, "0" for a new key',
    r"^[^\x00]*$": "holds a NUL character: remove it",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$": "is no name of an object: join lower-case "
    "letters and digits by - and .",
    r"^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$": "is no name of an object: join lower-case letters and digits by - and .",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "is no name of a namespace: join lower-case letters and digits by -",
}

_WORDS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "extra_forbidden": lambda _: "there is no such field: leave it out, or check its spelling",
    "missing": lambda _: "it is missing",
    "greater_than_equal": lambda ctx: f"must be at least {ctx['ge']}",
    "less_than_equal": lambda ctx: f"must be at most {ctx['le']}",
    "too_long": lambda ctx: f"has {_count(ctx)} entries, the limit is {ctx['max_length']}",
    "too_short": lambda ctx: f"has {_count(ctx)} entries, at least {ctx['min_length']} must be there",
    "string_too_long": lambda ctx: f"is longer than {ctx['max_length']} characters, which is the limit",
    "string_too_short": lambda ctx: f"is shorter than {ctx['min_length']} characters",
    "string_type": lambda _: "must be a JSON string",
    "int_type": lambda _: "must be an integer",
    "int_from_float": lambda _: "must be an integer",
    "int_parsing": lambda _: "must be an integer",
    "bool_type": lambda _: "must be true or false",
    "bool_parsing": lambda _: "must be true or false",
    "tuple_type": lambda _: "must be a JSON array",
    "list_type": lambda _: "must be a JSON array",
    "model_type": lambda _: "must be a JSON object",
    "dict_type": lambda _: "must be a JSON object",
    "literal_error": lambda ctx: f"must be {ctx['expected']}",
    "string_pattern_mismatch": lambda ctx: _FORMS.get(ctx["pattern"], f"must match {ctx['pattern']}"),
    "timezone_aware": lambda _: "lacks its offset from UTC: write it like 2026-01-31T12:00:00Z",
    "datetime_type": lambda _: "is no time: write it like 2026-01-31T12:00:00Z",
    "datetime_parsing": lambda _: "is no time: write it like 2026-01-31T12:00:00Z",
    "datetime_from_date_parsing": lambda _: "is no time: write it like 2026-01-31T12:00:00Z",
    "value_error": lambda ctx: str(ctx["error"]),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """One finding.

    Attributes:
        field: Where, as in ``changes[0].key``; empty: the whole.
        message: What is wrong with it.
        hint: What to do, where the message does not say so.
    """

    field: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def misfits(errors: Sequence[Mapping[str, Any]], *, within: str = "") -> list[Misfit]:
    """What pydantic found, each once.

    Args:
        errors: As `ValidationError.errors` lists them, with their context.
        within: What the fields are in, where their places do not tell: ``body``.
    """
    found = {}
    deepest = max((len(error["loc"]) for error in errors), default=0)
    for error in errors:
        place = (*([within] if within else []), *error["loc"])
        # Of a list whose entries do not fit it is also said that it has too few: that is no finding of its own.
        if error["type"] == "too_short" and deepest > len(error["loc"]):
            continue
        context = error.get("ctx", {})
        words = _WORDS.get(error["type"])
        message = words(context) if words else error["msg"]
        misfit = Misfit(field=_path(place), message=message.removesuffix("."), hint=context.get("hint", ""))
        found[misfit.field, misfit.message] = misfit
    return list(found.values())


def told(found: Sequence[Misfit]) -> str:
    """Findings in a sentence."""
    shown = "; ".join(map(str, found[:SHOWN]))
    return f"{shown} (and {len(found) - SHOWN} more)." if len(found) > SHOWN else f"{shown}."


def invalid(errors: Sequence[Mapping[str, Any]], *, hint: str, within: str = "") -> InvalidInputError:
    """The error for what pydantic found.

    Args:
        errors: As for `misfits`.
        hint: What to do, where no finding says so.
        within: As for `misfits`.
    """
    found = misfits(errors, within=within)
    listed = [{"field": each.field, "message": each.message} for each in found[:LISTED]]
    return InvalidInputError(told(found), hint=next((each.hint for each in found if each.hint), hint), errors=listed)


def refusal(error: ValidationError, *, hint: str, within: str = "") -> InvalidInputError:
    """The error for a value that does not fit its model.

    Args:
        error: Of the model.
        hint: As for `invalid`.
        within: As for `misfits`.
    """
    if (count := error.error_count()) > TELLABLE:
        place = f"{within}: " if within else ""
        return InvalidInputError(f"{place}does not fit {error.title} in {count} places, too many to tell.", hint=hint)
    return invalid(error.errors(include_url=False), hint=hint, within=within)


def _path(place: Sequence[int | str]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def _count(context: Mapping[str, Any]) -> str:
    return str(context.get("actual_length") or "no")
