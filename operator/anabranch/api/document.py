"""The OpenAPI 3.1 document: FastAPI's, and with it the schemas of what is not read by FastAPI."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from anabranch.model.agent_events import ClaimRequest, EventAck, EventFailure
from anabranch.model.answers import Problem
from anabranch.model.cloudevents import CloudEvent
from anabranch.model.kv import KvCheckpointRequest, KvError, MemorySearch, RememberRequest
from anabranch.model.memory import ExchangePost, MemorySync, PutSection
from anabranch.model.merging import DraftRequest, MergeRequest
from anabranch.model.objects import FindingBatch, RunCompletion
from anabranch.model.requests import BranchRequest, BulkBatches, PrivateWrite, RetractionRequest, ReviewRequest
from anabranch.model.runs import CheckpointWrite, CursorWrite, PresenceWrite

REQUESTS: Final[tuple[type[BaseModel], ...]] = (
    Problem,
    BranchRequest,
    BulkBatches,
    CheckpointWrite,
    ClaimRequest,
    CloudEvent,
    CursorWrite,
    EventAck,
    EventFailure,
    ExchangePost,
    FindingBatch,
    KvCheckpointRequest,
    KvError,
    MemorySearch,
    MemorySync,
    PresenceWrite,
    PrivateWrite,
    PutSection,
    RememberRequest,
    RetractionRequest,
    MergeRequest,
    DraftRequest,
    ReviewRequest,
    RunCompletion,
)
"""Models that the document refers to by name, and FastAPI does not know of."""


def document(app: FastAPI) -> dict[str, Any]:
    """The document of an application."""
    made = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version="3.1.0",
        description=app.description,
        license_info=app.license_info,
        routes=app.routes,
        separate_input_output_schemas=app.separate_input_output_schemas,
    )
    _, definitions = models_json_schema(
        [(model, "validation") for model in REQUESTS], ref_template="#/components/schemas/{model}"
    )
    schemas = made["components"]["schemas"]
    for name, schema in definitions["$defs"].items():
        schemas.setdefault(name, schema)
    # FastAPI's own errors never leave the API: each operation documents problems instead.
    for item in made["paths"].values():
        for operation in item.values():
            responses = operation["responses"]
            responses["422"]["content"].pop("application/json", None)
            if not responses["422"]["content"]:  # the key-value contract answers 400 in its stead
                del responses["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    made["components"]["schemas"] = dict(sorted(schemas.items()))
    return made
