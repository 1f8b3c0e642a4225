"""An evaluation set that the project makes: a memory of a fleet of services, what is found out later, and questions.

It is made from a seed, so that whoever repeats a measurement has the same one. Nothing in it is real, and no language
model had a part in it. Each service has some facts, one record each, in one of two wordings. Some time later some of
them change, some are found out anew, two agents disagree about others, and some become untrue. The questions are about
the state afterwards:

- ``fact``: what has not changed, in words that the record has;
- ``update``: what has changed; an answer must say the new value;
- ``new``: what only the findings say;
- ``contradiction``: what two findings disagree about; an answer must say the value of the one that is right;
- ``tombstone``: what became untrue; its record must not be found any more;
- ``paraphrase``: what has not changed, in words that the record does not have, but for the service's name;
- ``abstention``: what nobody ever knew.

A good memory answers ``fact`` and ``paraphrase`` before and after, and the others only after.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from anabranch.model.recall import RecallTask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SEED: Final = 7
SERVICES: Final = 60
"""Services of the set that ``built-in`` stands for."""

_FIRST: Final = (
    "amber", "brisk", "cobalt", "dapper", "ember", "frosty", "golden", "hollow", "ivory", "jolly", "keen", "lunar",
    "mellow", "noble", "opal", "placid", "quiet", "rustic", "silver", "tidal", "umber", "velvet", "woven", "young",
)  # fmt: skip
_SECOND: Final = (
    "badger", "condor", "dolphin", "egret", "falcon", "gecko", "heron", "ibis", "jackal", "kestrel", "lynx", "marten",
    "newt", "otter", "puffin", "quail", "raven", "stoat", "tapir", "urchin", "viper", "walrus", "yak", "zebra",
)  # fmt: skip
_TEAMS: Final = ("checkout", "identity", "ledger", "search", "shipping", "storage", "telemetry", "billing")
_PEOPLE: Final = ("Ada", "Boris", "Chen", "Dalia", "Emeka", "Freya", "Goran", "Hana", "Idris", "Jun", "Kaya", "Lior")
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_REGIONS: Final = ("Dublin", "Frankfurt", "Oregon", "Osaka", "Santiago", "Singapore", "Sydney", "Virginia")


@dataclass(frozen=True, slots=True)
class _Attribute:
    """Something that is known of services.

    Attributes:
        name: The last part of the record's key.
        statements: Wordings of the fact, about ``{service}`` and ``{value}``.
        question: In the words of the statements.
        paraphrase: In none of them.
        draw: Draws a value.
    """

    name: str
    statements: tuple[str, str]
    question: str
    paraphrase: str
    draw: Callable[[random.Random], str]


_ATTRIBUTES: Final = (
    _Attribute(
        "port",
        ("{service} listens on port {value}.", "The port of {service} is {value}."),
        "port of {service}",
        "where do I connect to reach {service}",
        lambda chance: str(chance.randrange(2000, 9999)),
    ),
    _Attribute(
        "owner",
        ("The owner of {service} is team {value}.", "Team {value} is the owner of {service}."),
        "owner team of {service}",
        "who looks after {service}",
        lambda chance: chance.choice(_TEAMS),
    ),
    _Attribute(
        "timeout",
        ("Requests to {service} have a timeout of {value} seconds.", "The request timeout of {service}: {value} s."),
        "request timeout of {service}",
        "how long may a call to {service} take",
        lambda chance: str(chance.randrange(3, 300)),
    ),
    _Attribute(
        "region",
        ("{service} is deployed in the region {value}.", "The deployed region of {service} is {value}."),
        "region where {service} is deployed",
        "which data centre hosts {service}",
        lambda chance: chance.choice(_REGIONS),
    ),
    _Attribute(
        "maintenance",
        ("The maintenance window of {service} opens on {value}.", "{service}: maintenance window every {value}."),
        "maintenance window of {service}",
        "when can we take {service} down",
        lambda chance: f"{chance.choice(_DAYS)} at {chance.randrange(0, 24):02}:00",
    ),
    _Attribute(
        "contact",
        ("On-call contact for {service} is {value}.", "Ask {value}, the on-call contact for {service}."),
        "on-call contact for {service}",
        "who wakes up if {service} breaks at night",
        lambda chance: f"{chance.choice(_PEOPLE)} {chance.choice(_SECOND).title()}",
    ),
)

_UNKNOWN: Final = (
    ("licence", "licence key of {service}"),
    ("budget", "yearly budget of {service}"),
    ("palette", "colour palette of {service} logo"),
)
"""What nobody ever knew of any service."""

Kind = Literal["update", "new", "contradiction", "tombstone"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A record.

    Attributes:
        key: Its key.
        text: What it says, which is its content.
    """

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What an agent finds out later.

    Attributes:
        kind: What it is to the memory.
        key: Of the record.
        text: What the record is to say; None: it is to be deleted.
        right: Whether it is true. Of two that contradict each other, one is.
    """

    kind: Kind
    key: str
    text: str | None
    right: bool = True


@dataclass(slots=True)
class EvaluationSet:
    """A memory, what is found out later, and questions about the state after that.

    Attributes:
        records: What is known at first, by key.
        findings: What is found out later; the right one of two that contradict each other comes last.
        tasks: The questions.
    """

    records: list[Statement] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    tasks: list[RecallTask] = field(default_factory=list)

    def afterwards(self) -> list[Statement]:
        """What is known once every finding that is right has become a fact, by key."""
        texts: dict[str, str] = {record.key: record.text for record in self.records}
        for finding in self.findings:
            if finding.text is None:
                texts.pop(finding.key, None)
            elif finding.right:
                texts[finding.key] = finding.text
        return [Statement(key, texts[key]) for key in sorted(texts)]


def make(*, seed: int = SEED, services: int = SERVICES) -> EvaluationSet:
    """Make a set; the same one from the same arguments.

    Args:
        seed: Of all chance in it.
        services: How many services it is about, up to 576, of which the limit of a set takes 150: there are some three
            questions for each.
    """
    return _Maker(seed).make(services)


class _Maker:
    """A set in the making."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311  (the same each time)
        self._made = EvaluationSet()

    def make(self, services: int) -> EvaluationSet:
        names = self._chance.sample([f"{one}-{other}" for one in _FIRST for other in _SECOND], services)
        for number, service in enumerate(names):
            self._service(number, service)
        # Keys in their order, as any source gives them: who reads the records learns nothing from their places.
        self._made.records.sort(key=lambda record: record.key)
        return self._made

    def _service(self, number: int, service: str) -> None:
        """A service: one of its facts has each fate that there is, which one by turns."""
        turn = number % len(_ATTRIBUTES)
        changed, new, disputed, gone, kept, other = (*_ATTRIBUTES[turn:], *_ATTRIBUTES[:turn])
        for attribute in (changed, disputed, gone, kept, other):
            self._made.records.append(Statement(_key(service, attribute), self._say(service, attribute)[0]))
        self._update(service, changed)
        match number % 5:
            case 0:
                self._found(service, new)
            case 1:
                self._dispute(service, disputed)
            case 2:
                self._delete(service, gone)
            case 3:
                self._ask("paraphrase", service, kept, kept.paraphrase)
            case _:
                name, question = _UNKNOWN[number % len(_UNKNOWN)]
                query = question.format(service=service)
                self._made.tasks.append(RecallTask(id=f"abstention/{service}/{name}", kind="abstention", query=query))
        self._ask("fact", service, other, other.question)

    def _update(self, service: str, attribute: _Attribute) -> None:
        text, value = self._say(service, attribute, but=self._texts(service, attribute))
        self._made.findings.append(Finding("update", _key(service, attribute), text))
        self._ask("update", service, attribute, attribute.question, says=value)

    def _found(self, service: str, attribute: _Attribute) -> None:
        text, value = self._say(service, attribute)
        self._made.findings.append(Finding("new", _key(service, attribute), text))
        self._ask("new", service, attribute, attribute.question, says=value)

    def _dispute(self, service: str, attribute: _Attribute) -> None:
        known = self._texts(service, attribute)
        wrong, _ = self._say(service, attribute, but=known)
        right, value = self._say(service, attribute, but=[*known, wrong])
        key = _key(service, attribute)
        self._made.findings += [
            Finding("contradiction", key, wrong, right=False),
            Finding("contradiction", key, right),
        ]
        self._ask("contradiction", service, attribute, attribute.question, says=value)

    def _delete(self, service: str, attribute: _Attribute) -> None:
        key = _key(service, attribute)
        self._made.findings.append(Finding("tombstone", key, None))
        query = attribute.question.format(service=service)
        task = RecallTask(id=f"tombstone/{service}/{attribute.name}", kind="tombstone", query=query, absent=(key,))
        self._made.tasks.append(task)

    def _ask(self, kind: str, service: str, attribute: _Attribute, question: str, *, says: str | None = None) -> None:
        self._made.tasks.append(
            RecallTask(
                id=f"{kind}/{service}/{attribute.name}",
                kind=kind,
                query=question.format(service=service),
                answers=(_key(service, attribute),),
                says=says,
            )
        )

    def _say(self, service: str, attribute: _Attribute, *, but: Sequence[str] = ()) -> tuple[str, str]:
        """A statement, and its value: one whose value none of some others has."""
        while True:
            value = attribute.draw(self._chance)
            if not any(value in text for text in but):
                return self._chance.choice(attribute.statements).format(service=service, value=value), value

    def _texts(self, service: str, attribute: _Attribute) -> list[str]:
        key = _key(service, attribute)
        return [record.text for record in self._made.records if record.key == key]


def _key(service: str, attribute: _Attribute) -> str:
    return f"services/{service}/{attribute.name}"


def notes(records: Sequence[Statement], *, count: int, seed: int = SEED) -> list[Statement]:
    """What agents write down when nobody asks what for: true, filed where it belongs, in the same words, and no use.

    Args:
        records: What is known.
        count: How many notes.
        seed: Of all chance in it.
    """
    chance = random.Random(f"notes {seed}")  # noqa: S311  (the same each time)
    made = []
    for number in range(count):
        service, name = chance.choice(records).key.split("/")[1:]
        attribute = next(one for one in _ATTRIBUTES if one.name == name)
        question = attribute.question.format(service=service)
        text = chance.choice(("Asked for the {q}. Looked the {q} up.", "{q}? Checked the {q}: nothing new."))
        made.append(Statement(f"services/{service}/{name}/run-{number:05}", text.format(q=question)))
    return made
