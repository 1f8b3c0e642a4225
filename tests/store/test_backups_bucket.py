"""Backups in a bucket, before a store that checks every signature (moto's)."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import subprocess
import sys
import time

import boto3
import httpx
import pytest
from tests.store import spans
from tests.store.backing import AUTOMATIC, all_due, turns
from tests.store.world import TEAM, World

from anabranch.backup import bucket, restoring
from anabranch.backup.config import BackupTarget, BucketTarget
from anabranch.backup.target import TargetError
from anabranch.backup.turning import Targets
from anabranch.devcluster.ports import free
from anabranch.model.errors import NotFoundError

KEY_FILES = ("access-key-id", "secret-access-key")
POLICY = {"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}], "Version": "2012-10-17"}


@pytest.fixture(scope="module")
def store():
    """Where the store listens, and the keys of somebody who may use it."""
    port = free(["store"])["store"]
    url = f"http://127.0.0.1:{port}"
    # What makes the user whose keys are checked comes before the checks.
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "4"}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            try:
                httpx.get(f"{url}/moto-api/data.json")
                break
            except httpx.ConnectError:
                assert process.poll() is None, "the store has ended"
                time.sleep(0.05)
        else:
            pytest.fail("the store does not listen")
        anybody = {"endpoint_url": url, "aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "eu"}
        iam = boto3.client("iam", **anybody)
        iam.create_user(UserName="operator")
        iam.put_user_policy(UserName="operator", PolicyName="all", PolicyDocument=json.dumps(POLICY))
        key = iam.create_access_key(UserName="operator")["AccessKey"]
        boto3.client("s3", **anybody).create_bucket(
            Bucket="vault", CreateBucketConfiguration={"LocationConstraint": "eu"}
        )
        yield url, key["AccessKeyId"], key["SecretAccessKey"]
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def keys(store, tmp_path):
    folder = tmp_path / "keys"
    folder.mkdir()
    _, key, secret = store
    (folder / "access-key-id").write_text(f"{key}\n")
    (folder / "secret-access-key").write_text(f"{secret}\n")
    return folder


@pytest.fixture
def entry(store, keys, request):
    # A prefix of its own for each test.
    prefix = f"{abs(hash(request.node.name))}/"
    return BucketTarget(endpoint=store[0], bucket="vault", region="eu", prefix=prefix, credentials_folder=str(keys))


@pytest.fixture
def target(entry, monkeypatch):
    monkeypatch.setattr(bucket.backoff, "delay", lambda *_args, **_more: 0)
    return bucket.Bucket(entry)


async def test_a_line_is_backed_up_into_a_bucket_and_found_there_whole(db, entry):
    world = World(db)
    line = (await world.import_documents({"a": "one"}, **AUTOMATIC)).line.line
    targets = Targets({"vault": BackupTarget(bucket=entry)})
    assert await all_due(turns(db, targets)) == 1
    vault = targets.archives("vault")
    about = await restoring.check(vault, place=await restoring.newest(vault, namespace=TEAM, name="facts"))
    assert (about.line, about.manifest.generation) == (line, 1)


async def test_a_backup_is_a_trace_with_each_call_of_the_bucket_in_it(db, entry):
    world = World(db)
    line = (await world.import_documents({"swordfish": "swordfish"}, **AUTOMATIC)).line.line
    with spans.recorded() as seen:
        assert await all_due(turns(db, Targets({"vault": BackupTarget(bucket=entry)}))) == 1
    whole, calls = seen.one("back up"), seen.named("call bucket")
    assert (whole.parent, dict(whole.attributes)) == (None, {"anabranch.line": line, "anabranch.target": "vault"})
    told = {(seen.parent(call), call.kind.name, call.attributes["anabranch.bucket"]) for call in calls}
    assert told == {("back up", "CLIENT", "vault")}
    assert ("PUT", 200) in {
        (call.attributes["http.request.method"], call.attributes["http.response.status_code"]) for call in calls
    }
    secrets = [(pathlib.Path(entry.credentials_folder) / name).read_text().strip() for name in KEY_FILES]
    assert not [text for text in seen.texts() for word in ("swordfish", *secrets) if word in text]


async def test_a_file_goes_in_parts_and_comes_back_as_it_was(target, tmp_path, monkeypatch):
    monkeypatch.setattr(bucket, "PART_BYTES", 5 << 20)
    file, copy = tmp_path / "file", tmp_path / "copy"
    file.write_bytes(os.urandom(11 << 20))
    await target.put("team/facts/large.anabranch", file)
    await target.get("team/facts/large.anabranch", copy)
    assert copy.read_bytes() == file.read_bytes()
    assert await target.places("team/") == ["team/facts/large.anabranch"]


async def test_a_file_that_does_not_arrive_whole_is_not_there(target, tmp_path, monkeypatch):
    monkeypatch.setattr(bucket, "PART_BYTES", 5 << 20)
    file = tmp_path / "file"
    file.write_bytes(bytes(11 << 20))
    part = target._part

    async def broken(client, place, upload, number, data):
        if number == 3:
            raise TargetError("The line is cut.", hint="")
        return await part(client, place, upload, number, data)

    monkeypatch.setattr(target, "_part", broken)
    with pytest.raises(TargetError, match="cut"):
        await target.put("team/facts/large.anabranch", file)
    assert await target.places("team/") == []
    with pytest.raises(NotFoundError, match=r"no team/facts/large\.anabranch in vault"):
        await target.get("team/facts/large.anabranch", tmp_path / "copy")


async def test_more_names_than_a_page_holds_are_all_listed(target, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_bytes(b"{}")
    await asyncio.gather(*(target.put(f"team/facts/{number}.json", file) for number in range(5)))
    send = target._send

    async def short(client, method, place, *, params=None, content=b""):
        if params and "list-type" in params:
            params = {**params, "max-keys": "2"}
        return await send(client, method, place, params=params, content=content)

    monkeypatch.setattr(target, "_send", short)
    assert await target.places("team/facts/") == [f"team/facts/{number}.json" for number in range(5)]


async def test_keys_that_are_wrong_are_told_and_new_ones_are_read_without_a_restart(target, keys, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"{}")
    right = (keys / "secret-access-key").read_text()
    (keys / "secret-access-key").write_text("wrong")
    with pytest.raises(TargetError, match="403 SignatureDoesNotMatch"):
        await target.put("team/one.json", file)
    (keys / "secret-access-key").write_text(right)
    await target.put("team/one.json", file)
    (keys / "access-key-id").unlink()
    with pytest.raises(TargetError, match="keys cannot be read"):
        await target.places("")


async def test_a_bucket_that_is_not_there_and_a_store_that_is_away_are_told(entry, tmp_path, monkeypatch):
    monkeypatch.setattr(bucket.backoff, "delay", lambda *_args, **_more: 0)
    file = tmp_path / "file"
    file.write_bytes(b"{}")
    with pytest.raises(TargetError, match="404 NoSuchBucket"):
        await bucket.Bucket(entry.model_copy(update={"bucket": "nowhere"})).put("one", file)
    away = entry.model_copy(update={"endpoint": f"http://127.0.0.1:{free(['store'])['store']}"})
    with pytest.raises(TargetError, match="cannot be reached"):
        await bucket.Bucket(away).put("one", file)


@pytest.mark.parametrize(
    ("addressing", "url"),
    [("path", "https://s3.example/vault/some/one"), ("host", "https://vault.s3.example/some/one")],
)
def test_a_bucket_is_addressed_as_the_store_wants_it(entry, addressing, url):
    of = entry.model_copy(
        update={"endpoint": "https://s3.example", "prefix": "some/", "addressing": addressing, "bucket": "vault"}
    )
    assert bucket.Bucket(of)._url("one") == url


@pytest.mark.parametrize(
    ("answers", "match"),
    [
        ([httpx.Response(503), httpx.Response(200)], ""),
        ([httpx.Response(500)] * 4, "answered 500"),
        ([httpx.Response(302, headers={"location": "http://elsewhere/"})], "answered 302"),
    ],
)
async def test_what_may_pass_is_tried_again_and_nothing_is_followed_elsewhere(target, tmp_path, answers, match):
    file, asked = tmp_path / "file", []
    file.write_bytes(b"{}")

    def answer(request):
        asked.append(str(request.url))
        return answers[len(asked) - 1]

    target._client = lambda: httpx.AsyncClient(transport=httpx.MockTransport(answer))
    if match:
        with pytest.raises(TargetError, match=match):
            await target.put("one", file)
    else:
        await target.put("one", file)
    assert len(asked) == len(answers)
