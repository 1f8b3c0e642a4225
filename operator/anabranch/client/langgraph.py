"""LangGraph's long-term memory on a worker, so that an agent which has a `BaseStore` can switch by exchanging it.

Items are records: what the agent puts goes to its private overlay, durable at once and offline too, and what it gets or
searches is the merged view, so that it also finds what others have found and reviewers have accepted. Filters, limits
and the matching of namespaces are LangGraph's own, of its `InMemoryStore`, over what the worker shows.

What differs from other stores: a `query` ranks by words (BM25) and not by vectors, so `index` has no effect; nothing
expires (`ttl` is refused, as by every store without it); and a search looks through everything below its namespace.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import quote, unquote

from langgraph.store.base import (
    GetOp,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
)
from langgraph.store.base.batch import AsyncBatchedBaseStore
from langgraph.store.memory import InMemoryStore

from anabranch.client.worker.values import Finding
from anabranch.model.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from langgraph.store.base import Op, Result

    from anabranch.client.worker import Evidence, Worker
    from anabranch.client.worker.values import LocalRecord

    Share: TypeAlias = Callable[[tuple[str, ...], str, Mapping[str, Any]], Sequence[str | Evidence] | None]

_ALL: Final = ("all",)
_WORD: Final = re.compile(r"\w+")
_UNKNOWN: Final = datetime.fromtimestamp(0, UTC)
"""When an imported record was made is not known."""

_ASCII: Final = "".join(map(chr, range(0x20, 0x7F))).translate({ord(one): None for one in "%/"})


@dataclass(frozen=True, slots=True)
class _Found:
    item: Item
    score: float | None = None


class AnabranchStore(AsyncBatchedBaseStore):
    """A `BaseStore` whose items are records of a worker; made inside the event loop that the worker runs in.

    Used as::

        graph = builder.compile(store=AnabranchStore(worker))

    Args:
        worker: The run's; it has synced once, so that there is something to read.
        prefix: Of the keys of records that are items. With an empty one every record with a slash in its key is an
            item, and one whose content is no object has it under ``content``.
        scope: Of what is put.
        share: Says of an item that is put (namespace, key, value) what it is known from, and lets it be submitted as a
            finding, too; None: it is the agent's alone.
    """

    __slots__ = ("_prefix", "_scope", "_share", "_worker")

    def __init__(
        self, worker: Worker, *, prefix: str = "store/", scope: str = "shared", share: Share | None = None
    ) -> None:
        super().__init__()
        self._worker = worker
        self._prefix = prefix
        self._scope = scope
        self._share = share

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations: what is read is as it was before what is put, as with LangGraph's own stores.

        Raises:
            SnapshotIncompleteError: If the worker has not synced yet.
            InvalidInputError: If a namespace with its key is longer than 512 bytes, or a value is no JSON.
            NotImplementedError: If an item is to expire.
        """
        asked = list(ops)
        if any(isinstance(op, PutOp) and op.ttl is not None for op in asked):
            raise NotImplementedError("Records do not expire: put items without `ttl`, and delete them.")
        results = [None if isinstance(op, PutOp) else await self._read(op) for op in asked]
        last = {(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}
        for op in last.values():
            await self._put(op)
        return results

    async def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                try:
                    record = await self._worker.read(self._key(op.namespace, op.key))
                except NotFoundError:
                    return None
                return self._item(record)
            case SearchOp():
                return cast("Result", await self._search(op))
            case ListNamespacesOp():
                memory = InMemoryStore()
                await memory.abatch([PutOp(item.namespace, "", {}) async for item in self._items(())])
                return (await memory.abatch([op]))[0]
            case _:
                raise ValueError(f"Unknown operation type: {type(op)}")

    async def _put(self, op: PutOp) -> None:
        key = self._key(op.namespace, op.key)
        if op.value is None:
            await self._delete(key)
            return
        value = dict(op.value)
        sources = self._share and self._share(op.namespace, op.key, value)
        await self._worker.write(
            key, value, scope=self._scope, visibility="private" if sources is None else "shareable"
        )
        if sources is not None:
            await self._worker.submit(Finding(key, value, sources=tuple(sources), scope=self._scope))

    async def _delete(self, key: str) -> None:
        """Delete an item; one that others have shared is hidden, since it is not the agent's to delete."""
        try:
            await self._worker.read(key, layer="shared")
        except NotFoundError:
            try:
                await self._worker.delete(key)
            except NotFoundError:
                return
        else:
            await self._worker.write(key, None, scope=self._scope)

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        items = [item async for item in self._items(op.namespace_prefix)]
        items.sort(key=lambda item: item.updated_at, reverse=True)
        words = _WORD.findall(op.query or "")
        ranked = await asyncio.to_thread(_ranked, items, words) if words else list(map(_Found, items))
        # One namespace keeps the order of the ranks.
        memory = InMemoryStore()
        await memory.abatch([PutOp(_ALL, str(place), found.item.value) for place, found in enumerate(ranked)])
        chosen = (await memory.abatch([SearchOp(_ALL, op.filter, op.limit, op.offset)]))[0]
        return [_search_item(ranked[int(one.key)]) for one in cast("list[SearchItem]", chosen)]

    async def _items(self, namespace: tuple[str, ...]) -> Any:
        prefix = self._prefix + "".join(f"{_quoted(label)}/" for label in namespace)
        async for record in self._worker.records(prefix=prefix):
            if (item := self._item(record)) is not None and item.namespace:
                yield item

    def _key(self, namespace: tuple[str, ...], key: str) -> str:
        return self._prefix + "/".join(map(_quoted, (*namespace, str(key))))

    def _item(self, record: LocalRecord) -> Item | None:
        """A record as an item; None: it hides one."""
        if record.content is None:
            return None
        *namespace, key = map(unquote, record.key.removeprefix(self._prefix).split("/"))
        return Item(
            value=record.content if isinstance(record.content, dict) else {"content": record.content},
            key=key,
            namespace=tuple(namespace),
            created_at=record.created_at or _UNKNOWN,
            updated_at=record.updated_at or _UNKNOWN,
        )


def _quoted(label: str) -> str:
    """A label as a part of a record's key: percent-encoded where a key could not hold it, or not tell it apart."""
    plain = unicodedata.is_normalized("NFC", f"/{label}") and label.isprintable()
    return label.replace("%", "%25").replace("/", "%2F") if plain else quote(label, safe=_ASCII)


def _ranked(items: Sequence[Item], words: Sequence[str]) -> list[_Found]:
    """Items that have some of the words, the best first, and then the others in their order."""
    db = sqlite3.connect(":memory:")
    try:
        db.execute("CREATE VIRTUAL TABLE items USING fts5(text)")
        db.executemany(
            "INSERT INTO items (rowid, text) VALUES (?, ?)",
            [(place, f"{item.key} {json.dumps(item.value, ensure_ascii=False)}") for place, item in enumerate(items)],
        )
        query = " OR ".join(f'"{word}"' for word in words)
        rows = db.execute("SELECT rowid, -bm25(items) FROM items WHERE items MATCH ? ORDER BY 2 DESC, 1", (query,))
        scores = dict(rows.fetchall())
    finally:
        db.close()
    return [_Found(items[place], score) for place, score in scores.items()] + [
        _Found(item) for place, item in enumerate(items) if place not in scores
    ]


def _search_item(found: _Found) -> SearchItem:
    item = found.item
    return SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, found.score)
