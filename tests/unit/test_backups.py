"""What a Baseline says of its backups, and what the operator's configuration takes for a target."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from click.testing import CliRunner
from tests.unit.rows import LINE, T0, baseline

from anabranch.backup import gate
from anabranch.backup.config import FolderTarget
from anabranch.backup.folder import Folder
from anabranch.backup.restoring import listed
from anabranch.backup.target import UnknownTargetError
from anabranch.backup.turning import Targets
from anabranch.cli.backup import command
from anabranch.controllers.configuration import Configuration
from anabranch.controllers.status.baseline import baseline_status
from anabranch.controllers.status.conditions import Seen
from anabranch.controllers.status.job import _REASONS
from anabranch.controllers.status.occurrences import occurrences
from anabranch.model.crd import BaselineResource
from anabranch.model.errors import InvalidInputError
from anabranch.store.backups import BackupRow
from anabranch.store.projection import BackupState

BACKUP = BackupRow(
    line=LINE,
    taken_at=T0,
    target="vault",
    place="team/kb/one.json",
    generation=2,
    baseline_id="bl_x",
    manifest_hash=b"\2" * 32,
    bytes=100,
)
FOLDER = {"backupTargets": {"vault": {"folder": {"path": "/vault"}}}}


def status(**backup):
    row = replace(baseline(head=3), backup=BackupState(**backup))
    return baseline_status(row, seen=Seen(), now=T0 + timedelta(hours=1)).whole()


def backed_up(told):
    return next(((c["status"], c["reason"]) for c in told["conditions"] if c["type"] == "BackedUp"), None)


@pytest.mark.parametrize(
    ("backup", "condition"),
    [
        ({}, None),
        ({"newest": BACKUP}, None),
        ({"target": "vault"}, ("False", "BackupAwaited")),
        ({"target": "vault", "newest": BACKUP}, ("True", "Recorded")),
        ({"target": "elsewhere", "newest": BACKUP}, ("False", "BackupAwaited")),
        ({"target": "vault", "newest": BACKUP, "error": "no room"}, ("False", "BackupFailed")),
    ],
)
def test_the_status_tells_the_newest_backup_and_whether_the_last_attempt_succeeded(backup, condition):
    told = status(**backup)
    assert backed_up(told) == condition
    assert ("lastBackup" in told) == ("newest" in backup)
    if "newest" in backup:
        assert told["lastBackup"] == {
            "takenAt": T0.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "generation": 2,
            "manifestHash": f"sha256:{'02' * 32}",
            "target": "vault",
            "place": "team/kb/one.json",
        }
    assert told["conditions"][0]["status"] == "True"  # what is published is read as ever


def test_a_backup_that_fails_is_an_event():
    (told,) = occurrences(
        "Baseline",
        before=Seen.of(status(target="vault", newest=BACKUP)),
        status=status(target="vault", error="no room"),
    )
    assert (told.reason, told.type) == ("BackupFailed", "Warning")


def test_a_job_that_waits_for_a_backup_says_where_to_look():
    assert "BackedUp" in _REASONS[gate.AWAITED]


def test_a_configuration_names_targets_each_of_one_kind():
    targets = Targets(Configuration.parse(FOLDER).backup_targets)
    assert isinstance(targets.archives("vault"), Folder)
    with pytest.raises(UnknownTargetError, match="no backup target 'other'; it has vault"):
        targets.archives("other")
    database = {"cloudNativePG": {"namespace": "postgres", "cluster": "main"}}
    with pytest.raises(UnknownTargetError, match="as a whole"):
        Targets(Configuration.parse({"backupTargets": {"all": database}}).backup_targets).archives("all")


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"folder": {"path": "relative"}},
        {"folder": {"path": "/a"}, "cloudNativePG": {"namespace": "a", "cluster": "b"}},
        {"bucket": {"endpoint": "https://s3/path", "bucket": "vault", "credentialsFolder": "/keys"}},
        {"bucket": {"endpoint": "https://s3", "bucket": "vault", "prefix": "a/../b", "credentialsFolder": "/keys"}},
        {"bucket": {"endpoint": "https://s3", "bucket": "vault", "accessKeyId": "in the file"}},
        {"cloudNativePG": {"namespace": "a", "cluster": "b", "method": "plugin"}},
    ],
)
def test_a_target_that_cannot_be_is_refused_by_name(entry):
    with pytest.raises(InvalidInputError, match="backupTargets"):
        Configuration.parse({"backupTargets": {"vault": entry}})


async def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "vault").mkdir()
    (tmp_path / "secret").write_text("x")
    target = Targets(
        Configuration.parse({"backupTargets": {"vault": {"folder": {"path": f"{tmp_path}/vault"}}}}).backup_targets
    ).archives("vault")
    with pytest.raises(InvalidInputError, match="leads out"):
        await target.get("../secret", tmp_path / "copy")


async def test_what_others_have_put_into_the_folder_is_no_backup(tmp_path):
    mine = "team/facts/ln_1/000000000007-20260131T120000000000Z.json"
    for place in (
        mine,
        "team/facts/notes.json",
        "team/facts/ln_1/7.json",
        "team/facts/ln_1/٣-x.json",
        "team/facts/README",
    ):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (found,) = await listed(Folder(FolderTarget(path=str(tmp_path))), namespace="team", name="facts")
    assert (found.place, found.generation, found.taken) == (mine, 7, "20260131T120000000000Z")


def test_a_baseline_asks_for_no_backup_unless_it_says_so():
    metadata = {"namespace": "team", "name": "a", "uid": "u", "generation": 1}
    spec = BaselineResource.parse({"metadata": metadata, "spec": {}}).spec.backup
    assert (spec.policy, spec.max_age, spec.target) == ("None", timedelta(days=1), None)


def test_a_place_of_another_baseline_is_not_restored(tmp_path):
    asked = ["restore", "team/handbook", "--place", "team/other/line_1/000000000001-20260131T120000000000Z.json"]
    nowhere = ["--dsn", "postgresql://127.0.0.1:1/none", "--config", str(tmp_path / "none"), "--target", "vault"]
    with pytest.raises(InvalidInputError, match="is no backup of team/handbook"):
        CliRunner().invoke(command, [*asked, *nowhere], catch_exceptions=False)
