"""Identifiers: a prefix that tells the kind, and UUIDv7 in Crockford base32 (the TypeID alphabet, 26 characters).

Ids of what belongs to a line embed the line: ``br_<line>_<own>``. So a request that names a branch, a job or a
candidate names its line too, and the line decides which database holds it. No id is longer than 63 characters: each
fits a Kubernetes label value.
"""

from __future__ import annotations

import re
from typing import Final, NewType

import uuid_utils

from anabranch.model.errors import InvalidInputError

LineId = NewType("LineId", str)
BaselineId = NewType("BaselineId", str)
BranchId = NewType("BranchId", str)
RunId = NewType("RunId", str)
JobId = NewType("JobId", str)
CandidateId = NewType("CandidateId", str)
EventId = NewType("EventId", str)
ReceiptId = NewType("ReceiptId", str)
RetractionId = NewType("RetractionId", str)

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = [first + second for first in _ALPHABET for second in _ALPHABET]
_OWN: Final = r"[0-7][0-9abcdefghjkmnpqrstvwxyz]{25}"
_LINE: Final = re.compile(rf"ln_({_OWN})")
_OF_LINE: Final = re.compile(rf"(bl|br|run|job|cand|ev|rcpt|retr)_({_OWN})_({_OWN})")


def base32(number: int) -> str:
    """A 128-bit number as 26 characters that sort as the number does."""
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])


def new_line_id() -> LineId:
    """A fresh line id, ``ln_…``."""
    return LineId(f"ln_{_own()}")


def new_baseline_id(line: LineId) -> BaselineId:
    """A fresh id of one manifest of a line."""
    return BaselineId(_of_line("bl", line))


def new_branch_id(line: LineId) -> BranchId:
    """A fresh branch id."""
    return BranchId(_of_line("br", line))


def new_run_id(line: LineId) -> RunId:
    """A fresh run id; a branch is one run."""
    return RunId(_of_line("run", line))


def new_job_id(line: LineId) -> JobId:
    """A fresh consolidation job id."""
    return JobId(_of_line("job", line))


def new_candidate_id(line: LineId) -> CandidateId:
    """A fresh candidate id."""
    return CandidateId(_of_line("cand", line))


def new_event_id(line: LineId) -> EventId:
    """A fresh event id."""
    return EventId(_of_line("ev", line))


def new_receipt_id(line: LineId) -> ReceiptId:
    """A fresh receipt id."""
    return ReceiptId(_of_line("rcpt", line))


def new_retraction_id(line: LineId) -> RetractionId:
    """A fresh retraction id."""
    return RetractionId(_of_line("retr", line))


def line_of(identifier: str) -> LineId:
    """The line that an id belongs to.

    Raises:
        InvalidInputError: If the text is no id of this system.
    """
    if match := _OF_LINE.fullmatch(identifier):
        return LineId(f"ln_{match[2]}")
    if _LINE.fullmatch(identifier):
        return LineId(identifier)
    raise InvalidInputError(f"{identifier[:80]!r} is no Anabranch id.", hint="Use an id from a status or an answer.")


def is_id(prefix: str, identifier: str) -> bool:
    """Whether a text is an id with this prefix."""
    pattern = _LINE if prefix == "ln" else _OF_LINE
    return bool(pattern.fullmatch(identifier)) and identifier.startswith(f"{prefix}_")


def _own() -> str:
    return base32(uuid_utils.uuid7().int)


def _of_line(prefix: str, line: LineId) -> str:
    return f"{prefix}_{line.removeprefix('ln_')}_{_own()}"
