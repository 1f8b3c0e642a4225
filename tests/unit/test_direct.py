"""Which requests are answered without the framework's routing: those that are plainly one of three, and no other."""

import pytest

from anabranch.api import direct
from anabranch.model.ids import new_branch_id, new_line_id

BRANCH = new_branch_id(new_line_id())
BATCH = f"/v1/namespaces/team/branches/{BRANCH}/batches/7"
RECORD = "/v1/namespaces/team/baselines/facts/manifests/12/records/build/exit-137"


def scope(method, path, *, query=b"", headers=((b"authorization", b"Bearer a.b.c"),)):
    return {"type": "http", "method": method, "path": path, "query_string": query, "headers": list(headers)}


@pytest.mark.parametrize(
    ("method", "path", "named"),
    [
        ("PUT", BATCH, ("team", BRANCH, "7")),
        ("PUT", BATCH.replace(BRANCH, "by.name"), ("team", "by.name", "7")),
        ("POST", BATCH.removesuffix("/7"), ("team", BRANCH, "")),
        ("GET", RECORD, ("team", "facts", "12/records/build/exit-137")),
        ("GET", RECORD.replace("12", "current"), ("team", "facts", "current/records/build/exit-137")),
        ("GET", f"{RECORD}/records/x", ("team", "facts", "12/records/build/exit-137/records/x")),
    ],
    ids=["a batch", "by name", "several", "a record", "of the current one", "a key like a path"],
)
def test_a_plain_request_is_recognized_with_what_it_names(method, path, named):
    _, captured, token = direct._recognized(scope(method, path))
    assert (captured, token) == (named, "a.b.c")


@pytest.mark.parametrize(
    "asked",
    [
        scope("GET", BATCH),
        scope("PUT", BATCH, query=b"x=1"),
        scope("PUT", BATCH, headers=[]),
        scope("PUT", BATCH, headers=[(b"authorization", b"Basic abc")]),
        scope("PUT", BATCH, headers=[(b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")]),
        scope("PUT", f"{BATCH}/"),
        scope("PUT", BATCH.replace("/7", "/07")),
        scope("PUT", BATCH.replace("/7", "/0")),
        scope("PUT", BATCH.replace("/7", "/" + "9" * 16)),
        scope("PUT", BATCH.replace("team", "Team")),
        scope("PUT", BATCH.replace("team", "t" * 64)),
        scope("GET", RECORD, query=b"proof=true"),
        scope("GET", RECORD.removesuffix("build/exit-137")),
        scope("GET", f"{RECORD}\n"),
        scope("GET", f"{RECORD}e\u0301"),
        scope("GET", RECORD + "x" * 512),
        {**scope("PUT", BATCH), "type": "lifespan"},
    ],
    ids=lambda asked: f"{asked['method']} {asked['path'].replace(BRANCH, 'branch')[-20:]!a} {asked['query_string']!r}",
)
def test_whatever_is_unusual_goes_the_documented_way(asked):
    assert direct._recognized(asked) is None


def test_every_recognized_request_has_a_documented_route():
    from anabranch.api.app import create_app

    paths = create_app().openapi()["paths"]
    for method, _, handler in direct._ROUTES:
        kind, path = direct._TEMPLATES[handler]
        assert method.lower() in paths[path]
        assert f"{{{kind}}}" in path
