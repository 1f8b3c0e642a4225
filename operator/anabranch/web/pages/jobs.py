"""One job: its candidates one at a time, each beside what it would replace, and what reviewers have said of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from anabranch.model.errors import NotFoundError, ReclaimedError
from anabranch.web import reading
from anabranch.web.pages import likeness
from anabranch.web.pages.merges import partners
from anabranch.web.shown import ABSENT, Member, members
from anabranch.web.voices import latest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.responses import Response

    from anabranch.model.errors import AnabranchError
    from anabranch.model.merging import Merge
    from anabranch.model.objects import ConsolidationJob, KnowledgeCandidate
    from anabranch.model.reviewing import ReviewEntry
    from anabranch.web.visit import Visit

_PROOF: Final = 4_096
"""Bytes of a source that a page shows."""

_PROOFS: Final = 4
"""Sources of a candidate whose content it shows."""

_DONE: Final = frozenset({"accept", "reject", "merge"})


@dataclass(frozen=True, slots=True)
class Proof:
    """What a source holds.

    Attributes:
        text: Its beginning; None: it is no text.
        size: Bytes of all of it.
        media_type: What its agent says that it is.
    """

    text: str | None
    size: int
    media_type: str

    @property
    def cut(self) -> bool:
        """Whether there is more of the text."""
        return self.text is not None and self.size > _PROOF


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A candidate as its page shows it.

    Attributes:
        candidate: The candidate.
        members: Its content beside the record's.
        voices: The decisions on it that count, one a reviewer.
        heard: The same, as a form carries them: a decision is made knowing them.
        own: What the visitor has decided.
        proofs: Of its evidence, by locator.
    """

    candidate: KnowledgeCandidate
    members: Sequence[Member]
    voices: Sequence[ReviewEntry]
    heard: str
    own: ReviewEntry | None
    proofs: Mapping[str, Proof] = field(default_factory=dict)

    @property
    def base_revision(self) -> str:
        """Of the record that it would replace, as the visitor sees it."""
        return _revision(self.candidate)

    def counts(self, voice: ReviewEntry) -> bool:
        """Whether a decision was made on what stands here and on what is known of it, and so counts."""
        seen = (voice.content_hash, voice.base_revision)
        return seen == (self.candidate.content_hash, self.base_revision) and not voice.before_hold


async def show(visit: Visit) -> Response:
    """The page of a job, at the candidate that the query names, else at the first one that waits."""
    return await answer(visit, chosen=visit.asked("c"), done=visit.asked("done"))


async def answer(  # noqa: PLR0913  (what a form that was refused leaves to show)
    visit: Visit,
    *,
    chosen: str = "",
    done: str = "",
    error: AnabranchError | None = None,
    reason: str = "",
    status: int = 200,
) -> Response:
    """The page of a job.

    Args:
        visit: The request.
        chosen: Id of the candidate to show.
        done: What the visitor has just decided.
        error: Why their decision was not taken.
        reason: What they had written.
        status: Of HTTP.
    """
    namespace, name = visit.name("namespace"), visit.name("job")
    job = await visit.client.job(namespace, name)
    found, entries, gone = await _read(visit, job)
    case = _case(found, chosen, entries, visit.desk.person)
    if case is not None:
        case = replace(case, proofs=await _proofs(visit, job, case.candidate))
    merges = [] if gone or case is None else await _merges(visit, job, case.candidate)
    states = [(each.candidate_id, each.state, each.content_hash, _revision(each)) for each in found]
    written = [(each.candidate_id, each.state) for each in merges]
    said = [(entry.ordinal, entry.action) for entry in entries]
    return visit.show(
        "job.html",
        status=status,
        job=job,
        baseline=await reading.baseline_of(visit.client, job),
        candidates=found,
        cut=False if gone else len(found) >= reading.CANDIDATES,
        gone=gone,
        case=case,
        **_around(found, case),
        may_decide=await visit.desk.may_decide(namespace),
        merges=merges,
        partners=[] if case is None else partners(found, case.candidate),
        version=_digest([job.state, job.failed, states, said, written]),
        together=await likeness.together(visit, job, case.candidate, found) if case is not None else None,
        done=done if done in _DONE else "",
        error=error,
        reason=reason,
    )


async def _read(visit: Visit, job: ConsolidationJob) -> tuple[list[KnowledgeCandidate], list[ReviewEntry], bool]:
    """The candidates of a job and what was said of them; and whether retention has removed them."""
    try:
        found, _ = await reading.candidates(visit.client, job)
        return found, await visit.client.reviews(job.namespace, job.name), False
    except ReclaimedError:
        return [], [], True


async def _merges(visit: Visit, job: ConsolidationJob, candidate: KnowledgeCandidate) -> list[Merge]:
    """What was proposed to make of a candidate and is none yet, or never will be."""
    found = await visit.client.merges(job.namespace, job.name)
    return [each for each in found if each.key == candidate.key and each.state != "made"]


async def _proofs(visit: Visit, job: ConsolidationJob, candidate: KnowledgeCandidate) -> dict[str, Proof]:
    """The evidence that a candidate cites: as much of it as a reviewer reads at a glance."""
    wanted = [
        source.locator
        for source in candidate.sources
        if source.status == "verified" and source.locator.startswith("evidence:")
    ][:_PROOFS]

    async def of(locator: str) -> Proof | None:
        try:
            body, media_type = await visit.client.cited_evidence(job.namespace, job.name, locator)
        except NotFoundError:  # the run is over, and retention has removed it
            return None
        return Proof(_text(body), len(body), media_type.partition(";")[0])

    found = zip(wanted, await reading.gathered(map(of, wanted)), strict=True)
    return {locator: proof for locator, proof in found if proof is not None}


def _text(body: bytes) -> str | None:
    """The beginning of a text; None: it is none."""
    if b"\0" in body[:_PROOF]:
        return None
    try:
        return body[:_PROOF].decode("utf-8", errors="strict" if len(body) <= _PROOF else "ignore")
    except UnicodeDecodeError:
        return None


def _case(found: Sequence[KnowledgeCandidate], chosen: str, entries: Sequence[ReviewEntry], person: str) -> Case | None:
    """The candidate to show."""
    candidate = next((each for each in found if each.candidate_id == chosen), None)
    candidate = candidate or next((each for each in found if each.state == "waiting"), found[0] if found else None)
    if candidate is None:
        return None
    voices = latest(entry for entry in entries if entry.candidate_id == candidate.candidate_id)
    canonical = candidate.canonical
    before = ABSENT if canonical is None or canonical.tombstone else canonical.content
    after = ABSENT if candidate.op == "tombstone" else candidate.content
    return Case(
        candidate=candidate,
        members=[] if candidate.key is None else members(before, after),
        voices=voices,
        heard=json.dumps(sorted((voice.reviewer, voice.action) for voice in voices)),
        own=next((voice for voice in voices if voice.reviewer == person), None),
    )


def _around(found: Sequence[KnowledgeCandidate], case: Case | None) -> dict[str, Any]:
    """The candidates before and after the one that is shown, and the next one that waits."""
    if case is None:
        return {"previous": None, "following": None, "place": 0}
    place = next(at for at, each in enumerate(found) if each is case.candidate)
    return {
        "previous": found[place - 1] if place else None,
        "following": found[place + 1] if place + 1 < len(found) else None,
        "place": place + 1,
    }


def next_waiting(found: Sequence[KnowledgeCandidate], after: str, decided: Sequence[str]) -> str:
    """Id of the candidate to look at after one: the next one that waits for this visitor, else the same."""
    ids = [each.candidate_id for each in found]
    at = ids.index(after) + 1 if after in ids else 0
    others = [each for each in [*found[at:], *found[:at]] if each.candidate_id not in {after, *decided}]
    return next((each.candidate_id for each in others if each.state == "waiting"), after)


def _revision(candidate: KnowledgeCandidate) -> str:
    return candidate.canonical.revision if candidate.canonical else "0"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
