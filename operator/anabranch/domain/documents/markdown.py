"""Markdown, cut at its headings.

The cuts are found by a CommonMark parser, not by a pattern: a ``#`` in a fenced block is a comment of somebody's shell
script, and a heading inside a quotation belongs to the quotation. The text between two cuts is kept as it was typed, so
nothing of a document is lost and nothing is rendered.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from markdown_it import MarkdownIt

from anabranch.domain.documents.record import DocumentRecord, at_place, checked_record
from anabranch.domain.documents.strict_yaml import parse_yaml
from anabranch.model.errors import InvalidInputError
from anabranch.model.text import check_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BLOCKS: Final = MarkdownIt("commonmark").disable("inline")
_INLINES: Final = MarkdownIt("commonmark")
_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_NOT_IN_SLUG: Final = re.compile(r"[^\w\- ]")

SLUG_BYTES: Final = 64
"""Longest slug of one heading, so that six nested headings and a path stay within a key's limit."""


def split_markdown(path: str, key: str, text: str) -> Iterator[DocumentRecord]:
    r"""The records of a Markdown document: one for the file, one for each further heading.

    The file's own record holds the text before the first heading and, where that heading is of level 1, its section and
    title. Every other heading, with the text up to the next heading of any level, is a record under
    ``<key>#<slug>/<slug of the sub-heading>``. Content is ``{"title": …, "text": …}``, in the file's own record also
    ``"attributes"``: the members of the front matter that an import has no meaning for.

    Args:
        path: The file's path, for people.
        key: The key of the file's own record, unless front matter names another.
        text: The document, lines ended by ``\n``.

    Raises:
        InvalidInputError: Naming the file and the line.
    """
    front, start = _front_matter(path, text)
    try:
        key = check_key(front.pop("key", key))
    except InvalidInputError as error:
        raise at_place(path, error) from None
    common = {name: front.pop(name) for name in ("scope", "sources", "visibility") if name in front}
    title = front.pop("title", None)
    lines = text.split("\n")
    sections = _sections(lines, start)

    own = sections[0]
    if len(sections) > 1 and sections[1].level == 1:
        own = _Section(line=own.line, level=1, title=sections[1].title, body=[*own.body, *sections[1].body])
        sections[1:2] = []
    own_text = _text(own.body)
    if own_text or own.title or title is not None or front:
        content: dict[str, Any] = {"title": own.title or title or PurePosixPath(path).stem, "text": own_text}
        if attributes := front | ({"title": title} if own.title and title is not None else {}):
            content["attributes"] = attributes
        yield checked_record(key=key, content=content, place=path, **common)

    for slug, section in _slugged(sections[1:]):
        yield checked_record(
            key=f"{key}#{slug}",
            content={"title": section.title, "text": _text(section.body)},
            place=f"{path}:{section.line + 1}",
            **common,
        )


@dataclass(frozen=True, slots=True)
class _Section:
    """A heading and the lines below it; level 0 and no title for what stands before the first heading."""

    line: int
    level: int
    title: str
    body: Sequence[str]


def _front_matter(path: str, text: str) -> tuple[dict[str, Any], int]:
    """The YAML object between two ``---`` lines at the very top, and the number of lines that it takes."""
    match = _FRONT_MATTER.match(text)
    if not match:
        return {}, 0
    # The opening line is kept as an empty one, so that the parser counts lines as an editor does.
    value = parse_yaml("\n" + match[1], place=path)
    if not isinstance(value, dict):
        return {}, 0  # two thematic breaks with text between them
    return value, match[0].count("\n")


def _sections(lines: list[str], start: int) -> list[_Section]:
    """Cut the lines from ``start`` on at the top-level headings; the first section has no heading."""
    tokens = _BLOCKS.parse("\n".join(lines[start:]))
    cuts = [(start, start, 0, "")]
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open" and opening.level == 0 and opening.map:
            first, end = opening.map
            title = " ".join(inline.content.split())
            cuts.append((start + first, start + end, int(opening.tag[1:]), title))
    ends = [cut[0] for cut in cuts[1:]] + [len(lines)]
    return [
        _Section(line=line, level=level, title=title, body=lines[body:end])
        for (line, body, level, title), end in zip(cuts, ends, strict=True)
    ]


def _slugged(sections: Sequence[_Section]) -> Iterator[tuple[str, _Section]]:
    """Each section with the slug path of its heading, unique in the document as a forge makes them."""
    parents: list[tuple[int, str]] = []
    taken: set[str] = set()
    for section in sections:
        while parents and parents[-1][0] >= section.level:
            parents.pop()
        base = "/".join([*(slug for _, slug in parents), _slug(section.title)])
        path, number = base, 0
        while path in taken:
            number += 1
            path = f"{base}-{number}"
        taken.add(path)
        parents.append((section.level, path.rpartition("/")[2]))
        yield path, section


def _slug(title: str) -> str:
    """A heading's anchor: lower case, words joined by hyphens, punctuation dropped."""
    tokens = _INLINES.parseInline(title)[0].children or []
    plain = "".join(
        " " if token.type == "softbreak" else token.content for token in tokens if token.type != "html_inline"
    )
    words = _NOT_IN_SLUG.sub("", unicodedata.normalize("NFC", plain).lower()).strip()
    slug = unicodedata.normalize("NFC", words.replace(" ", "-"))
    return slug.encode()[:SLUG_BYTES].decode(errors="ignore").rstrip("-") or "section"


def _text(lines: Sequence[str]) -> str:
    """The lines as typed, without the blank ones around them."""
    first, end = 0, len(lines)
    while first < end and not lines[first].strip():
        first += 1
    while end > first and not lines[end - 1].strip():
        end -= 1
    return "\n".join(lines[first:end])
