"""Baselines, their manifests, records, differences, archives."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from anabranch.api.access import Namespaced, OfBaseline, OfReadBaseline
from anabranch.api.listing import merged, told
from anabranch.api.paging import PageQuery, Pager, Paging, QueryModel
from anabranch.api.parts import WithParts
from anabranch.api.replies import ASK_AGAIN, FOREVER, kept, kept_json, reply
from anabranch.api.routing import Route
from anabranch.api.visibility import InNamespace, OnBaseline, visible
from anabranch.baselines import read, records
from anabranch.domain.proven import ProvenRecord
from anabranch.identity import grants
from anabranch.model.answers import BaselinePage, BaselineState, DiffPage, ManifestPage, RecordPage
from anabranch.model.errors import GoneError, NotFoundError
from anabranch.model.limits import KEY_BYTES
from anabranch.model.objects import BaselineManifest, PublishedFact
from anabranch.model.stored import with_items
from anabranch.model.wire import Key

router = APIRouter(prefix="/v1/namespaces/{namespace}/baselines", route_class=Route, tags=["baselines"])

MOVING = frozenset({"current", "head"})

Ref = Annotated[
    str, Path(alias="manifest", max_length=64, description="a generation, a baseline id, `current` or `head`")
]
AtBaseline = Annotated[OnBaseline, Depends(OfBaseline(grants.SEE_BASELINE))]
AtRecords = Annotated[OnBaseline, Depends(OfBaseline(grants.READ_RECORDS, grants.SCOPE_READ))]
at_record = OfReadBaseline(grants.READ_RECORDS, grants.SCOPE_READ)
AtRecord = Annotated[OnBaseline, Depends(at_record)]


class RecordsQuery(Paging):
    """Which records to list."""

    prefix: str = Field(
        "", max_length=KEY_BYTES, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", description="only keys that begin so"
    )
    tombstones: bool = Field(default=False, description="list deleted keys too")


class RecordQuery(QueryModel):
    """How to read a record."""

    proof: bool = Field(default=False, description="with the proof that the manifest has it")


class DiffQuery(Paging):
    """Which manifests to compare."""

    from_: str = Field(alias="from", max_length=64, description="a generation, a baseline id, `current` or `head`")
    to: str = Field("current", max_length=64, description="likewise")


@router.get("", response_model=BaselinePage, summary="List baselines")
async def list_baselines(
    at: Annotated[InNamespace, Depends(Namespaced(grants.SEE_BASELINE))], parts: WithParts, query: PageQuery
) -> Response:
    """The Baselines of a namespace that the caller may see, by name."""
    pager = Pager(parts.sealer, f"baselines {at.namespace}")
    after = pager.place(query.cursor) or ""
    each = await parts.stores.each(lambda store: read.in_namespace(store.db, at.namespace))
    rows = merged([(store, [state.line for state in states if state.line.name > after]) for store, states in each])
    rows = rows[: query.limit]
    names = [row.name for _, row in rows]
    seen = await visible(parts, at.caller, grants.SEE_BASELINE, namespace=at.namespace, names=names)
    shown = [(store, row) for store, row in rows if row.name in seen]
    items = await told(shown, lambda store, some: read.describe(store.db, [row.line for row in some]))
    return reply(BaselinePage(items=tuple(items), next_cursor=pager.after(names, query.limit, str)))


@router.get("/{baseline}", response_model=BaselineState, summary="Show a baseline")
async def get_baseline(at: AtBaseline, request: Request) -> Response:
    """A Baseline and where its line is."""
    (state,) = await read.describe(at.store.db, [at.line])
    return kept(request, state, caching=ASK_AGAIN)


@router.get("/{baseline}/manifests", response_model=ManifestPage, summary="List manifests")
async def list_manifests(at: AtBaseline, parts: WithParts, query: PageQuery) -> Response:
    """The retained manifests, newest first."""
    pager = Pager(parts.sealer, f"manifests {at.line}")
    rows = await read.history(at.store.db, line=at.line, before=pager.place(query.cursor), limit=query.limit)
    cursor = pager.after(rows, query.limit, lambda row: row.generation)
    return reply(ManifestPage(items=tuple(map(read.wire, rows)), next_cursor=cursor))


@router.get("/{baseline}/manifests/{manifest}", response_model=BaselineManifest, summary="Show a manifest")
async def get_manifest(at: AtBaseline, ref: Ref, request: Request) -> Response:
    """One manifest. By generation or id it never changes; `current` and `head` move."""
    row = await read.manifest(at.store.db, line=at.line, ref=ref)
    return kept(request, read.wire(row), caching=_caching(ref))


@router.get("/{baseline}/manifests/{manifest}/records", response_model=RecordPage, summary="List records")
async def list_records(
    at: AtRecords, ref: Ref, parts: WithParts, query: Annotated[RecordsQuery, Query()], request: Request
) -> Response:
    """The records of one manifest in scopes that the caller may read, by key.

    Every page is of the manifest that the first one was of, whatever becomes current meanwhile.
    """
    pager = Pager(parts.sealer, f"records {at.line} {ref} {query.prefix} {query.tombstones}")
    generation, after = pager.place(query.cursor) or (None, "")
    manifest = read.ref(await read.manifest(at.store.db, line=at.line, ref=generation or ref))
    items, more = await records.page(
        at.store.db,
        line=at.line,
        manifest=manifest,
        scopes=at.scopes,
        after_key=after,
        limit=query.limit,
        prefix=query.prefix,
        tombstones=query.tombstones,
    )
    cursor = pager.cursor([manifest.generation, items[-1].key] if more else None)
    page = RecordPage.model_construct(items=(), next_cursor=cursor, manifest=manifest)
    return kept_json(request, with_items(page, map(records.fact_json, items)), caching=ASK_AGAIN)


@router.get(
    "/{baseline}/manifests/{manifest}/records/{key:path}",
    response_model=PublishedFact | ProvenRecord,
    summary="Read a record",
)
async def get_record(  # noqa: PLR0913, PLR0917  (FastAPI fills them in by name)
    at: AtRecord,
    ref: Ref,
    key: Annotated[Key, Path()],
    parts: WithParts,
    query: Annotated[RecordQuery, Query()],
    request: Request,
) -> Response:
    """One record of a manifest. A deleted key is answered with `tombstone: true` until it is purged."""
    answer = _proven if query.proof else _plain
    try:
        body = await answer(at, ref, key)
    except (NotFoundError, GoneError):
        body = await answer(await at_record.again(parts, at), ref, key)
    return kept_json(request, body, caching=_caching(ref))


@router.get("/{baseline}/diff", response_model=DiffPage, summary="Compare two manifests")
async def diff(at: AtRecords, parts: WithParts, query: Annotated[DiffQuery, Query()], request: Request) -> Response:
    """The keys whose revision differs, in scopes that the caller may read, by key."""
    pager = Pager(parts.sealer, f"diff {at.line} {query.from_} {query.to}")
    from_, to, after = pager.place(query.cursor) or (query.from_, query.to, "")
    before = read.ref(await read.manifest(at.store.db, line=at.line, ref=from_))
    later = read.ref(await read.manifest(at.store.db, line=at.line, ref=to))
    items = await records.diff(
        at.store.db,
        line=at.line,
        before=before,
        after=later,
        scopes=at.scopes,
        after_key=after,
        limit=query.limit,
    )
    cursor = pager.after(items, query.limit, lambda item: [before.generation, later.generation, item.key])
    page = DiffPage.model_construct(items=tuple(items), next_cursor=cursor, before=before, after=later)
    return kept(request, page, caching=ASK_AGAIN)


async def _plain(at: OnBaseline, ref: str, key: str) -> bytes:
    generation = await read.generation(at.store.db, line=at.line, ref=ref)
    row = await records.one(at.store.reader, line=at.line, generation=generation, key=key, scopes=at.scopes)
    return records.fact_json(row)


async def _proven(at: OnBaseline, ref: str, key: str) -> bytes:
    manifest = read.ref(await read.manifest(at.store.db, line=at.line, ref=ref))
    proven = await records.proven(at.store.reader, line=at.line, manifest=manifest, key=key, scopes=at.scopes)
    return proven.model_dump_json().encode()


def _caching(ref: str) -> str:
    return ASK_AGAIN if ref in MOVING else FOREVER
