"""The API's certificate: what is shown, what is taken over when the files change, and what is not."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl

import pytest
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from anabranch.api.certificate import Certificate
from anabranch.api.protocol import Protocol
from anabranch.api.serve import _encrypted
from anabranch.api.settings import Settings
from anabranch.model.errors import InvalidInputError


def write(folder, name, *, password=None):
    """A self-signed certificate of that name, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )


def shown(certificate):
    """The name in the certificate that a client is shown."""
    client_context = ssl.create_default_context()
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = certificate.context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    peer = x509.load_der_x509_certificate(client.getpeercert(binary_form=True))
    return peer.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value


@pytest.fixture
def certificate(tmp_path):
    write(tmp_path, "first")
    return Certificate(tmp_path / "tls.crt", tmp_path / "tls.key")


def test_new_files_are_shown_without_a_restart(certificate, tmp_path):
    assert shown(certificate) == "first"
    write(tmp_path, "second")
    certificate.look()
    assert shown(certificate) == "second"


def test_files_that_do_not_belong_together_leave_what_was_shown(certificate, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    write(other, "other")
    (other / "tls.crt").replace(tmp_path / "tls.crt")
    certificate.look()
    assert shown(certificate) == "first"
    (other / "tls.key").replace(tmp_path / "tls.key")
    certificate.look()
    assert shown(certificate) == "other"


def test_files_that_are_gone_leave_what_was_shown(certificate, tmp_path):
    (tmp_path / "tls.key").unlink()
    certificate.look()
    assert shown(certificate) == "first"


@pytest.mark.parametrize("break_it", ["absent", "garbage", "password"])
def test_files_that_cannot_be_used_are_refused_at_the_start(tmp_path, break_it):
    write(tmp_path, "first", password=b"secret" if break_it == "password" else None)
    if break_it == "absent":
        (tmp_path / "tls.crt").unlink()
    elif break_it == "garbage":
        (tmp_path / "tls.crt").write_text("no certificate")
    with pytest.raises(InvalidInputError, match="cannot be used"):
        Certificate(tmp_path / "tls.crt", tmp_path / "tls.key")


async def test_the_api_serves_by_it_and_follows_it(tmp_path, monkeypatch):
    monkeypatch.setattr("anabranch.api.certificate.LOOK_SECONDS", 0.01)
    write(tmp_path, "first")
    files = (tmp_path / "tls.crt", tmp_path / "tls.key")
    settings = Settings(dsn="", audience="", cursor_keys=(), tls=files)

    async def app(scope, _receive, send):
        assert scope["scheme"] == "https"
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(app, host="127.0.0.1", port=0, http=Protocol, lifespan="off", log_config=None)
    async with _encrypted(config, settings):
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  (uvicorn says it by this alone)
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]

        async def name():
            trust = ssl.create_default_context()
            trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 204")
            peer = x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
            writer.close()
            return peer.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value

        assert await name() == "first"
        write(tmp_path, "second")
        async with asyncio.timeout(60):
            while await name() != "second":  # noqa: ASYNC110  (the files are looked at now and then)
                await asyncio.sleep(0.01)
        server.should_exit = True
        await running
