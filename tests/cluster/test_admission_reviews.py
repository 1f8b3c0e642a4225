"""Only a reviewer decides, and only in the own name, whichever way the write comes.

Everyone here may do anything to ConsolidationJobs as far as plain RBAC goes: what stops them is the admission policy.
"""

from __future__ import annotations

import json

import pytest

from anabranch.devcluster.errors import DevclusterError

pytestmark = pytest.mark.long

JOBS = "* consolidationjobs,consolidationjobs/status"
REVIEW = "update consolidationjobs/review"
CANDIDATE = "cand_01h455vb4pex5vsknk084sn02q_01h455vb4pex5vsknk084sn02q"
OTHER = "cand_01h455vb4pex5vsknk084sn02q_01h455vb4pex5vsknk084sn02r"
LACKS = "you lack the verb update on consolidationjobs/review"
NOT_YOURS = "may change only the entry with that reviewer"


def entry(reviewer, action="accept", candidate=CANDIDATE):
    decision = {"candidateId": candidate, "contentHash": "sha256:" + "0" * 64, "baseRevision": "0", "action": action}
    return {"reviewer": reviewer, "decisions": [decision]}


def job(*reviews, name="job", **spec):
    return {
        "apiVersion": "anabranch.dev/v1alpha1",
        "kind": "ConsolidationJob",
        "metadata": {"name": name},
        "spec": {
            "branchRef": {"name": "b"},
            "batches": {"from": 1, "through": 2},
            **({"reviews": list(reviews)} if reviews else {}),
            **spec,
        },
    }


@pytest.fixture
def me(namespace):
    return lambda name: f"system:serviceaccount:{namespace}:{name}"


@pytest.fixture
def agent(person):
    return person("agent", "anabranch-agent", JOBS)


@pytest.fixture
def ada(person):
    return person("ada", JOBS, REVIEW)


@pytest.fixture
def ben(person):
    return person("ben", JOBS, REVIEW)


@pytest.fixture
def reviews(installed, namespace):
    """What the job holds, as {reviewer: action}."""

    def read():
        spec = installed.get("cjob", "job", f"-n{namespace}")["spec"]
        return {each["reviewer"]: each["decisions"][0]["action"] for each in spec.get("reviews", [])}

    return read


@pytest.fixture
def refused(reviews):
    """Runs a write that must be refused with these words, and leave the job's reviews as they were."""

    def run(words, call, *arguments, **options):
        before = reviews()
        with pytest.raises(DevclusterError) as refusal:
            call(*arguments, **options)
        assert words in str(refusal.value)
        assert reviews() == before

    return run


def create(who, body):
    who.kubectl("create", "-f-", stdin=json.dumps(body))


def replace(who, body):
    who.kubectl("replace", "-f-", stdin=json.dumps(body))


def merge(who, *reviews, **options):
    body = json.dumps({"spec": {"reviews": list(reviews)}})
    who.kubectl("patch", "cjob", "job", "--type=merge", f"-p={body}", *options.get("flags", ()))


def json_patch(who, *operations):
    who.kubectl("patch", "cjob", "job", "--type=json", f"-p={json.dumps(operations)}")


def server_side(who, *reviews, manager="kubectl", force=False):
    body = job(*reviews)
    flags = [f"--field-manager={manager}", *(["--force-conflicts"] if force else [])]
    who.kubectl("apply", "--server-side", "-f-", *flags, stdin=json.dumps(body))


def client_side(who, *reviews):
    who.kubectl("apply", "-f-", stdin=json.dumps(job(*reviews)))


# An agent, which may write jobs and not review


def test_an_agent_makes_and_changes_jobs_without_reviews(agent, reviews):
    create(agent, job())
    agent.kubectl("patch", "cjob", "job", "--type=merge", '-p={"spec": {"retryLimit": 1, "reviews": []}}')
    agent.kubectl("label", "cjob", "job", "seen=yes")
    assert reviews() == {}


def test_an_agent_smuggles_no_review_in_at_creation(agent, me):
    for body in (job(entry(me("agent"))), job(entry(me("ada"))), job(entry("kubernetes-admin"))):
        with pytest.raises(DevclusterError, match=LACKS):
            create(agent, body)
        generated = {**body, "metadata": {"generateName": "job-"}}
        with pytest.raises(DevclusterError, match=LACKS):
            create(agent, generated)
        with pytest.raises(DevclusterError, match=LACKS):
            agent.kubectl("apply", "--server-side", "-f-", stdin=json.dumps(body))
    assert agent.get("cjob")["items"] == []


@pytest.mark.parametrize("write", [merge, server_side, client_side], ids=lambda write: write.__name__)
def test_an_agent_cannot_approve_its_own_finding(agent, me, refused, write):
    create(agent, job())
    refused(LACKS, write, agent, entry(me("agent")))
    refused(LACKS, write, agent, entry(me("ada")))


def test_an_agent_cannot_approve_by_update_or_json_patch(agent, me, refused):
    create(agent, job())
    stored = agent.get("cjob", "job")
    stored["spec"]["reviews"] = [entry(me("agent"))]
    refused(LACKS, replace, agent, stored)
    refused(LACKS, json_patch, agent, {"op": "add", "path": "/spec/reviews", "value": [entry(me("agent"))]})


def test_an_agent_cannot_erase_or_turn_a_review(agent, ada, me, refused):
    create(ada, job(entry(me("ada"), "reject")))
    refused(LACKS, merge, agent)
    refused(LACKS, json_patch, agent, {"op": "remove", "path": "/spec/reviews"})
    refused(LACKS, json_patch, agent, {"op": "remove", "path": "/spec/reviews/0/decisions/0"})
    refused(
        LACKS, json_patch, agent, {"op": "replace", "path": "/spec/reviews/0/decisions/0/action", "value": "accept"}
    )
    stored = agent.get("cjob", "job")
    del stored["spec"]["reviews"]
    refused(LACKS, replace, agent, stored)


def test_a_status_write_carries_no_review(agent, me, reviews):
    create(agent, job())
    body = json.dumps({"spec": {"reviews": [entry(me("agent"))]}, "status": {"holder": "somebody"}})
    agent.kubectl("patch", "cjob", "job", "--subresource=status", "--type=merge", f"-p={body}")
    assert agent.get("cjob", "job")["status"]["holder"] == "somebody"
    assert reviews() == {}


def test_whoever_may_impersonate_is_judged_as_the_impersonated(installed, namespace, agent, ada, me, reviews, refused):
    create(agent, job())
    with pytest.raises(DevclusterError, match="cannot impersonate"):
        merge(agent, entry(me("ada")), flags=(f"--as={me('ada')}",))
    # The admin may, and has every verb; but an entry is written only in the name of the one who writes.
    refused(NOT_YOURS, merge, installed_in(installed, namespace), entry(me("ada")))
    as_agent = installed_in(installed, namespace, f"--as={me('agent')}")
    refused(LACKS, merge, as_agent, entry(me("agent")))
    merge(installed_in(installed, namespace, f"--as={me('ada')}"), entry(me("ada")))
    assert reviews() == {me("ada"): "accept"}


def installed_in(cluster, namespace, *flags):
    """The admin's kubectl in a namespace, perhaps as somebody else."""

    class Acting:
        @staticmethod
        def kubectl(*arguments, **options):
            return cluster.kubectl(*arguments, f"--namespace={namespace}", *flags, **options)

    return Acting()


# Reviewers


def test_the_aggregate_role_of_reviewers_suffices_to_decide(agent, person, me, reviews):
    create(agent, job())
    reviewer = person("carl", "anabranch-reviewer")
    merge(reviewer, entry(me("carl")))
    assert reviews() == {me("carl"): "accept"}
    with pytest.raises(DevclusterError, match="cannot create resource"):
        create(reviewer, job(name="another"))


def test_a_person_known_by_a_group_decides_under_the_own_user_name(installed, namespace, agent, reviews):
    installed.kubectl(
        "create", "rolebinding", "leads", "--clusterrole=anabranch-reviewer", "--group=leads", f"-n{namespace}"
    )
    create(agent, job())
    dora = installed_in(
        installed, namespace, "--as=dora@example.org", "--as-group=leads", "--as-group=system:authenticated"
    )
    merge(dora, entry("dora@example.org"))
    assert reviews() == {"dora@example.org": "accept"}


def test_a_grant_on_one_job_is_a_grant_on_that_job_only(installed, namespace, agent, person, me, reviews, refused):
    create(agent, job())
    create(agent, job(name="other"))
    eve = person("eve", JOBS)
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "one-job", "namespace": namespace},
        "rules": [
            {
                "apiGroups": ["anabranch.dev"],
                "resources": ["consolidationjobs/review"],
                "resourceNames": ["other"],
                "verbs": ["update"],
            }
        ],
    }
    installed.apply([role])
    installed.kubectl(
        "create", "rolebinding", "one-job", "--role=one-job", f"--serviceaccount={namespace}:eve", f"-n{namespace}"
    )
    refused(LACKS, merge, eve, entry(me("eve")))
    body = json.dumps({"spec": {"reviews": [entry(me("eve"))]}})
    eve.kubectl("patch", "cjob", "other", "--type=merge", f"-p={body}")


def test_a_reviewer_writes_no_entry_of_another(ada, ben, me, refused):
    with pytest.raises(DevclusterError, match=NOT_YOURS):
        create(ada, job(entry(me("ben"))))
    with pytest.raises(DevclusterError, match=NOT_YOURS):
        create(ada, job(entry(me("ada")), entry(me("ben"))))
    create(ada, job(entry(me("ada"))))
    refused(NOT_YOURS, merge, ada, entry(me("ada")), entry(me("ben")))
    refused(NOT_YOURS, merge, ben, entry(me("ben")))  # a merge patch replaces the list, and so erases ada's entry
    refused(NOT_YOURS, merge, ben)
    refused(NOT_YOURS, server_side, ben, entry(me("ada"), "reject"), force=True)
    refused(NOT_YOURS, json_patch, ben, {"op": "replace", "path": "/spec/reviews/0/reviewer", "value": me("ben")})
    refused(
        NOT_YOURS,
        json_patch,
        ben,
        {"op": "add", "path": "/spec/reviews/0/decisions/-", "value": entry("", candidate=OTHER)["decisions"][0]},
    )


def test_two_reviewers_coexist_by_server_side_apply_and_each_withdraws_alone(agent, ada, ben, me, reviews):
    create(agent, job())
    server_side(ada, entry(me("ada")), manager="ada")
    server_side(ben, entry(me("ben"), "reject"), manager="ben")
    assert reviews() == {me("ada"): "accept", me("ben"): "reject"}
    server_side(ada, entry(me("ada"), "reject"), manager="ada")
    assert reviews() == {me("ada"): "reject", me("ben"): "reject"}
    server_side(ada, manager="ada")
    assert reviews() == {me("ben"): "reject"}
    server_side(ben, manager="ben")
    assert reviews() == {}


def test_two_reviewers_coexist_by_patch_when_each_adds_to_the_list(agent, ada, ben, me, reviews):
    create(agent, job())
    json_patch(ada, {"op": "add", "path": "/spec/reviews/-", "value": entry(me("ada"))})
    json_patch(ben, {"op": "add", "path": "/spec/reviews/-", "value": entry(me("ben"))})
    merge(ben, entry(me("ada")), entry(me("ben"), "reject"))
    assert reviews() == {me("ada"): "accept", me("ben"): "reject"}


def test_the_next_write_after_a_grant_is_revoked_is_refused(installed, namespace, agent, ada, me, refused):
    create(agent, job())
    merge(ada, entry(me("ada")))
    installed.kubectl("delete", "rolebinding", "--all", f"-n{namespace}")
    installed.kubectl(
        "create", "rolebinding", "edit", "--clusterrole=edit", f"--serviceaccount={namespace}:ada", f"-n{namespace}"
    )
    refused(LACKS, merge, ada, entry(me("ada"), "reject"))


def test_as_many_decisions_as_fit_pass_the_cost_limits_of_the_policy(agent, ada, ben, me):
    create(agent, job())
    ids = [f"{CANDIDATE[:-3]}{n:03}" for n in range(100)]
    for who, name in ((ada, "ada"), (ben, "ben"), (ada, "ada")):
        decisions = [entry("", candidate=each)["decisions"][0] for each in ids]
        server_side(who, {"reviewer": me(name), "decisions": decisions}, manager=name)
    assert [len(review["decisions"]) for review in agent.get("cjob", "job")["spec"]["reviews"]] == [100, 100]


def test_a_decision_on_a_group_stands_in_the_reviewers_own_entry(agent, ada, ben, me, refused):
    create(agent, job())
    group = {"groupId": CANDIDATE, "digest": f"sha256:{'0' * 64}", "action": "reject", "reason": "junk"}
    mine = {"reviewer": me("ada"), "decisions": [], "groups": [group]}
    refused(LACKS, merge, agent, mine)
    refused("may change only", merge, ben, mine)
    merge(ada, mine)
    assert agent.get("cjob", "job")["spec"]["reviews"] == [mine]


# Whose jobs they are


@pytest.mark.parametrize("origin", ["Held", "Import", "Retraction"])
def test_only_the_operator_makes_jobs_that_stand_for_its_own_rows(agent, ada, installed, namespace, origin):
    body = {**job(), "spec": {"origin": origin}}
    for who in (agent, ada):
        with pytest.raises(DevclusterError, match="only the operator makes jobs of another origin than Branch"):
            create(who, body)
    operator = installed_in(installed, namespace, "--as=system:serviceaccount:anabranch-system:anabranch-operator")
    create(operator, body)
    ada.kubectl("patch", "cjob", "job", "--type=merge", '-p={"spec": {"retryLimit": 1}}')


def test_the_operator_itself_cannot_decide(installed, namespace, agent, refused):
    create(agent, job())
    user = "system:serviceaccount:anabranch-system:anabranch-operator"
    refused("cannot patch resource", merge, installed_in(installed, namespace, f"--as={user}"), entry(user))
