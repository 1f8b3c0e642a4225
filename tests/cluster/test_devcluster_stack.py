"""The running whole: under its own rights, the same after a restart, and gone without a trace."""

from __future__ import annotations

import json
import os
import signal

import asyncpg
import psutil
import pytest
import yaml

from anabranch.devcluster import assembly, controlplane
from anabranch.devcluster.ports import answers
from anabranch.devcluster.processes import Processes

pytestmark = pytest.mark.long


def pid(stack, name):
    process = Processes(stack.folder).running(name)
    return process.pid if process else None


def test_operator_and_api_act_as_their_own_service_accounts_and_nothing_acts_as_the_admin(stack):
    if stack.cluster.audit_log is None:
        pytest.skip(f"a {stack.cluster.kind} cluster shows no audit log")
    agents = {}
    for line in stack.cluster.audit_log.read_text().splitlines():
        request = json.loads(line)
        agents.setdefault(request["user"]["username"], set()).add(request.get("userAgent", "").split("/")[0])
    assert f"system:serviceaccount:{stack.namespace}:anabranch-operator" in agents
    assert agents["admin"] <= {"kubectl", "anabranch-devcluster"}


def test_starting_a_stack_that_runs_changes_nothing(stack):
    before = {name: pid(stack, name) for name in ("operator", "api", "token-keeper")}
    assert all(before.values())
    assert assembly.up(stack.folder, options=assembly.Options(audit=True)) == stack
    assert {name: pid(stack, name) for name in before} == before


def test_an_operator_starts_anew_with_another_configuration_and_keeps_it(stack):
    config = {"backupTargets": {"here": {"folder": {"path": str(stack.folder)}}}}
    before = pid(stack, "operator")
    others = yaml.safe_load((stack.folder / "config.yaml").read_text())  # tests in this process rely on it
    options = assembly.Options(audit=True, config=config)
    try:
        assembly.up(stack.folder, options=options)
        with_it = pid(stack, "operator")
        assert with_it != before
        for again in (options, assembly.Options(audit=True)):
            assembly.up(stack.folder, options=again)
            assert pid(stack, "operator") == with_it
            assert yaml.safe_load((stack.folder / "config.yaml").read_text()) == config
    finally:
        assembly.up(stack.folder, options=assembly.Options(audit=True, config=others))
    assert pid(stack, "operator") != with_it


def test_a_process_that_was_killed_starts_again_where_it_was(stack):
    url, before = stack.api_url, pid(stack, "api")
    stack.kill("api")
    assert pid(stack, "api") is None
    with pytest.raises(OSError, match="refused"):
        answers(f"{url}/readyz")
    stack.start_api()
    assert stack.api_url == url
    assert pid(stack, "api") != before
    assert answers(f"{url}/readyz")


def test_a_process_that_runs_and_is_not_ready_starts_anew(stack):
    before = pid(stack, "api")
    os.kill(before, signal.SIGSTOP)
    stack.start_api()
    assert pid(stack, "api") not in (None, before)
    assert not psutil.pid_exists(before)
    assert answers(f"{stack.api_url}/readyz")


def test_a_second_operator_and_a_second_api_run_beside_the_first(stack):
    try:
        stack.start_operator("operator-2")
        stack.start_api("api-2")
        for name in ("operator", "operator-2", "api", "api-2"):
            assert answers(f"{stack.inner_url(name)}/readyz")
    finally:
        stack.stop("operator-2")
        stack.stop("api-2")


async def test_operator_and_api_use_the_database_under_their_own_roles(stack):
    connection = await asyncpg.connect(stack.admin_dsn)
    try:
        query = (
            "SELECT DISTINCT split_part(application_name, ' ', 1) AS program, usename FROM pg_stat_activity"
            " WHERE datname = $1 AND application_name ~ '^anabranch-(operator|api)( |$)'"
        )
        users = {(row["program"], row["usename"]) for row in await connection.fetch(query, stack.secrets.database)}
    finally:
        await connection.close()
    assert users == {("anabranch-operator", "anabranch_operator"), ("anabranch-api", "anabranch_api")}


class InterruptedDemoError(Exception):
    """Something goes wrong in the middle of a demo."""


def interrupt(stack, seen):
    seen["folder"] = stack.folder
    names = {"": ("operator", "api", "token-keeper"), "postgres": ("postgres",), "cluster": controlplane.COMPONENTS}
    for folder, processes in names.items():
        for name in processes:
            if process := Processes(stack.folder / folder).running(name):
                seen["pids"].append(process.pid)
    raise InterruptedDemoError


def test_a_temporary_stack_leaves_no_process_and_no_file_when_its_block_fails():
    seen = {"pids": []}
    with pytest.raises(InterruptedDemoError), assembly.temporary() as stack:
        interrupt(stack, seen)
    assert len(seen["pids"]) >= 3
    assert not any(psutil.pid_exists(each) for each in seen["pids"])
    assert not seen["folder"].exists()
