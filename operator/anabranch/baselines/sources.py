"""Where a Baseline's records come from: a ConfigMap's documents or an uploaded archive, as one stream of records.

Whatever the source, its records come in the order of their keys, each with a locator that names the file and its
digest. Reading is done beside the event loop, some records at a time: an archive may hold millions, and parsing must
hold up neither memory nor anybody else.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from anabranch.archive import ArchiveLimits, ArchiveReader, ArchiveRecord
from anabranch.domain.documents import import_locator, split
from anabranch.domain.facts import Fact
from anabranch.kube.kinds import CONFIG_MAP
from anabranch.model.canonical import canonical_bytes, hash_bytes, hash_text, sha256
from anabranch.model.errors import InvalidInputError, NotReadyError, TooLargeError
from anabranch.store import archives
from anabranch.store.importing import ImportRecord

if TYPE_CHECKING:
    from anabranch.domain.documents import DocumentRecord
    from anabranch.kube.client import KubeClient
    from anabranch.model.crd import BaselineLimits, BaselineResource, ConfigMapSource
    from anabranch.store.database import Database

Records: TypeAlias = AsyncIterator[ImportRecord]

_T = TypeVar("_T")

_DEFAULT_SCOPE: Final = "shared"
_AT_ONCE: Final = 500
_CHUNK_SECONDS: Final = 60.0


class ConfigMapMissingError(NotReadyError):
    """The ConfigMap is not there yet, or lacks a key that the Baseline names."""

    code = "ConfigMapMissing"


class ArchiveMissingError(NotReadyError):
    """The archive has not been uploaded yet."""

    code = "ArchiveMissing"


class LimitExceededError(TooLargeError):
    """The source holds more than the Baseline's own limits allow."""

    code = "LimitExceeded"


@dataclass(frozen=True, slots=True)
class Source:
    """A source that is there.

    Attributes:
        digest: Names its content, 32 bytes.
        origin: What a manifest made of it says (JSON).
        records: Begins to read it; records come in the ascending order of their keys, by code point.
    """

    digest: bytes
    origin: dict[str, Any]
    records: Callable[[], Records]


async def open_source(db: Database, kube: KubeClient, *, line: str, resource: BaselineResource) -> Source | None:
    """The source that a Baseline names; None if it names none.

    Raises:
        ConfigMapMissingError: If its ConfigMap is not there, or not whole.
        ArchiveMissingError: If its archive is not there.
    """
    spec = resource.spec.import_
    if spec is None:
        return None
    limits = resource.spec.limits
    if spec.config_map is not None:
        files = await _read_config_map(kube, resource.namespace, spec.config_map)
        digest = sha256(canonical_bytes({name: hash_text(sha256(data)) for name, data in files.items()}))
        return Source(
            digest,
            {"kind": "import", "config_map": spec.config_map.name, "digest": hash_text(digest)},
            lambda: _bounded(_beside(lambda: _of_documents(files)), limits),
        )
    if spec.archive is None:
        return None
    text = spec.archive.digest
    digest = hash_bytes(text)
    async with db.connection() as conn:
        if await archives.find(conn, line=line, digest=digest) is None:
            raise ArchiveMissingError(
                f"The archive {text} has not been uploaded.",
                hint=f"Upload it: anabranch import … --baseline {resource.namespace}/{resource.name}.",
            )
    return Source(
        digest,
        {"kind": "import", "archive": text},
        lambda: _bounded(_of_archive(db, line=line, digest=digest), limits),
    )


async def _read_config_map(kube: KubeClient, namespace: str, source: ConfigMapSource) -> dict[str, bytes]:
    """The files of a ConfigMap, those that the Baseline names or all."""
    found = await kube.find(CONFIG_MAP, namespace=namespace, name=source.name)
    if found is None:
        raise ConfigMapMissingError(f"There is no ConfigMap {namespace}/{source.name}.", hint="Apply it.")
    files = {name: text.encode() for name, text in (found.get("data") or {}).items()}
    files |= {name: base64.b64decode(text) for name, text in (found.get("binaryData") or {}).items()}
    if missing := sorted(set(source.keys) - files.keys()):
        raise ConfigMapMissingError(
            f"The ConfigMap {namespace}/{source.name} has no key {missing[0]!r}.",
            hint="Add it to the ConfigMap, or take it out of spec.import.configMap.keys.",
        )
    return {name: files[name] for name in sorted(source.keys or files)}


def _of_documents(files: dict[str, bytes]) -> list[ImportRecord]:
    """The records of some files; what a document keeps private is left out."""
    records: dict[str, ImportRecord] = {}
    places: dict[str, str] = {}
    for name, data in files.items():
        locator = import_locator(name, sha256(data))
        for document in split(name, data):
            if document.visibility == "private":
                continue
            if document.key in records:
                raise InvalidInputError(
                    f"{document.place}: the key {document.key!r} stands in {places[document.key]} too.",
                    hint="Give each record a key of its own.",
                )
            records[document.key] = _of_document(document, locator)
            places[document.key] = document.place
    return [records[key] for key in sorted(records)]


def _of_document(document: DocumentRecord, locator: str) -> ImportRecord:
    body = canonical_bytes(document.content)
    return ImportRecord(
        key=document.key,
        scope=document.scope or _DEFAULT_SCOPE,
        content_hash=sha256(body),
        content_body=body,
        fact_body=Fact(source_locators=(locator, *document.sources)).canonical(),
    )


async def _of_archive(db: Database, *, line: str, digest: bytes) -> Records:
    """The live records of an uploaded archive."""
    async with db.connection() as conn:
        chunks = archives.read(conn, line=line, digest=digest)
        pulled = _pulled(chunks, asyncio.get_running_loop())
        async for record in _beside(lambda: _read_archive(pulled, digest)):
            yield record


def _read_archive(chunks: Iterable[bytes], digest: bytes) -> Iterator[ImportRecord]:
    reader = ArchiveReader(chunks, limits=ArchiveLimits(), expected_digest=hash_text(digest))
    for entry in reader:
        if isinstance(entry, ArchiveRecord) and not entry.tombstone:
            yield _of_archived(entry)


def _of_archived(record: ArchiveRecord) -> ImportRecord:
    validated_at = None if record.validated_at is None else datetime.fromisoformat(record.validated_at)
    # `supersedes` names revisions of the line that was exported: here they would name others.
    fact = Fact(
        source_locators=record.source_locators,
        origin_runs=record.origin_runs,
        validated_at=validated_at,
        retracted_sources=record.retracted_sources,
    )
    return ImportRecord(
        key=record.key,
        scope=record.scope,
        content_hash=hash_bytes(record.content_hash),
        content_body=record.body,
        fact_body=fact.canonical(),
    )


def _pulled(chunks: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> Iterator[bytes]:
    """Chunks for a reader that runs beside the loop which fetches them."""

    async def following() -> bytes | None:
        return await anext(chunks, None)

    while (chunk := asyncio.run_coroutine_threadsafe(following(), loop).result(_CHUNK_SECONDS)) is not None:
        yield chunk


async def _beside(make: Callable[[], Iterable[_T]]) -> AsyncIterator[_T]:
    """Iterate beside the event loop, some items at a time."""
    iterator = await asyncio.to_thread(lambda: iter(make()))
    while some := await asyncio.to_thread(lambda: list(islice(iterator, _AT_ONCE))):
        for item in some:
            yield item


async def _bounded(records: Records, limits: BaselineLimits) -> Records:
    """The same records, as long as they keep to the Baseline's limits."""
    count = 0
    scopes: set[str] = set()
    async for record in records:
        count += 1
        scopes.add(record.scope)
        if count > limits.records:
            raise LimitExceededError(
                f"The source has more than {limits.records} records, which spec.limits.records allows.",
                hint="Raise spec.limits.records, or split the Baseline.",
            )
        if len(scopes) > limits.scopes:
            raise LimitExceededError(
                f"The source has more than {limits.scopes} scopes, which spec.limits.scopes allows.",
                hint="Raise spec.limits.scopes, or use fewer scopes.",
            )
        yield record
