"""Records of an archive, and the one line of bytes that stands for each.

A line is canonical JSON, so a record has exactly one form in bytes: that makes archives reproducible, and lets a reader
prove with a single comparison that a line has no duplicate member, no unknown member and no second spelling. These are
named tuples, checked by hand: a million are made for one import, and pydantic took 12 µs for the checks that take 7 so.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from json.encoder import encode_basestring as _quoted
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from anabranch.archive.errors import ArchiveDigestError, ArchiveFormatError
from anabranch.model.canonical import ContentHash, canonical_bytes, check_json, hash_bytes, hash_text, sha256
from anabranch.model.errors import AnabranchError, InvalidInputError
from anabranch.model.limits import CONTENT_BYTES, CONTENT_DEPTH
from anabranch.model.locators import check_locator
from anabranch.model.text import check_key, check_scope

if TYPE_CHECKING:
    from collections.abc import Mapping

_REQUIRED: Final = frozenset({"content", "content_hash", "key", "scope", "source_locators"})
_HISTORY: Final = frozenset({"fact_hash", "origin_runs", "retracted_sources", "revision", "supersedes", "validated_at"})
_REVISION_MAX: Final = 2**63 - 1
_DECIMAL: Final = re.compile(r"[1-9][0-9]{0,18}")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z", re.ASCII)


class ArchiveRecord(NamedTuple):
    """One record with its provenance.

    Attributes:
        key: The record's key.
        scope: The scope whose readers may see it.
        body: Canonical bytes of the content; ``null`` in a tombstone.
        content_hash: Hash of `body`.
        source_locators: Where the content comes from.
        origin_runs: Runs whose findings it carries.
        revision: The line's revision that brought it; None where an import will give it one.
        supersedes: Revisions of the key that it replaced in a conflict.
        retracted_sources: Those of its sources that were withdrawn since, or derived from what was.
        validated_at: When its sources were verified, RFC 3339 in UTC.
        fact_hash: Hash over the provenance, as the manifest commits to it.
        tombstone: Whether the key is deleted.
    """

    key: str
    scope: str
    body: bytes
    content_hash: ContentHash
    source_locators: tuple[str, ...] = ()
    origin_runs: tuple[str, ...] = ()
    revision: int | None = None
    supersedes: tuple[int, ...] = ()
    validated_at: str | None = None
    fact_hash: ContentHash | None = None
    tombstone: bool = False
    retracted_sources: tuple[str, ...] = ()

    @classmethod
    def of(cls, *, key: str, scope: str, content: Any, source_locators: tuple[str, ...] = ()) -> ArchiveRecord:
        """A record without history, as an import makes it.

        Raises:
            InvalidInputError: If the content is too large, too deep or no JSON value, or a name is ill-formed.
        """
        check_json(content, path="content")
        body = canonical_bytes(content)
        _check_size(body)
        return cls(
            key=check_key(key),
            scope=check_scope(scope),
            body=body,
            content_hash=hash_text(sha256(body)),
            source_locators=tuple(map(check_locator, source_locators)),
        )

    @property
    def content(self) -> Any:
        """The content, parsed anew at each call."""
        return json.loads(self.body)


class WithheldRecord(NamedTuple):
    """A record that a partial export leaves out: enough to recompute the manifest's root, and nothing else.

    Attributes:
        key_hash: As in a leaf of the manifest's trie.
        descriptor_hash: As in a leaf of the manifest's trie.
    """

    key_hash: ContentHash
    descriptor_hash: ContentHash


def check_kind(record: ArchiveRecord, kind: str) -> None:
    """Check that a record has the history that its archive's kind promises: all of it in an export, none in an import.

    Raises:
        InvalidInputError: Naming what is missing or too much.
    """
    if kind == "export":
        if record.revision is None or record.fact_hash is None:
            raise InvalidInputError(
                f"{record.key!r} lacks revision or fact_hash.", hint="An export's manifest commits to both; add them."
            )
        if later := [revision for revision in record.supersedes if revision >= record.revision]:
            raise InvalidInputError(
                f"{record.key!r} supersedes revision {later[0]}, and is at {record.revision} itself.",
                hint="A record supersedes earlier revisions only.",
            )
    elif (
        record.revision is not None
        or record.fact_hash
        or record.tombstone
        or record.supersedes
        or record.retracted_sources
    ):
        raise InvalidInputError(
            f"{record.key!r} has a history, in an import.", hint="An import gives records their first revision."
        )


def encode_record(record: ArchiveRecord) -> bytes:
    """The record's line, without the line end: what `canonical_bytes` makes of its members, at a third of the time."""
    # Members stand in their sorted order. Hashes and scopes have no character that JSON escapes.
    text = f'"content_hash":"{record.content_hash}"'
    if record.fact_hash is not None:
        text += f',"fact_hash":"{record.fact_hash}"'
    text += f',"key":{_quoted(record.key)}'
    if record.origin_runs:
        text += f',"origin_runs":[{",".join(map(_quoted, record.origin_runs))}]'
    if record.retracted_sources:
        text += f',"retracted_sources":[{",".join(map(_quoted, record.retracted_sources))}]'
    if record.revision is not None:
        text += f',"revision":"{record.revision}"'
    text += f',"scope":"{record.scope}","source_locators":[{",".join(map(_quoted, record.source_locators))}]'
    if record.supersedes:
        text += f',"supersedes":[{",".join(_quoted(str(revision)) for revision in record.supersedes)}]'
    if record.tombstone:
        text += ',"tombstone":true'
    if record.validated_at is not None:
        text += f',"validated_at":"{record.validated_at}"'
    return b'{"content":%b,%b}' % (record.body, text.encode())


def encode_withheld(withheld: WithheldRecord) -> bytes:
    """The withheld record's line, without the line end."""
    return canonical_bytes({"descriptor_hash": withheld.descriptor_hash, "key_hash": withheld.key_hash})


def parse_record(members: Mapping[str, Any], line: bytes, *, number: int) -> ArchiveRecord:
    """The record that a line stands for, its content hash verified.

    Args:
        members: The line, parsed as JSON.
        line: The line itself, without the line end.
        number: Of the line, from 1, for errors.

    Raises:
        ArchiveFormatError: If a member is missing, unknown or ill-formed, or the line is not in canonical form.
        ArchiveDigestError: If the content is not what its hash names.
    """
    try:
        record = _record_of(members)
    except KeyError as error:
        raise ArchiveFormatError(f"Line {number}: a record lacks {error}.", hint="Make the archive again.") from None
    except InvalidInputError as error:
        raise ArchiveFormatError(f"Line {number}: {error.detail}", hint=error.hint) from None
    if record.content_hash != members.get("content_hash"):
        raise ArchiveDigestError(
            f"Line {number}: the content of {record.key!r} is not what its content_hash names.",
            hint="The archive was altered; make it again.",
        )
    if encode_record(record) != line:
        raise ArchiveFormatError(
            f"Line {number}: {_why_not_canonical(members)}", hint="Write each line as docs/spec/archive.md says."
        )
    return record


def parse_withheld(members: Mapping[str, Any], line: bytes, *, number: int) -> WithheldRecord:
    """The withheld record that a line stands for.

    Raises:
        ArchiveFormatError: If it is not exactly the two hashes, in canonical form.
    """
    try:
        withheld = WithheldRecord(
            key_hash=_hash(members["key_hash"]), descriptor_hash=_hash(members["descriptor_hash"])
        )
    except (KeyError, AnabranchError):
        withheld = None
    if withheld is None or encode_withheld(withheld) != line:
        raise ArchiveFormatError(
            f"Line {number}: a withheld record is not two hashes in canonical form.", hint="Make the archive again."
        )
    return withheld


def _record_of(members: Mapping[str, Any]) -> ArchiveRecord:
    body = canonical_bytes(members["content"])
    _check_size(body)
    # A value cannot be nested deeper than it has opening brackets: nearly always this saves the walk.
    if body.count(b"{") + body.count(b"[") > CONTENT_DEPTH:
        check_json(members["content"], path="content")
    tombstone = members.get("tombstone", False) is True
    if tombstone and body != b"null":
        raise InvalidInputError("a tombstone carries content.", hint="Write null.")
    record = ArchiveRecord(
        key=check_key(members["key"]),
        scope=check_scope(members["scope"]),
        body=body,
        content_hash=hash_text(sha256(body)),
        source_locators=tuple(map(check_locator, _texts(members["source_locators"], "source_locators"))),
        tombstone=tombstone,
    )
    return record._replace(**_history(members)) if len(members) > len(_REQUIRED) else record


def _history(members: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields of a record that only an export has."""
    history: dict[str, Any] = {}
    if "fact_hash" in members:
        history["fact_hash"] = _hash(members["fact_hash"])
    if "origin_runs" in members:
        history["origin_runs"] = _texts(members["origin_runs"], "origin_runs")
    if "retracted_sources" in members:
        history["retracted_sources"] = tuple(
            map(check_locator, _texts(members["retracted_sources"], "retracted_sources"))
        )
    if "revision" in members:
        history["revision"] = _revision(members["revision"])
    if "supersedes" in members:
        history["supersedes"] = tuple(map(_revision, _texts(members["supersedes"], "supersedes")))
    if "validated_at" in members:
        history["validated_at"] = _instant(members["validated_at"])
    return history


def _check_size(body: bytes) -> None:
    if len(body) > CONTENT_BYTES:
        raise InvalidInputError(
            f"The content has {len(body):,} bytes in canonical form, the limit is {CONTENT_BYTES:,}.",
            hint="Split it into several records.",
        )


def _texts(value: Any, field: str) -> tuple[str, ...]:
    if isinstance(value, list) and {str}.issuperset(map(type, value)):
        return tuple(value)
    raise InvalidInputError(f"{field} is not a list of texts.", hint="Make the archive again.")


def _revision(value: Any) -> int:
    if isinstance(value, str) and _DECIMAL.fullmatch(value) and int(value) <= _REVISION_MAX:
        return int(value)
    raise InvalidInputError("a revision is not a decimal string.", hint='Write it as "42".')


def _hash(value: Any) -> ContentHash:
    return hash_text(hash_bytes(value if isinstance(value, str) else ""))


def _instant(value: Any) -> str:
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            return value
    raise InvalidInputError("validated_at is no instant.", hint="Write RFC 3339 in UTC, 2025-03-01T09:30:00Z.")


def _why_not_canonical(members: Mapping[str, Any]) -> str:
    if unknown := sorted(members.keys() - _REQUIRED - _HISTORY - {"tombstone"}):
        return f"a record has no member {unknown[0]!r}."
    return "the record is not in its canonical form: members sorted and unique, no spaces, none of them empty or null."
