"""Archives: uploaded for a Baseline that names them by digest."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from anabranch.api.access import OfBaseline
from anabranch.api.bodies import RawBody
from anabranch.api.parts import WithParts
from anabranch.api.replies import FOREVER, kept, reply
from anabranch.api.routing import Route
from anabranch.api.visibility import OnBaseline
from anabranch.archive import MEDIA_TYPE
from anabranch.baselines import archives
from anabranch.identity import grants
from anabranch.model.answers import ArchiveState
from anabranch.model.canonical import PREFIX
from anabranch.model.errors import UnavailableError
from anabranch.model.limits import ARCHIVE_BYTES

router = APIRouter(
    prefix="/v1/namespaces/{namespace}/baselines/{baseline}/archives", route_class=Route, tags=["archives"]
)

DigestPath = Annotated[
    str, Path(alias="sha256", pattern=r"^(sha256:)?[0-9a-f]{64}$", description="SHA-256, with or without `sha256:`")
]
AtArchives = Annotated[OnBaseline, Depends(OfBaseline(grants.UPLOAD_ARCHIVE))]


class ArchiveBody(RawBody):
    """An archive: left to be read piece by piece."""

    async def __call__(self) -> "ArchiveBody":  # type: ignore[override]
        """Leave it unread."""
        return self


_body = ArchiveBody(
    limit=ARCHIVE_BYTES, what="archive", media_type=MEDIA_TYPE, hint="Split the directory into several imports."
)


def digest_of(text: str) -> bytes:
    """The 32 bytes of a digest in a path."""
    return bytes.fromhex(text.removeprefix(PREFIX))


@router.put(
    "/{sha256}",
    response_model=ArchiveState,
    summary="Upload an archive",
    responses={201: {"model": ArchiveState, "description": "It is new"}},
)
async def put_archive(
    at: AtArchives, sha256: DigestPath, parts: WithParts, body: Annotated[ArchiveBody, Depends(_body)], request: Request
) -> Response:
    """Keep an archive under its digest; the same again changes nothing. Apply the Baseline first."""
    if parts.uploads.locked():
        raise UnavailableError("Too many archives are being uploaded to this process.", hint="Try again in a while.")
    async with parts.uploads:
        state, new = await archives.upload(
            at.store.db,
            line=at.line,
            digest=digest_of(sha256),
            uploaded_by=at.caller.username,
            chunks=body.chunks(request),
        )
    return reply(state, status=201 if new else 200)


@router.head("/{sha256}", response_class=Response, summary="Whether an archive is there")
async def head_archive(at: AtArchives, sha256: DigestPath) -> Response:
    """200 if it was uploaded whole, else 404."""
    await archives.find(at.store.db, line=at.line, digest=digest_of(sha256))
    return Response()


@router.get("/{sha256}", response_model=ArchiveState, summary="Show an archive")
async def get_archive(at: AtArchives, sha256: DigestPath, request: Request) -> Response:
    """What is known of an uploaded archive; its bytes are not given back."""
    return kept(request, await archives.find(at.store.db, line=at.line, digest=digest_of(sha256)), caching=FOREVER)
