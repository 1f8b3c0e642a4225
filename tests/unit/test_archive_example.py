"""The example knowledge imports whole, and holds the facts that the demo's story stands on."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from anabranch.archive import ArchiveReader
from anabranch.archive.directory import write_archive
from anabranch.archive.settings import ImportSettings
from anabranch.archive.walk import scan

EXAMPLE = Path(__file__).parents[2] / "examples/platform-team"


@pytest.fixture(scope="module")
def records():
    output = io.BytesIO()
    result = write_archive(scan(EXAMPLE, ImportSettings.load(EXAMPLE)), output, created_by="test/1")
    assert result.skipped == ()
    return {record.key: record for record in ArchiveReader(io.BytesIO(output.getvalue()))}


def test_it_has_at_least_sixty_records_in_three_scopes(records):
    assert len(records) >= 60
    assert {record.scope for record in records.values()} == {"shared", "team/build", "team/platform"}
    assert "README" not in records


def test_no_record_is_empty(records):
    assert [key for key, record in records.items() if record.content in ({}, [], "", None)] == []
    assert [
        key for key, record in records.items() if isinstance(record.content, dict) and record.content.get("text") == ""
    ] == []


@pytest.mark.parametrize(
    ("key", "scope", "text"),
    [
        (
            "runbooks/build-failures#linker-killed-exit-137-in-the-payments-service-build",
            "team/build",
            "Cause: unknown",
        ),
        ("setup/local-environment#prerequisites", "shared", "Rust 1.82"),
        ("setup/local-environment#database", "shared", "Postgres 15"),
        ("ci/build-cache#timeout", "team/build", "30 seconds"),
        ("ci/build-cache#size-and-eviction", "team/build", "400 GiB"),
    ],
)
def test_the_demos_facts_stand_where_the_demo_looks(records, key, scope, text):
    assert records[key].scope == scope
    assert text in records[key].content["text"]


def test_the_unknown_cause_can_be_found_out_from_other_records(records):
    assert records["ci/runner-pools/medium"].content["memory_gib"] == 8
    assert records["services/payments"].content["build"] == {
        "pool": "medium",
        "profile": "release",
        "lto": "fat",
        "crates": 214,
    }
    assert records["dependencies/toolchains"].content["rust"]["since"] == "2025-02-23"
