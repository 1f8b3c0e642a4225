"""What is recorded, as the environment says it: by OpenTelemetry's own variables, and by ours where it has none.

The standard leaves open what a caller's wish is worth who may be anybody. Two variables say it: how many such wishes
are granted, and whether a caller's trace goes on here at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

CALLERS: Final = "ANABRANCH_TRACE_CALLERS"
PER_SECOND: Final = "ANABRANCH_TRACE_CALLERS_PER_SECOND"

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_SAMPLER: Final = "OTEL_TRACES_SAMPLER"
_ARGUMENT: Final = "OTEL_TRACES_SAMPLER_ARG"
_QUEUE: Final = "OTEL_BSP_MAX_QUEUE_SIZE"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is recorded.

    Attributes:
        share: Of the traces that begin here: 0 to 1.
        heeds: Whether it counts that a caller has its own span recorded, or not.
        callers: Whether their traces go on here, or traces of our own name them.
        per_second: Wishes of callers to be recorded that are granted, to all of them together.
        queue: Spans that wait for the collector, at most.
    """

    share: float = 1.0
    heeds: bool = True
    callers: Literal["continue", "link"] = "continue"
    per_second: float = 10.0
    queue: int = 2048

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """What the variables say; None: nothing is to be exported.

        Raises:
            InvalidInputError: If one of them says something that there is not.
        """
        off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
        exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
        if off or exporter == "none" or not any(environment.get(name, "").strip() for name in _ENDPOINTS):
            return None
        if exporter != "otlp":
            raise InvalidInputError(
                f"OTEL_TRACES_EXPORTER is {exporter!r}.", hint="Spans are exported by otlp, or not at all (none)."
            )
        name = environment.get(_SAMPLER, "").strip() or "parentbased_always_on"
        match name.removeprefix("parentbased_"):
            case "always_on":
                share = 1.0
            case "always_off":
                share = 0.0
            case "traceidratio":
                share = _number(environment, _ARGUMENT, 1.0, most=1.0)
            case _:
                raise InvalidInputError(
                    f"{_SAMPLER} is {name!r}.",
                    hint="It is always_on, always_off or traceidratio, each of them also with parentbased_ before it.",
                )
        callers = environment.get(CALLERS, "").strip() or "continue"
        if callers not in {"continue", "link"}:
            raise InvalidInputError(f"{CALLERS} is {callers!r}.", hint="It is continue, or link.")
        return cls(
            share=share,
            heeds=name.startswith("parentbased_"),
            callers="link" if callers == "link" else "continue",
            per_second=_number(environment, PER_SECOND, cls.per_second, most=1e6),
            queue=int(_number(environment, _QUEUE, cls.queue, most=1e6)),
        )


def _number(environment: Mapping[str, str], name: str, default: float, *, most: float) -> float:
    text: Any = environment.get(name, "").strip() or default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        raise InvalidInputError(f"{name} is {text!r}.", hint=f"Give it a number from 0 to {most:g}.")
    return number
