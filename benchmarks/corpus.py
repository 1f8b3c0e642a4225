"""A corpus for search, and questions to it whose answers are known: the same each time, of any size.

Notes as agents write them: a title of a few words and a text of some forty, in words whose frequencies follow Zipf's
law, as those of languages do. A note is about a topic, whose own words it has more often, and names something that few
others name (a host, a build, a ticket). A question is what somebody remembers of one note: some of its words as they
come, frequent ones included, in half of them a word that it does not have. So each question has one right answer, and
most have words in them that a tenth of all notes have. One in ten asks by frequent words alone.
"""

from __future__ import annotations

import bisect
import itertools
import random
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

VOCABULARY: Final = 60_000
FREQUENT: Final = 100
"""The most frequent words; the least of them is in a fiftieth of all notes or so."""

TOPICS: Final = 500
_OF_TOPIC: Final = 30
_EXPONENT: Final = 1.05
_CONSONANTS, _VOWELS = "bcdfghklmnprstvwz", "aeiou"


@dataclass(frozen=True, slots=True)
class Note:
    """A note.

    Attributes:
        key: Of its record.
        text: What it says.
    """

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Attributes:
        text: Its words.
        answer: The key of the note that it was made of; None where only frequent words are asked for.
    """

    text: str
    answer: str | None


def notes(count: int) -> Iterator[Note]:
    """So many notes."""
    return (note(number) for number in range(count))


def note(number: int) -> Note:
    """One note, always the same."""
    chance = random.Random(number)
    words, bounds = _vocabulary()
    topic = chance.randrange(TOPICS)
    size = max(8, min(int(chance.lognormvariate(3.6, 0.5)), 400))
    drawn = [words[bisect.bisect(bounds, chance.random() * bounds[-1])] for _ in range(size)]
    own = _topic(topic)
    for place in chance.sample(range(size), size // 5):
        drawn[place] = own[int(len(own) * chance.random() ** 2)]
    drawn.insert(size // 2, f"{chance.choice('hbt')}{chance.randrange(200_000)}")
    return Note(f"topic-{topic}/note-{number}", " ".join(drawn))


def questions(count: int, *, of: int) -> list[Question]:
    """So many questions to a corpus of a size."""
    chance = random.Random(of)
    words, _ = _vocabulary()
    made = []
    for number in range(count):
        if number % 10 == 9:
            asked = chance.sample(words[:FREQUENT], chance.randint(2, 4))
            made.append(Question(" ".join(asked), None))
            continue
        target = note(chance.randrange(of))
        asked = chance.sample(target.text.split(), chance.randint(3, 6))
        if number % 2:
            asked.append(words[chance.randrange(VOCABULARY)])
        made.append(Question(" ".join(asked), target.key))
    return made


@lru_cache(maxsize=1)
def _vocabulary() -> tuple[list[str], list[float]]:
    """Words, the most frequent first, and the sums of their frequencies so far."""
    chance = random.Random(0)
    seen: dict[str, None] = {}
    while len(seen) < VOCABULARY:
        syllables = 1 + len(seen).bit_length() // 6 + chance.randrange(2)
        seen["".join(chance.choice(_CONSONANTS) + chance.choice(_VOWELS) for _ in range(syllables))] = None
    return list(seen), list(itertools.accumulate((rank + 2) ** -_EXPONENT for rank in range(VOCABULARY)))


@lru_cache(maxsize=TOPICS)
def _topic(topic: int) -> list[str]:
    """The words of a topic."""
    words, _ = _vocabulary()
    return random.Random(f"topic {topic}").sample(words[200:], _OF_TOPIC)
