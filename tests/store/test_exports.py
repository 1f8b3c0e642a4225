"""Exports over the real API: what may be taken away, byte for byte the same, in spite of broken connections."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import socket

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.store.building import publish_versions, version
from tests.store.served import serving
from tests.store.world import TEAM

from anabranch.archive import ArchiveReader, ArchiveRecord, ArchiveTornError, WithheldRecord
from anabranch.archive.verifying import VerifiedArchive, verify
from anabranch.baselines import exporting
from anabranch.client import exports as client_exports
from anabranch.client import transport
from anabranch.domain import signing
from anabranch.domain.signing import SignatureError, Signer
from anabranch.identity import grants
from anabranch.model.errors import ConflictError, ForbiddenError, GoneError, NotFoundError, UnavailableError
from anabranch.model.limits import CONTENT_BYTES

CONTENTS = {"a": "one", "b": "two", "c": "three"}


@pytest.fixture
async def served(db, database, monkeypatch):
    monkeypatch.setattr(transport, "pause", lambda _attempt: 0.01)
    async with serving(db, database.api) as served:
        served.line = (await served.world.import_documents(CONTENTS)).line.line
        await publish_versions(
            db,
            served.line,
            version("secret/key", "sesame", scope="team/red"),
            version("secret/plan", "tunnel", scope="team/blue"),
            version("b"),
        )
        yield served


@pytest.fixture
async def client(served):
    return await served.client()


def entries(file):
    with file.open("rb") as opened:
        return list(ArchiveReader(opened))


def url(ref="current"):
    return f"/v1/namespaces/{TEAM}/baselines/facts/manifests/{ref}/export"


async def test_an_export_has_every_record_with_its_revision_and_sources_and_leads_to_the_root(served, client, tmp_path):
    told = []
    verified = await client.export(TEAM, "facts", tmp_path / "facts.anabranch", progress=told.append)
    manifest = await client.manifest(TEAM, "facts")
    assert verified.header.manifest.manifest_hash == manifest.manifest_hash
    assert (verified.header.manifest.generation, verified.header.partial) == (2, False)
    assert verified.scopes == ("shared", "team/blue", "team/red")
    found = {entry.key: entry for entry in entries(tmp_path / "facts.anabranch")}
    assert list(found) == ["a", "b", "c", "secret/key", "secret/plan"]
    for key, record in found.items():
        fact = await client.record(TEAM, "facts", key)
        assert (str(record.revision), record.content_hash, record.fact_hash, record.tombstone) == (
            fact.revision,
            fact.content_hash,
            fact.fact_hash,
            fact.tombstone,
        )
        assert (record.content, record.source_locators, record.origin_runs) == (
            fact.content,
            fact.source_locators,
            fact.origin_runs,
        )
    assert found["b"].tombstone
    assert told == [(tmp_path / "facts.anabranch").stat().st_size]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["facts.anabranch"]


async def test_an_older_generation_is_exported_as_it_was(served, client, tmp_path):
    await client.export(TEAM, "facts", tmp_path / "old", ref=1)
    assert {entry.key: entry.content for entry in entries(tmp_path / "old")} == CONTENTS


async def test_what_may_not_be_taken_away_stands_as_bare_hashes_that_lead_to_the_root(served, client, tmp_path):
    served.world.permissions.deny(grants.SCOPE_EXPORT, name="team/red")
    served.world.permissions.deny(grants.SCOPE_READ, name="team/blue")
    verified = await client.export(TEAM, "facts", tmp_path / "part-of-it")
    assert verified.header.partial
    # Which may be read but not exported is named; what may not even be read has no name here.
    assert verified.header.withheld_scopes == ("team/red",)
    assert (verified.trailer.records, verified.trailer.withheld) == (3, 2)
    found = entries(tmp_path / "part-of-it")
    assert [type(entry) for entry in found] == [ArchiveRecord] * 3 + [WithheldRecord] * 2
    assert not any(secret in str((verified.header, found)) for secret in ("sesame", "tunnel", "secret/", "team/blue"))


async def test_a_scope_that_may_not_be_exported_is_denied_by_name(served, client, tmp_path):
    served.world.permissions.deny(grants.SCOPE_EXPORT, name="team/red")
    with pytest.raises(ForbiddenError, match="'team/red'") as caught:
        await client.export(TEAM, "facts", tmp_path / "never", scopes=["shared", "team/red"])
    assert caught.value.extra["grant"] == "scopes/team/red:export"
    # A scope that nobody ever used is denied in the same words: nothing is told of what there is.
    served.world.permissions.deny(grants.SCOPE_READ, name="team/unknown")
    with pytest.raises(ForbiddenError, match="'team/unknown'"):
        await client.export(TEAM, "facts", tmp_path / "never", scopes=["team/unknown"])
    assert not (tmp_path / "never").exists()


async def test_some_scopes_can_be_asked_for(served, client, tmp_path):
    verified = await client.export(TEAM, "facts", tmp_path / "red", scopes=["team/red"])
    assert verified.scopes == ("team/red",)
    assert verified.header.withheld_scopes == ("shared", "team/blue")
    assert (verified.trailer.records, verified.trailer.withheld) == (1, 4)


async def test_who_may_not_export_learns_no_more_than_they_know(served, client, tmp_path):
    served.world.permissions.deny(grants.EXPORT)
    with pytest.raises(ForbiddenError, match="baselines/export"):
        await client.export(TEAM, "facts", tmp_path / "never")
    served.world.permissions.deny(grants.SEE_BASELINE)
    with pytest.raises(NotFoundError):
        await client.export(TEAM, "facts", tmp_path / "never")
    served.world.permissions.give_back()
    served.world.permissions.deny(grants.SCOPE_EXPORT)
    with pytest.raises(ForbiddenError, match="no scope"):
        await client.export(TEAM, "facts", tmp_path / "never")
    assert list(tmp_path.glob("never*")) == []


async def test_an_export_is_imported_with_contents_and_sources_and_exported_again(served, client, tmp_path):
    await client.export(TEAM, "facts", tmp_path / "first", ref=1)
    with (tmp_path / "first").open("rb") as opened:
        pieces = iter(lambda: opened.read(100), b"")
        reader = ArchiveReader(pieces)
        before = {entry.key: (entry.content, entry.source_locators) for entry in reader}
    digest = f"sha256:{hashlib.sha256((tmp_path / 'first').read_bytes()).hexdigest()}"
    await served.world.apply_baseline("copy", **{"import": {"archive": {"digest": digest}}})
    await client.upload_archive(TEAM, "copy", tmp_path / "first", digest)
    await served.world.apply_baseline("copy", **{"import": {"archive": {"digest": digest}}})
    await client.export(TEAM, "copy", tmp_path / "second")
    assert {entry.key: (entry.content, entry.source_locators) for entry in entries(tmp_path / "second")} == before


# ------------------------------------------------------------------------------------------- interrupted, and resumed


async def made(served, *, offset=0, scopes=("shared", "team/blue", "team/red")):
    async def may():
        pass

    prepared = await exporting.prepare(
        served.world.db, line=served.line, ref="current", allowed=scopes, readable=scopes, wanted=None
    )
    among = asyncio.Semaphore(1)
    return b"".join(
        [piece async for piece in exporting.stream(served.world.db, prepared, offset=offset, check=may, among=among)]
    )


@pytest.mark.parametrize("scopes", [("shared", "team/blue", "team/red"), ("team/red",)])
async def test_the_bytes_are_the_same_each_time_and_go_on_at_any_offset(served, scopes, monkeypatch):
    whole = await made(served, scopes=scopes)
    monkeypatch.setattr(exporting, "_FIRST_SLICE", 1)
    monkeypatch.setattr(exporting, "_PAIRS", 1)
    for offset in (0, 1, len(whole) // 2, len(whole) - 1, len(whole)):
        assert await made(served, scopes=scopes, offset=offset) == whole[offset:]


async def test_no_cut_of_an_export_reads_as_complete(served):
    whole = await made(served)
    for size in range(0, len(whole), 7):
        with pytest.raises(ArchiveTornError):
            list(ArchiveReader([whole[:size]]))


class Tearing(httpx.AsyncBaseTransport):
    """Breaks the connection after some bytes of each export, for some times."""

    def __init__(self, inner, *, after, times):
        self._inner, self._after, self._times = inner, after, times
        self.offsets = []

    async def handle_async_request(self, request):
        response = await self._inner.handle_async_request(request)
        if not request.url.path.endswith("/export"):
            return response
        self.offsets.append(int(request.url.params.get("offset", 0)))
        if self._times == 0 or response.status_code != 200:
            return response
        self._times -= 1
        stream, after = response.stream, self._after

        class Torn(httpx.AsyncByteStream):
            async def __aiter__(self):
                left = after
                async for piece in stream:
                    yield piece[:left]
                    left -= len(piece)
                    if left <= 0:
                        raise httpx.ReadError("torn")

            async def aclose(self):
                await stream.aclose()

        return httpx.Response(response.status_code, headers=response.headers, stream=Torn())

    async def aclose(self):
        await self._inner.aclose()


def tear(client, **options):
    client._http._transport = Tearing(client._http._transport, **options)
    return client._http._transport


async def test_a_broken_transfer_goes_on_where_it_broke_off(served, client, tmp_path):
    torn = tear(client, after=100, times=3)
    verified = await client.export(TEAM, "facts", tmp_path / "facts")
    assert verified.trailer.records == 5
    assert torn.offsets == [0, 100, 200, 300]
    assert (tmp_path / "facts").read_bytes() == await made(served)


async def test_another_process_goes_on_with_what_has_arrived(served, client, tmp_path, monkeypatch):
    monkeypatch.setattr(client_exports, "ATTEMPTS", 1)
    tear(client, after=100, times=1)
    with pytest.raises(UnavailableError, match="Call it again"):
        await client.export(TEAM, "facts", tmp_path / "facts")
    assert not (tmp_path / "facts").exists()
    with pytest.raises(ArchiveTornError):
        entries(tmp_path / "facts.part")
    later = await served.client("grace")
    seen = tear(later, after=0, times=0)
    await later.export(TEAM, "facts", tmp_path / "facts")
    assert seen.offsets == [100]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["facts"]


async def test_what_has_arrived_of_another_archive_is_not_gone_on_with(served, client, tmp_path, monkeypatch):
    monkeypatch.setattr(client_exports, "ATTEMPTS", 1)
    tear(client, after=100, times=1)
    with pytest.raises(UnavailableError):
        await client.export(TEAM, "facts", tmp_path / "facts")
    seen = tear(client, after=0, times=0)
    await client.export(TEAM, "facts", tmp_path / "facts", ref=1)  # another manifest
    assert seen.offsets == [0]
    (tmp_path / "facts").unlink()

    tear(client, after=100, times=1)
    with pytest.raises(UnavailableError):
        await client.export(TEAM, "facts", tmp_path / "facts")
    served.world.permissions.deny(grants.SCOPE_EXPORT, name="team/red")
    seen = tear(client, after=0, times=0)
    verified = await client.export(TEAM, "facts", tmp_path / "facts")  # the same, but less may be exported by now
    assert seen.offsets == [100, 0]
    assert verified.trailer.withheld == 1


async def test_of_those_who_export_to_one_file_at_once_one_does_and_the_others_are_told(served, client, tmp_path):
    others = [await served.client(name) for name in ("grace", "mary")]
    exports = (one.export(TEAM, "facts", tmp_path / "facts") for one in (client, *others))
    ended = await asyncio.gather(*exports, return_exceptions=True)
    assert {type(end) for end in ended} == {VerifiedArchive, ConflictError}
    assert len(entries(tmp_path / "facts")) == 5
    assert [file.name for file in tmp_path.iterdir()] == ["facts"]
    await client.export(TEAM, "facts", tmp_path / "facts")


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ({"offset": 5}, {}, 422),
        ({"offset": 5}, {"If-Match": '"another"'}, 412),
        ({"offset": -1}, {}, 422),
        ({"scope": "Team Red"}, {}, 422),
        ({"scopes": "team/red"}, {}, 422),
    ],
)
async def test_an_offset_means_nothing_without_its_archive(served, client, query, headers, status):
    async with httpx.AsyncClient(base_url=served.url, headers={"Authorization": "Bearer ada"}) as http:
        answer = await http.get(url(), params=query, headers=headers)
    assert answer.status_code == status


# ---------------------------------------------------------------------------------------------- taken away meanwhile


async def streamed(served, monkeypatch, *, meanwhile):
    """An export of which the client has the first piece when something happens."""
    monkeypatch.setattr(exporting, "_CHECK_SECONDS", -1.0)
    monkeypatch.setattr(exporting, "_FIRST_SLICE", 1)
    monkeypatch.setattr(exporting, "_MOST_RECORDS", 1)
    monkeypatch.setattr("anabranch.archive.writer._FLUSH_BYTES", 1)
    arrived = b""
    under_way, go_on = asyncio.Event(), asyncio.Event()
    spooled = exporting._slices

    async def slices(db, export):
        count = 0
        async with contextlib.aclosing(spooled(db, export)) as found:
            async for rows in found:
                yield rows
                count += 1
                if count == 2:
                    under_way.set()
                    await go_on.wait()

    monkeypatch.setattr(exporting, "_slices", slices)

    async def receive():
        nonlocal arrived
        async with (
            httpx.AsyncClient(base_url=served.url, headers={"Authorization": "Bearer ada"}) as http,
            http.stream("GET", url("1")) as answer,
        ):
            assert answer.status_code == 200
            async for piece in answer.aiter_raw():
                arrived += piece

    receiving = asyncio.create_task(receive())
    await under_way.wait()
    await meanwhile()
    go_on.set()
    with pytest.raises(httpx.RemoteProtocolError):
        await receiving
    with pytest.raises(ArchiveTornError):
        list(ArchiveReader([arrived]))


async def test_a_grant_that_is_revoked_ends_the_transfer_whatever_is_remembered_of_it(served, monkeypatch):
    asked = served.parts.grants.scopes

    async def remembered(caller, grant, *, scopes, anew=False, **rest):
        return await asked(caller, grant, scopes=scopes, **rest) if anew else list(scopes)

    monkeypatch.setattr(served.parts.grants, "scopes", remembered)

    async def revoke():
        served.world.permissions.deny(grants.SCOPE_EXPORT, name="shared")

    await streamed(served, monkeypatch, meanwhile=revoke)


async def test_a_token_that_is_good_no_more_ends_the_transfer(served, monkeypatch):
    async def revoke():
        served.parts.identity.known = False

    await streamed(served, monkeypatch, meanwhile=revoke)


async def test_a_manifest_that_is_pruned_meanwhile_never_reads_as_complete(served, db, monkeypatch):
    async def prune():
        async with db.transaction() as conn:
            await conn.execute("DELETE FROM manifests WHERE line = $1 AND generation = 1", served.line)

    await streamed(served, monkeypatch, meanwhile=prune)


async def test_a_pruned_manifest_is_gone(served, client, db, tmp_path):
    async with db.transaction() as conn:
        await conn.execute("DELETE FROM manifests WHERE line = $1 AND generation = 1", served.line)
    with pytest.raises(GoneError):
        await client.export(TEAM, "facts", tmp_path / "never", ref=1)


async def test_what_is_held_of_an_export_at_once_is_bounded_however_its_records_are_mixed(served, db):
    small = [version(f"small/{number:03}", number) for number in range(100)]
    await publish_versions(db, served.line, *small, *(version(f"x-large/{n}", "x" * 900_000) for n in range(9)))
    export = await exporting.prepare(
        db, line=served.line, ref="current", allowed=["shared"], readable=["shared"], wanted=None
    )
    slices = [rows async for rows in exporting._slices(db, export)]
    assert max(sum(len(row.body or b"") for row in rows) for rows in slices) < exporting._SLICE_BYTES + CONTENT_BYTES
    assert len([row for rows in slices for row in rows]) == len(CONTENTS) + 109


async def test_more_exports_than_a_process_makes_at_once_are_told_to_come_back(served, client, tmp_path, monkeypatch):
    monkeypatch.setattr(client_exports, "ATTEMPTS", 1)
    for _ in range(4):
        await served.parts.exports.acquire()
    with pytest.raises(UnavailableError, match="Too many exports"):
        await client.export(TEAM, "facts", tmp_path / "facts")
    served.parts.exports.release()
    await client.export(TEAM, "facts", tmp_path / "facts")


# -------------------------------------------------------------------------------------------------------------- signed


@pytest.fixture
def keys():
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private, public


def sign_with(served, private):
    object.__setattr__(served.parts, "signer", Signer.from_pem(private))


async def test_an_export_carries_the_signature_of_its_manifest_and_another_key_is_not_trusted(
    served, client, tmp_path, keys
):
    private, public = keys
    sign_with(served, private)
    await client.export(TEAM, "facts", tmp_path / "facts")
    with (tmp_path / "facts").open("rb") as opened:
        verify(ArchiveReader(opened), public_key=public)
    other = Ed25519PrivateKey.generate().public_key()
    pem = other.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    with (tmp_path / "facts").open("rb") as opened, pytest.raises(SignatureError, match="trusted"):
        verify(ArchiveReader(opened), public_key=pem)


async def test_a_manifest_is_signed_with_what_places_it_in_its_line(served, client, keys):
    private, public = keys
    with pytest.raises(NotFoundError, match="signs no manifests"):
        await client.signature(TEAM, "facts")
    sign_with(served, private)
    signed = signing.check(await client.signature(TEAM, "facts"), public_key=public)
    manifest = await client.manifest(TEAM, "facts")
    assert vars_of(signed) == {
        "line": served.line,
        "generation": 2,
        "baseline_id": manifest.baseline_id,
        "manifest_hash": manifest.manifest_hash,
        "feed_watermark": manifest.feed_watermark,
    }


def vars_of(signed):
    return {name: getattr(signed, name) for name in signed.__slots__}


async def test_an_archive_that_is_not_signed_is_not_trusted_by_key(served, client, tmp_path, keys):
    await client.export(TEAM, "facts", tmp_path / "facts")
    with (tmp_path / "facts").open("rb") as opened, pytest.raises(SignatureError, match="not signed"):
        verify(ArchiveReader(opened), public_key=keys[1])


async def test_a_client_that_stops_reading_gives_its_turn_back(served, db, monkeypatch):
    monkeypatch.setattr("anabranch.api.routes.exports.STALLED_SECONDS", 1.0)
    chance = random.Random(1)
    large = [version(f"large-{number:02}", chance.randbytes(500_000).hex()) for number in range(24)]
    await publish_versions(db, served.line, *large)  # more than sockets hold
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.connect(("127.0.0.1", served.port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=1)
    try:
        writer.write(f"GET {url()} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ada\r\n\r\n".encode())
        await reader.read(1)
        assert served.parts.exports._value == 3
        async with asyncio.timeout(60):
            while served.parts.exports._value < 4:  # noqa: ASYNC110  (a semaphore tells nobody)
                await asyncio.sleep(0.05)
    finally:
        writer.close()
