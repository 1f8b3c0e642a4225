"""The application: its routes, its errors, its document."""

from typing import Any

from fastapi import FastAPI

from anabranch import __version__
from anabranch.api import people, problems
from anabranch.api.document import document
from anabranch.api.mcp import Tools
from anabranch.api.parts import Parts
from anabranch.api.routes import (
    agent_events,
    archives,
    baselines,
    branches,
    events,
    evidence,
    exports,
    findings,
    health,
    jobs,
    kv,
    lineage,
    mcp,
    memory,
    merges,
    peers,
    quality,
    runs,
    search,
)

ROUTERS = (
    *(health, baselines, archives, exports, events, branches, findings, evidence, jobs, runs, peers, search, quality),
    *(merges, lineage, memory, agent_events),
    *(mcp, kv),  # the latter has a route for all that it does not have
)


def create_app(parts: Parts | None = None) -> FastAPI:
    """The application.

    Args:
        parts: What its handlers call; None for an application that only describes itself.
    """
    app = FastAPI(
        title="Anabranch",
        version=__version__,
        description="Branching, reviewed memory for fleets of AI agents. docs/spec/http.md tells its conventions.",
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        # A redirect would lose a key's trailing slash, and the pages that browse the document load scripts from afar.
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    app.state.parts = parts
    app.state.tools = Tools(app)
    problems.install(app)
    for module in ROUTERS:
        app.include_router(module.router)
    if parts is not None:
        people.serve(app, parts)

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]
    return app
