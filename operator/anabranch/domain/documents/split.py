"""Which format a file has, and from bytes to records.

A format is told by the file's ending alone: an import must say beforehand what it will take, and guessing from content
would turn a log into knowledge.
"""

from __future__ import annotations

import unicodedata
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from anabranch.domain.documents.markdown import split_markdown
from anabranch.domain.documents.record import DocumentRecord, at_place, checked_record, explicit_record, is_explicit
from anabranch.domain.documents.strict_yaml import parse_yaml_documents
from anabranch.model.canonical import hash_text, parse_json
from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class DocumentFormat(StrEnum):
    """A format that an import understands."""

    MARKDOWN = "Markdown"
    JSON = "JSON"
    YAML = "YAML"
    JSON_LINES = "JSON Lines"


_ENDINGS: Final = {
    ".md": DocumentFormat.MARKDOWN,
    ".markdown": DocumentFormat.MARKDOWN,
    ".json": DocumentFormat.JSON,
    ".yaml": DocumentFormat.YAML,
    ".yml": DocumentFormat.YAML,
    ".jsonl": DocumentFormat.JSON_LINES,
    ".ndjson": DocumentFormat.JSON_LINES,
}


def document_format(path: str) -> DocumentFormat | None:
    """The format that a path's ending names, or None where an import does not understand it."""
    return _ENDINGS.get(PurePosixPath(path).suffix.lower())


def import_locator(path: str, digest: bytes) -> str:
    """The source locator of what a file states: ``import:<path>@sha256:…``, by the SHA-256 of the file's bytes."""
    return f"import:{unicodedata.normalize('NFC', path)}@{hash_text(digest)}"


def split(path: str, data: bytes) -> Iterator[DocumentRecord]:
    """The records of one file.

    - Markdown: one for the file and one for each heading (see `split_markdown`).
    - JSON, YAML: those that the file states (a list of ``{key, content, …}`` objects, bare or as the only member
      ``records``), else one whose content is the file's value: of several YAML documents, their list.
    - JSON Lines: see `split_lines`.

    A file's key is its path without the ending, in NFC.

    Args:
        path: The file's path below the imported root, with ``/`` between names.
        data: Its bytes, UTF-8 with or without a byte order mark.

    Returns:
        The records in the order of the file. Keys may repeat, and scopes may be absent: both are the caller's matter.

    Raises:
        InvalidInputError: Naming the file, the line where there is one, and what to do.
    """
    match document_format(path):
        case DocumentFormat.MARKDOWN:
            text = _text(path, data).replace("\r\n", "\n").replace("\r", "\n")
            yield from split_markdown(path, _file_key(path), text)
        case DocumentFormat.JSON:
            yield from _of_value(path, _json(path, _text(path, data)))
        case DocumentFormat.YAML:
            documents = [d for d in parse_yaml_documents(_text(path, data), place=path) if d is not None]
            if documents:
                yield from _of_value(path, documents if len(documents) > 1 else documents[0])
        case DocumentFormat.JSON_LINES:
            yield from split_lines(path, data.split(b"\n"))
        case None:
            raise InvalidInputError(
                f"{path}: no format is known by this ending.", hint=f"Use one of {', '.join(sorted(_ENDINGS))}."
            )


def split_lines(path: str, lines: Iterable[bytes]) -> Iterator[DocumentRecord]:
    """The records of a JSON Lines file, as its lines come.

    A line with ``key`` and ``content`` states a record. Any other is content itself, under ``<file key>#<id>`` where it
    is an object with an ``id`` (a string or an integer), else under ``<file key>#<line number>``. Blank lines
    make none.

    Raises:
        InvalidInputError: Naming the file and the line.
    """
    file_key = _file_key(path)
    for number, line in enumerate(lines, start=1):
        place = f"{path}:{number}"
        text = _text(place, line).strip()
        if not text:
            continue
        value = _json(place, text)
        if is_explicit(value):
            yield explicit_record(value, place=place)
        else:
            yield checked_record(key=f"{file_key}#{_line_id(value, number)}", content=value, place=place)


def _of_value(path: str, value: Any) -> Iterator[DocumentRecord]:
    """The records that a file's value states, or the value as one record."""
    stated = value
    if isinstance(value, dict) and value.keys() == {"records"} and isinstance(value["records"], list):
        stated = value["records"]
        for index, entry in enumerate(stated):
            if not is_explicit(entry):
                raise InvalidInputError(
                    f"{path}: records[{index}] lacks key or content.",
                    hint="State both, or rename the member `records`.",
                )
    if isinstance(stated, list) and stated and all(map(is_explicit, stated)):
        for index, entry in enumerate(stated):
            yield explicit_record(entry, place=f"{path} record {index + 1}")
    else:
        yield checked_record(key=_file_key(path), content=value, place=path)


def _file_key(path: str) -> str:
    return unicodedata.normalize("NFC", str(PurePosixPath(path).with_suffix("")))


def _line_id(value: Any, number: int) -> str:
    own = value.get("id") if isinstance(value, dict) else None
    named = (isinstance(own, str) and own) or (isinstance(own, int) and not isinstance(own, bool))
    return str(own) if named else str(number)


def _text(place: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{place}: not UTF-8 at byte {error.start}.", hint="Save the file as UTF-8.") from None


def _json(place: str, text: str) -> Any:
    try:
        return parse_json(text)
    except InvalidInputError as error:
        raise at_place(place, error) from None
