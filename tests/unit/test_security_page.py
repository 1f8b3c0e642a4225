"""What the security page says of Kubernetes roles is what the manifests say."""

from __future__ import annotations

from tests.unit.security_page import of_roles, told

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
