"""Evidence: the bytes that an agent's findings cite. They answer nobody but the branch that uploaded them."""

import re
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from anabranch.api.access import OfOwnBranch
from anabranch.api.bodies import RawBody
from anabranch.api.replies import FOREVER, is_held, reply
from anabranch.api.routes.archives import DigestPath, digest_of
from anabranch.api.routing import Route
from anabranch.api.visibility import OnBranch
from anabranch.branches import evidence
from anabranch.identity import grants
from anabranch.model.answers import EvidenceState
from anabranch.model.errors import InvalidInputError
from anabranch.model.limits import EVIDENCE_BYTES
from anabranch.store.evidence import EvidenceRow

router = APIRouter(prefix="/v1/namespaces/{namespace}/branches/{branch}/evidence", route_class=Route, tags=["evidence"])

AtOwnBranch = Annotated[OnBranch, Depends(OfOwnBranch(grants.OWN_BRANCH))]

_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(;[\x20-\x7e]*)?")
_MEDIA_TYPE_BYTES = 255
_INERT = {
    "X-Content-Type-Options": "nosniff",
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "sandbox",
}
"""What an agent uploaded must never run in the browser of whoever looks at it."""

_body = RawBody(
    limit=EVIDENCE_BYTES,
    what="evidence",
    media_type="*/*",
    hint="Cite a Git commit or a configured https host instead, or upload an excerpt.",
)


@router.put(
    "/{sha256}",
    response_model=EvidenceState,
    summary="Upload evidence",
    responses={201: {"model": EvidenceState, "description": "It is new"}},
)
async def put_evidence(
    at: AtOwnBranch, sha256: DigestPath, request: Request, body: Annotated[bytes, Depends(_body)]
) -> Response:
    """Keep a blob under its digest; findings cite it by the locator that is answered."""
    state, new = await evidence.keep(
        at.store.db, at.branch, digest=digest_of(sha256), media_type=_media_type(request), body=body
    )
    return reply(state, status=201 if new else 200)


@router.head("/{sha256}", response_class=Response, summary="Whether evidence is there")
async def head_evidence(at: AtOwnBranch, sha256: DigestPath) -> Response:
    """200 if this branch uploaded it, else 404."""
    await evidence.check(at.store.db, at.branch, digest=digest_of(sha256))
    return Response()


@router.get(
    "/{sha256}",
    response_class=Response,
    summary="Read evidence",
    responses={200: {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def get_evidence(at: AtOwnBranch, sha256: DigestPath, request: Request) -> Response:
    """The bytes, under the media type that they came with."""
    return served(await evidence.find(at.store.db, at.branch, digest=digest_of(sha256)), request)


def served(row: EvidenceRow, request: Request) -> Response:
    """A blob as an answer, or 304 where the caller has it."""
    headers = {**_INERT, "ETag": f'"{row.digest.hex()}"', "Cache-Control": FOREVER, "Vary": "Authorization"}
    if is_held(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(row.body, headers={**headers, "Content-Type": row.media_type})


def _media_type(request: Request) -> str:
    given = request.headers.get("content-type", "application/octet-stream")
    if len(given) > _MEDIA_TYPE_BYTES or not _MEDIA_TYPE.fullmatch(given):
        raise InvalidInputError(
            f"The Content-Type is no media type of at most {_MEDIA_TYPE_BYTES} bytes.", hint="Send type/subtype."
        )
    return given
