"""The doors of MCP: ``/mcp`` for an agent's tools, and one below each branch's key-value contract for instantKV's.

They are no part of the OpenAPI document, which could say nothing of the tools: `tools/list` does.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from anabranch.api.access import Credentials
from anabranch.api.bodies import RawBody
from anabranch.api.mcp import BODY_BYTES, Answer, Tools, check_origin
from anabranch.api.parts import WithParts
from anabranch.api.routes.kv import AtOwnBranch
from anabranch.identity import Caller

router = APIRouter()


async def _authenticated(parts: WithParts, credentials: Credentials) -> Caller:
    """The caller; what they may do is asked by each tool."""
    return await parts.identity.authenticate(credentials.credentials if credentials else "")


_body = RawBody(limit=BODY_BYTES, what="call", hint="Send less at once.")
Body = Annotated[bytes, Depends(_body)]


@router.post("/mcp", include_in_schema=False)
async def of_agents(_caller: Annotated[Caller, Depends(_authenticated)], request: Request, body: Body) -> Response:
    """The tools of an agent."""
    check_origin(request)
    tools: Tools = request.app.state.tools
    return Answer(tools.of_agents, body)


@router.post("/v1/namespaces/{namespace}/branches/{branch}/kv/mcp", include_in_schema=False)
async def of_instantkv(at: AtOwnBranch, request: Request, body: Body) -> Response:
    """The tools of instantKV, on one branch."""
    check_origin(request)
    tools: Tools = request.app.state.tools
    return Answer(tools.of_instantkv(at.branch.namespace, at.branch.branch_id), body)
