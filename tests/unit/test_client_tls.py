"""Whom the client trusts where the API's port is forwarded to this machine."""

from __future__ import annotations

import asyncio
import ssl

import httpx
import pytest

from anabranch.client import AnabranchClient
from anabranch.devcluster import pki
from anabranch.model.errors import UnavailableError


@pytest.fixture
async def forwarded(tmp_path):
    """The address of a server on the loopback, and the authority that signed its certificate."""
    pki.ensure(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "kube-apiserver.crt", tmp_path / "kube-apiserver.key")

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"items": [], "next": null}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", tmp_path / "ca.crt"


async def ask(url):
    async with AnabranchClient(url, token="t") as client:
        return (await client.send("GET", "/x", repeatable=False)).status_code


async def test_the_authority_of_the_environment_is_trusted_on_the_loopback_too(forwarded, monkeypatch):
    url, authority = forwarded
    with pytest.raises(UnavailableError, match="certificate verify failed"):
        await ask(url)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    assert await ask(url) == 200


async def test_a_client_without_tls_reads_no_authorities_and_trusts_none(forwarded, monkeypatch):
    url, authority = forwarded
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))

    def read(*_args, **_options):
        raise AssertionError("authorities are read for a connection without TLS")

    with monkeypatch.context() as patch:
        patch.setattr(httpx, "create_ssl_context", read)
        patch.setattr(ssl, "create_default_context", read)
        client = AnabranchClient("http://127.0.0.1:1", token="t")
    async with client:
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            await client._http.get(url)
