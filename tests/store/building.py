"""Makes lines, records and generations for tests, by the functions that the services use."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from anabranch.domain import trie
from anabranch.domain.facts import Fact
from anabranch.model.canonical import canonical_bytes, parse_json
from anabranch.store import importing, lines, publish, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from anabranch.model.ids import LineId
    from anabranch.store.database import Database
    from anabranch.store.manifests import ManifestRow


def digest(content: object) -> bytes:
    return hashlib.sha256(canonical_bytes(content)).digest()


def version(key: str, content: object = None, *, scope: str = "shared", run: str = "run") -> publish.NewVersion:
    """A new version of a key; without content, a tombstone."""
    return publish.NewVersion(
        key=key,
        scope=scope,
        content_hash=digest(content),
        content_body=None if content is None else canonical_bytes(content),
        fact_body=Fact(origin_runs=(run,)).canonical(),
        tombstone=content is None,
    )


def event(new: publish.NewVersion) -> publish.NewEvent:
    return publish.NewEvent(
        kind="tombstone" if new.tombstone else "published",
        scope=new.scope,
        key=new.key,
        content_hash=new.content_hash,
    )


async def new_line(db: Database, *, name: str = "facts", namespace: str = "team", uid: str = "uid-1") -> LineId:
    async with db.transaction() as conn:
        state = await lines.adopt_or_create(conn, namespace=namespace, namespace_uid="ns-1", name=name, uid=uid)
    return state.line.line


async def import_records(
    db: Database, line: str, contents: Mapping[str, object], *, scopes: Mapping[str, str] | None = None
) -> ManifestRow:
    """Make generation 1 of some contents by key."""

    async def all_records() -> AsyncIterator[importing.ImportRecord]:
        for key, content in contents.items():
            yield importing.ImportRecord(
                key=key,
                scope=(scopes or {}).get(key, "shared"),
                content_hash=digest(content),
                content_body=canonical_bytes(content),
                fact_body=Fact(source_locators=(f"import:{key}.md@sha256:{'0' * 64}",)).canonical(),
            )

    return await importing.import_first(
        db, line=line, records=all_records(), origin={"kind": "import"}, import_digest=digest("source")
    )


async def publish_versions(db: Database, line: str, *versions: publish.NewVersion) -> ManifestRow:
    """Publish a generation as a service does."""
    async with db.connection() as conn:
        prepared = await publish.prepare(conn, head=await lines.head(conn, line), versions=versions)
    async with db.transaction() as conn:
        return await publish.write_generation(
            conn,
            head=await lines.lock_head(conn, line),
            prepared=prepared,
            events=[event(new) for new in versions],
            origin={"kind": "publication"},
        )


async def snapshot(db: Database, line: str, generation: int | None = None) -> dict[str, object]:
    """The contents of a generation by key."""
    async with db.connection() as conn:
        page = await records.page(conn, line=line, generation=generation, limit=1_000, scopes=None)
    return {record.key: parse_json(record.body or b"") for record in page.records}


async def nodes(db: Database, line: str, generation: int) -> tuple[dict[str, object], dict[str, object]]:
    """The nodes that are stored of a generation, and those that its records make: hash and body by path."""
    shown = "WHERE line = $1 AND from_generation <= $2 AND to_generation > $2"
    async with db.connection() as conn:
        stored = await conn.fetch(f"SELECT path, hash, body FROM trie_nodes {shown}", line, generation)
        found = await conn.fetch(
            f"SELECT key, revision, scope, content_hash, fact_hash, tombstone FROM record_versions {shown}",
            line,
            generation,
        )
    made = trie.build(sorted(trie.Descriptor(**row).pair for row in found))
    return {path: (digest, body) for path, digest, body in stored}, {node.path: (node.hash, node.body) for node in made}


async def move(db: Database, line: str, *, to: int, kind: str, pinned: int | None) -> None:
    async with db.transaction() as conn:
        head = await lines.lock_head(conn, line)
        await publish.move_current(conn, head=head, to_generation=to, kind=kind, pinned_generation=pinned)


def keys(rows: Sequence[object]) -> list[str]:
    return [row.key for row in rows]
