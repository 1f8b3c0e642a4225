"""What there is to be asked about some candidates: the texts as they are now, and how an answer is to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from anabranch.domain.merging import narrowest
from anabranch.model.canonical import parse_json
from anabranch.model.errors import ConflictError
from anabranch.proposals import answer, prompt
from anabranch.store import candidates, contents, lines, records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anabranch.store.candidates import CandidateRow
    from anabranch.store.database import Connection
    from anabranch.store.proposals import Question
    from anabranch.store.records import RecordRow

SUMMARY: Final = "/summary"
"""How the key of a summary ends, behind what the keys of its findings have in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posed:
    """A question with all that it is about.

    Attributes:
        messages: For the model.
        sides: The contents in it, canonical JSON, each once.
        base_revision: Of the record that its key has; 0: it has none.
        with_record: Whether that is one of the sides.
        read: Reads an answer.
    """

    messages: Sequence[Mapping[str, str]]
    sides: Sequence[bytes]
    base_revision: int
    with_record: bool
    read: Callable[[str], answer.Written | answer.Nothing]


@dataclass(frozen=True, slots=True)
class Pointless:
    """Nothing is asked about some candidates; why, CamelCase."""

    reason: str


async def pose(conn: Connection, question: Question, *, limit: int) -> Posed | Pointless | None:
    """Put a question into words.

    Args:
        conn: Inside a transaction that has locked the job.
        question: The question.
        limit: Bytes of text that it may have at most.

    Returns:
        None: the candidates do not all wait in the job any more.
    """
    rows = await candidates.of_job_by_id(
        conn, line=question.line, job_id=question.job_id, candidate_ids=list(question.inputs)
    )
    if len(rows) < len(question.inputs) or any(row.state != "waiting" for row in rows):
        return None
    record = await _record(conn, question)
    said = None if record is None or record.tombstone or not _is_side(question, rows) else record
    try:
        narrowest([*(row.scope for row in rows), *([] if said is None else [said.scope])])
    except ConflictError:
        return Pointless("ScopesDiffer")
    hashes = [*([] if said is None else [said.content_hash]), *(row.content_hash for row in rows)]
    unlike = list(dict.fromkeys(hashes))
    if len(unlike) < 2:
        return Pointless("OneSide")
    # Before they are read: a job may have hundreds of a megabyte each.
    if sum((await contents.sizes(conn, line=question.line, hashes=unlike)).values()) > limit:
        return Pointless("TooLarge")
    bodies = await contents.get_many(conn, line=question.line, hashes=unlike)
    sides = [bodies[digest] for digest in unlike]
    messages = _messages(question, rows, record=None if said is None else bodies[said.content_hash], bodies=bodies)
    if prompt.size(messages) > limit:
        return Pointless("TooLarge")
    read = answer.merged if question.kind == "merge" else answer.summed_up
    return Posed(
        messages=messages,
        sides=sides,
        base_revision=0 if record is None else record.revision,
        with_record=said is not None,
        read=lambda text: read(text, sides=sides),
    )


async def _record(conn: Connection, question: Question) -> RecordRow | None:
    """The record that a proposal would replace."""
    head = await lines.head(conn, question.line)
    found = await records.current_of(conn, line=question.line, generation=head.head_generation, keys=[question.key])
    return found.get(question.key)


def _is_side(question: Question, rows: Sequence[CandidateRow]) -> bool:
    """Whether what the record says is part of what is asked: not where all findings knew it, and replace it."""
    return question.kind == "summary" or any(row.conflicting for row in rows)


def _messages(
    question: Question, rows: Sequence[CandidateRow], *, record: bytes | None, bodies: Mapping[bytes, bytes]
) -> list[dict[str, str]]:
    known = None if record is None else parse_json(record)
    if question.kind == "summary":
        findings = [(row.key, parse_json(bodies[row.content_hash])) for row in rows]
        return prompt.summary(topic=question.key.removesuffix(SUMMARY), record=known, findings=findings)
    digests = dict.fromkeys(row.content_hash for row in rows)
    said = [parse_json(bodies[digest]) for digest in digests if bodies[digest] != record]
    return prompt.merge(key=question.key, record=known, findings=said)
