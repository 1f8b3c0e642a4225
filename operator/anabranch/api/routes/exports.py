"""Exports: a manifest as one archive, as far as the caller may take it away."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.types import Message, Send

from anabranch.api.access import Credentials, OfBaseline
from anabranch.api.paging import QueryModel
from anabranch.api.parts import WithParts
from anabranch.api.replies import ASK_AGAIN, kept
from anabranch.api.routing import Route, may_fail
from anabranch.api.visibility import OnBaseline
from anabranch.archive import MEDIA_TYPE
from anabranch.archive.lines import Envelope
from anabranch.baselines import exporting, read
from anabranch.identity import grants
from anabranch.model.errors import (
    InvalidInputError,
    NotFoundError,
    PreconditionFailedError,
    UnavailableError,
)
from anabranch.model.limits import ARCHIVE_BYTES, LINE_SCOPES
from anabranch.model.wire import Scope

router = APIRouter(prefix="/v1/namespaces/{namespace}/baselines", route_class=Route, tags=["archives"])

STALLED_SECONDS: Final = 30.0
"""How long a client may take no bytes; it goes on later from where it was."""

_operation: dict[str, object] = {
    "responses": {
        "200": {
            "description": "The archive, or what of it comes after `offset` bytes; docs/spec/archive.md",
            "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
            "headers": {"ETag": {"schema": {"type": "string"}, "description": "names the archive's bytes"}},
        }
    },
    "parameters": [
        {
            "name": "If-Match",
            "in": "header",
            "required": False,
            "schema": {"type": "string"},
            "description": "with `offset`: the ETag that the bytes so far came with",
        }
    ],
}
may_fail(_operation, PreconditionFailedError)


class Pushed(StreamingResponse):
    """A stream that a client must take: one that stops reading would keep its turn from the others.

    Args:
        pieces: Closed when the response ends, however it ends: what they hold is let go at once.
        headers: Beside the media type.
    """

    def __init__(self, pieces: AsyncGenerator[bytes, None], *, headers: Mapping[str, str]) -> None:
        super().__init__(pieces, media_type=MEDIA_TYPE, headers=headers)
        self._pieces = pieces

    async def drop(self) -> None:
        """Let go of what the pieces hold."""
        await self._pieces.aclose()

    async def stream_response(self, send: Send) -> None:
        """Send it, each piece in time."""

        async def in_time(message: Message) -> None:
            async with asyncio.timeout(STALLED_SECONDS):
                await send(message)

        async with contextlib.aclosing(self._pieces):
            await super().stream_response(in_time)


class ExportQuery(QueryModel):
    """What to export, and from where to go on."""

    scope: list[Scope] | None = Field(
        None,
        max_length=LINE_SCOPES,
        description="only records of this scope; repeatable; without it all that may be",
    )
    offset: int = Field(
        0, ge=0, le=ARCHIVE_BYTES, description="bytes that have arrived: with the `If-Match` that they came with"
    )


@router.get(
    "/{baseline}/manifests/{manifest}/export",
    response_class=StreamingResponse,
    summary="Export a manifest",
    openapi_extra=_operation,
)
async def export(  # noqa: PLR0913, PLR0917  (what a request consists of)
    at: Annotated[OnBaseline, Depends(OfBaseline(grants.EXPORT, grants.SCOPE_READ, grants.SCOPE_EXPORT))],
    ref: Annotated[str, Path(alias="manifest", max_length=64)],
    parts: WithParts,
    query: Annotated[ExportQuery, Query()],
    credentials: Credentials,
    request: Request,
) -> Pushed:
    """A manifest as an archive, which leads to its root.

    Records in scopes that you may not export stand in it as bare hashes; one that you ask for by name and may not
    export is refused. An archive without its trailer is torn: go on where it broke off, with `offset` and `If-Match`.
    """
    namespace, name = at.state.line.namespace, at.state.line.name
    if parts.exports.locked():
        raise UnavailableError("Too many exports are being made by this process.", hint="Try again in a moment.")
    exportable = await parts.grants.scopes(at.caller, grants.SCOPE_EXPORT, namespace=namespace, scopes=at.scopes)
    prepared = await exporting.prepare(
        at.store.db,
        line=at.line,
        ref=ref,
        allowed=exportable,
        readable=at.scopes,
        wanted=query.scope,
        signer=parts.signer,
    )
    tag = f'"{prepared.tag}"'
    _check_tag(request, tag, offset=query.offset)

    token = credentials.credentials if credentials else ""

    async def still_allowed() -> None:
        await parts.identity.authenticate(token)  # it may have run out, or its ServiceAccount be gone
        await parts.grants.require(at.caller, grants.EXPORT, namespace=namespace, name=name, anew=True)
        for grant in (grants.SCOPE_READ, grants.SCOPE_EXPORT):
            held = await parts.grants.scopes(at.caller, grant, namespace=namespace, scopes=prepared.scopes, anew=True)
            exporting.check_scopes(prepared.scopes, held)

    headers = {"ETag": tag, "Cache-Control": ASK_AGAIN, "Vary": "Authorization"}
    pieces = exporting.stream(at.store.db, prepared, offset=query.offset, check=still_allowed, among=parts.exports)
    return Pushed(pieces, headers=headers)


@router.get(
    "/{baseline}/manifests/{manifest}/signature", response_model=Envelope, summary="Show a manifest's signature"
)
async def signature(
    at: Annotated[OnBaseline, Depends(OfBaseline(grants.SEE_BASELINE))],
    ref: Annotated[str, Path(alias="manifest", max_length=64)],
    parts: WithParts,
    request: Request,
) -> Response:
    """An in-toto statement about a manifest in a DSSE envelope, signed with the installation's key."""
    row = await read.manifest(at.store.db, line=at.line, ref=ref)
    if parts.signer is None:
        raise NotFoundError(
            "This installation signs no manifests.", hint="Whoever runs it can set ANABRANCH_SIGNING_KEY."
        )
    envelope = Envelope.model_validate(parts.signer.sign(exporting.signed(row)))
    return kept(request, envelope, caching=ASK_AGAIN)


def _check_tag(request: Request, tag: str, *, offset: int) -> None:
    match = request.headers.get("if-match")
    if offset and match is None:
        raise InvalidInputError(
            "`offset` says nothing without the archive that it is an offset of.",
            hint="Send If-Match with the ETag of the answer that broke off.",
        )
    if match is not None and match.strip() != tag:
        raise PreconditionFailedError(
            "The archive would be another one now: other scopes may be exported, or another release makes it.",
            hint="Begin again, without `offset`.",
        )
