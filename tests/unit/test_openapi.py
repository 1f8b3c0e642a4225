"""The OpenAPI document says of every route whom it serves and what it refuses; the committed file is that document."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI

from anabranch.api import openapi
from anabranch.api.access import Asking
from anabranch.api.app import create_app
from anabranch.api.routing import GRANT, Route
from anabranch.identity import grants

ROOT = Path(__file__).parents[2]
DOCUMENT = create_app().openapi()
OPERATIONS = [
    pytest.param(path, method, operation, id=f"{method.upper()} {path}")
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
]
OPEN = {"/healthz", "/readyz"}
ROWS = {(row.resource, row.verb): row for row in grants.TABLE}


def unguarded(document: dict) -> list[str]:
    """The operations that name no row of the table of grants, but for those that are open to all."""
    return [
        f"{method} {path}"
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if path not in OPEN and not operation.get(GRANT)
    ]


def is_kv(path: str) -> bool:
    """Whether a path is of the key-value contract, whose errors are its own."""
    return "/branches/{branch}/kv/" in path


def test_no_route_is_without_a_grant():
    assert unguarded(DOCUMENT) == []


def test_a_route_that_asks_for_no_grant_would_be_found():
    app = FastAPI()
    app.router.route_class = Route

    @app.get("/v1/namespaces/{namespace}/everything")
    async def everything(namespace: str) -> str:
        return namespace

    assert unguarded(app.openapi()) == ["get /v1/namespaces/{namespace}/everything"]


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_each_operation_names_rows_of_the_table_and_the_problems_of_those_who_lack_them(path, method, operation):
    if path in OPEN:
        assert operation[GRANT] == operation["security"] == []
        return
    for row in operation[GRANT]:
        assert ROWS[row["resource"], row["verb"]].what == row["what"]
    assert operation["security"] == [{"HTTPBearer": []}]
    media_type, schema = ("application/json", "KvError") if is_kv(path) else ("application/problem+json", "Problem")
    for status in ("401", "403", "404", "400" if is_kv(path) else "422", "503", "default"):
        content = operation["responses"][status]["content"]
        assert content == {media_type: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
        assert operation["responses"][status]["description"]
    assert operation["summary"]
    assert operation["description"]


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_each_upload_documents_its_body_and_its_limit(path, method, operation):
    if method not in {"put", "post"}:
        assert "requestBody" not in operation
        return
    assert operation["requestBody"]["required"]
    assert {"400", "413"} <= operation["responses"].keys()
    assert any(parameter["name"] == "Content-Digest" for parameter in operation["parameters"])


def test_every_reference_leads_somewhere():
    def references(value):
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for member in value.values():
                yield from references(member)
        elif isinstance(value, list):
            for member in value:
                yield from references(member)

    schemas = DOCUMENT["components"]["schemas"]
    found = set(references(DOCUMENT))
    assert "#/components/schemas/FindingBatch" in found
    assert {reference for reference in found if reference.removeprefix("#/components/schemas/") not in schemas} == set()


def test_it_is_a_3_1_document_with_unique_operation_ids():
    assert DOCUMENT["openapi"] == "3.1.0"
    ids = [operation.values[2]["operationId"] for operation in OPERATIONS]
    assert len(ids) == len(set(ids))
    assert len(ids) >= 35


def test_each_grant_of_the_table_that_routes_can_ask_for_is_asked_by_one():
    asked = {(row["resource"], row["verb"]) for item in OPERATIONS for row in item.values[2][GRANT]}
    operators = {grants.FORK, grants.SCOPE_TOMBSTONE}
    assert {(row.resource, row.verb) for row in grants.TABLE if row not in operators} == asked


def test_a_dependency_documents_the_rows_that_it_asks_for():
    operation: dict = {}
    Asking(grants.DECIDE).document(operation)
    assert operation[GRANT] == [{"resource": "consolidationjobs/review", "verb": "update", "what": grants.DECIDE.what}]


def test_the_committed_file_is_up_to_date():
    assert (ROOT / openapi.TARGET).read_text(encoding="utf-8") == openapi.rendered(), "run `make generate`"


def test_check_tells_a_file_that_lags_behind(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["openapi", "--check"])
    assert openapi.main() == 1
    assert "make generate" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["openapi"])
    assert openapi.main() == 0
    monkeypatch.setattr("sys.argv", ["openapi", "--check"])
    assert openapi.main() == 0


def test_the_page_about_the_api_lists_every_route_with_its_grants():
    page = (ROOT / "docs/spec/http.md").read_text(encoding="utf-8")
    for path, method, operation in (parameters.values for parameters in OPERATIONS):
        short = path.replace("/v1/namespaces/{namespace}", "…")
        rows = ", ".join(f"`{row['resource']}` {row['verb']}" for row in operation[GRANT]) or "open"
        assert f"| {method.upper()} | `{short}` | {rows} | " in page
    assert page.count("\n| GET |") + page.count("\n| P") + page.count("\n| HEAD |") + page.count("\n| DELETE |") == len(
        OPERATIONS
    )
