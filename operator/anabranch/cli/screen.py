"""What a reviewer sees of a candidate on a terminal, and what is asked of them.

Everything that is shown was written by agents: it is written out where it would paint over something, and never read as
markup. What differs is told by signs and by reversed type, not by colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from anabranch.domain import wording
from anabranch.domain.wording import visible
from anabranch.web.voices import who

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console, RenderableType

    from anabranch.domain.wording import Piece
    from anabranch.model.errors import AnabranchError
    from anabranch.model.objects import KnowledgeCandidate, SourceCheck
    from anabranch.model.reviewing import CandidateGroup, ReviewEntry

_MEMBERS: Final = 5
"""Members of a group that are told one by one."""

_LOCATOR: Final = 48
"""Characters of a locator that are shown: it stands on one line with what was found, and whole in the details."""

_SIGNS: Final = {"verified": ("✓", "verified"), "unresolved": ("✗", "not found"), "pending": ("…", "not looked up")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is to be decided.

    Attributes:
        candidate: The candidate; of a group the one that stands for it.
        voices: What reviewers have said of it, the latest of each.
        place: Which it is, from 1.
        total: Of so many that wait.
        group: The group that is decided with it.
        members: Its candidates, as far as they were read.
    """

    candidate: KnowledgeCandidate
    voices: tuple[ReviewEntry, ...]
    place: int
    total: int
    group: CandidateGroup | None = None
    members: tuple[KnowledgeCandidate, ...] = ()

    @property
    def base_revision(self) -> str:
        """Of the record that it would replace, as it is shown."""
        return self.candidate.canonical.revision if self.candidate.canonical else "0"

    @property
    def size(self) -> int:
        """How many are decided."""
        return 1 if self.group is None else self.group.members

    @property
    def keys(self) -> Mapping[str, str]:
        """What a key does."""
        all_of_them = "" if self.group is None else f" all {self.size}"
        accept = {} if self.group is not None and not self.group.acceptable else {"a": f"accept{all_of_them}"}
        one = {} if self.group is None else {"o": "one by one"}
        return {**accept, "r": f"reject{all_of_them}", **one, "s": "skip", "d": "details", "q": "quit"}


class Screen:
    """The terminal of a reviewer.

    Args:
        console: Where it is written; it knows of colours, of NO_COLOR and of the width.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, case: Case) -> None:
        """Show a case: what changes to the word, the sources, and what others have said."""
        candidate = case.candidate
        self._print(Rule(f"{case.place} of {case.total}", align="left", style="dim"))
        self._print(Text.assemble((visible(candidate.key or "a change that its branch keeps back"), "bold")))
        self._print(Text(_what(candidate)))
        if candidate.detail:
            self._print(Text(f"It waits: {visible(candidate.detail)}."))
        if case.group is not None:
            self._print(Text(f"One of {case.size} near-identical candidates of this run:", "bold"))
        self._difference(candidate)
        for source in candidate.sources:
            self._print(_source(source))
        if not candidate.sources:
            self._print(Text("  It cites no source.", "yellow"))
        self._others(case)
        for like in candidate.similar:
            self._print(Text(f"  Like {like.candidate_id} ({like.likeness:.2f}), {like.state} in {like.job_id}", "dim"))
        for voice in case.voices:
            self._print(_voice(case, voice))

    def ask(self, case: Case) -> str:
        """Ask for a key until it is one that means something; the end of the input is `q`."""
        self._print(Text.assemble(*_offered(case.keys)))
        while True:
            try:
                key = click.getchar().lower()
            except (EOFError, OSError):
                return "q"
            if key in {"\x04", "\x1b"}:
                return "q"
            if key in case.keys:
                return key

    def reason(self, action: str, *, held: bool) -> str | None:
        """Ask for a reason; None: the reviewer gave none where one is needed, and so decides nothing.

        Args:
            action: What is to be decided.
            held: Whether the recall gate holds it: whoever accepts it all the same says why.
        """
        words = "Why? (Enter for none)"
        if action == "reject":
            words = "Why? The agent reads it"
        elif held:
            words = "It costs answers: why is it to be published all the same?"
        text = " ".join(str(click.prompt(words, default="", show_default=False)).split())[:512]
        if not text and (action == "reject" or held):
            what = "A rejection" if action == "reject" else "What costs answers"
            self._print(Text(f"{what} needs a reason. Nothing was decided.", "yellow"))
            return None
        return text

    def details(self, case: Case, evidence: Mapping[str, str]) -> None:
        """Show where a candidate comes from, and what its evidence says."""
        candidate = case.candidate
        told = {
            "candidate": candidate.candidate_id,
            "author": candidate.author,
            "runs": ", ".join(candidate.origin_runs),
            "branch": candidate.branch_id or "",
            "content": candidate.content_hash or "",
            "written on": f"revision {candidate.base_revision}" if candidate.base_revision != "0" else "no record",
            "visibility": candidate.visibility,
            "seen": f"{candidate.observed_at:%Y-%m-%d %H:%M:%S %Z}",
        }
        for name, text in told.items():
            if text:
                self._print(Text(f"  {name:<11}{visible(text)}"))
        for source in candidate.sources:
            self._print(Text(f"  {'source':<11}{visible(source.locator)}"))
        for locator, text in evidence.items():
            self._print(Text(f"  {visible(locator)} says:", "bold"))
            self._indented(Text(line) for line in wording.lines_of(text))

    def decided(self, case: Case, action: str) -> None:
        """Say that a decision was taken."""
        many = f" all {case.size}" if case.group is not None else ""
        self._print(Text(f"{action.capitalize()}ed{many}. It stands under your name.", "green"))

    def refused(self, error: AnabranchError) -> None:
        """Say why a decision was not taken."""
        self._print(Text(f"Not decided. {visible(error.detail)}", "bold red"))

    def _difference(self, candidate: KnowledgeCandidate) -> None:
        record = candidate.canonical
        gone = record is None or record.tombstone
        before = [] if record is None or gone else wording.lines_of(record.content)
        after = ["(the key is deleted)"] if candidate.op == "tombstone" else wording.lines_of(candidate.content)
        if record is not None and not gone:
            self._print(Text(f"- the record, revision {record.revision}    + the candidate", "dim"))
        self._indented(_compared(before, after))

    def _others(self, case: Case) -> None:
        """The other members of a group, by what differs of them."""
        others = [member for member in case.members if member is not case.candidate]
        lines = wording.lines_of(case.candidate.content)
        for member in others[:_MEMBERS]:
            self._print(Text.assemble("  ", (visible(member.key or ""), "bold")))
            own = wording.lines_of(member.content)
            self._indented(_compared(lines, own) if own != lines else [Text("  the same content")])
        left = case.size - 1 - min(len(others), _MEMBERS)
        if left > 0:
            self._print(Text(f"  and {left} more", "dim"))

    def _indented(self, lines: Iterable[Text]) -> None:
        for line in lines:
            self._print(Padding(line, (0, 0, 0, 4)))

    def _print(self, what: RenderableType) -> None:
        self._console.print(what)


def _what(candidate: KnowledgeCandidate) -> str:
    name, home = who(candidate.author)
    proposal = (
        "wants this record deleted"
        if candidate.op == "tombstone"
        else "proposes a new record"
        if candidate.canonical is None
        else "proposes another content"
    )
    where = f", scope {candidate.scope}"
    conflict = " CONFLICT:" if candidate.conflicting else ""
    return f"{conflict} {visible(name)}{f' of {visible(home)}' if home else ''} {proposal}{where}".strip()


def _compared(before: Sequence[str], after: Sequence[str]) -> list[Text]:
    """Lines with their signs, the words that differ reversed."""
    stretches = wording.compare(before, after)
    if stretches is None:
        return [Text(f"{len(before)} lines before, {len(after)} after: too many to compare here")]
    found: list[Text] = []
    for stretch in stretches:
        if stretch.same:
            found += [_line(" ", line, "") for line in stretch.before]
        else:
            found += [_line("-", line, "red") for line in stretch.before]
            found += [_line("+", line, "green") for line in stretch.after]
    return found


def _line(sign: str, pieces: Iterable[Piece], colour: str) -> Text:
    text = Text(f"{sign} ", style=colour)
    for piece in pieces:
        text.append(piece.text, f"{colour} reverse" if piece.marked else colour)
    return text


def _source(source: SourceCheck) -> Text:
    sign, told = _SIGNS.get(source.status, ("…", source.status))
    detail = f": {visible(source.detail)}" if source.detail and source.status != "verified" else ""
    colour = "green" if source.status == "verified" else "red"
    locator = visible(source.locator)
    brief = locator if len(locator) <= _LOCATOR else f"{locator[: _LOCATOR - 1]}…"
    return Text.assemble(f"  {sign} ", brief, (f"  {told}{detail}", colour))


def _voice(case: Case, voice: ReviewEntry) -> Text:
    counts = (voice.content_hash, voice.base_revision) == (case.candidate.content_hash, case.base_revision)
    then = "" if counts else ", as it stood then: that does not count for this revision"
    if voice.before_hold:
        then = ", before the recall gate held it: that does not count"
    reason = f": {visible(voice.reason)}" if voice.reason else ""
    return Text(f"  {visible(who(voice.reviewer)[0])} {voice.action}ed this{then}{reason}", "bold")


def _offered(keys: Mapping[str, str]) -> list[str | tuple[str, str]]:
    parts: list[str | tuple[str, str]] = []
    for key, told in keys.items():
        parts += [(key, "bold underline"), f" {told}   "]
    return parts
