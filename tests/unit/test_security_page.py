"""What the security page says of Kubernetes roles is what the manifests say, and the tests that it names are there."""

from __future__ import annotations

import ast

from tests.unit.security_page import PAGE, of_roles, shown_by, told

from anabranch.manifests import install


def roles(*, people):
    for item in install():
        name = item["metadata"]["name"].removeprefix("anabranch-")
        if item["kind"] in {"Role", "ClusterRole"} and (name in {"operator", "operator-served", "api"}) is not people:
            yield item


def test_what_people_and_agents_may_do_is_told_as_it_is():
    assert told("What each ClusterRole gives") == list(of_roles(roles(people=True)))


def test_what_the_two_accounts_may_do_is_told_as_it_is():
    assert told("What the two accounts may do") == list(of_roles(roles(people=False)))


def test_each_threat_names_a_test_that_is_there():
    for row in told("Threats"):
        assert "](../tests/" in row, row
    files = {path: ast.parse((PAGE.parents[1] / path).read_text(encoding="utf-8")) for path, _ in shown_by()}
    defined = {
        (path, found.name)
        for path, parsed in files.items()
        for found in parsed.body
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert shown_by() - defined == set()
