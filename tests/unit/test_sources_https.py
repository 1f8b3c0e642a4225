"""https: locators, against a real server with a certificate of its own."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.store import spans

from anabranch.consolidation.sources import HttpSource, UnreachableSourceError
from anabranch.consolidation.sources import https as https_sources
from anabranch.consolidation.sources.addresses import is_public
from anabranch.consolidation.sources.https import HttpsResolver
from anabranch.model.locators import parse_locator
from anabranch.telemetry import tracing


@dataclass
class Site:
    """What the server answers, and what it was asked."""

    port: int
    ca_file: str
    answers: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def resolver(self, **changed):
        source = {"host": f"localhost:{self.port}", "ca_file": self.ca_file, "allow_private": True} | changed
        return HttpsResolver({"docs": HttpSource(**source)})

    async def look(self, path="/page", resolver=None, host="localhost"):
        locator = parse_locator(f"https://{host}:{self.port}{path}")
        return await (resolver or self.resolver())(None, locator)


def a_certificate(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "localhost.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(path)


@pytest.fixture
async def site(tmp_path):
    pem = a_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)

    async def serve(reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            host = next(line for line in head.decode().split("\r\n") if line.lower().startswith("host:"))
            site.asked.append(f"{host[5:].strip()}{path}")
            answer = site.answers.get(path, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    site = Site(server.sockets[0].getsockname()[1], pem)
    site.answers["/page"] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    async with server:
        yield site


def redirect(location):
    return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


async def test_a_page_of_a_configured_host_is_found(site):
    assert (await site.look()).verified
    assert site.asked == [f"localhost:{site.port}/page"]


async def test_what_the_host_does_not_have_is_not(site):
    found = await site.look("/absent")

    assert (found.verified, found.detail) == (False, "the host answers 404")


async def test_each_question_for_a_page_is_a_span_that_names_the_host_and_not_the_page(site):
    site.answers["/first"] = redirect("/page?swordfish")
    site.answers["/page?swordfish"] = site.answers["/page"]
    with spans.recorded() as seen, tracing.begun("validate"):
        assert (await site.look("/first")).verified
    asked = {"server.address": "localhost", "http.request.method": "GET"}
    assert [dict(span.attributes) for span in seen.named("ask for page")] == [
        {**asked, "http.response.status_code": 302},
        {**asked, "http.response.status_code": 200},
    ]
    assert {(span.kind.name, seen.parent(span)) for span in seen.named("ask for page")} == {("CLIENT", "validate")}
    assert not [text for text in seen.texts() if "swordfish" in text or "/first" in text]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost.", "user@localhost"])
async def test_only_configured_hosts_are_asked(site, host):
    found = await site.look(host=host)

    assert not found.verified
    assert site.asked == []


async def test_a_private_address_is_not_reached_unless_the_configuration_says_so(site):
    found = await site.look(resolver=site.resolver(allow_private=False))

    assert (found.verified, found.detail) == (False, "its host has no address that may be reached")
    assert site.asked == []


async def test_a_host_that_mixes_public_and_private_addresses_is_not_reached(site, monkeypatch):
    async def mixed(*_, **__):
        return [(0, 0, 0, "", ("93.184.216.34", site.port)), (0, 0, 0, "", ("127.0.0.1", site.port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", mixed)

    assert not (await site.look(resolver=site.resolver(allow_private=False))).verified
    assert site.asked == []


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255",
        "192.0.0.8", "192.88.99.1", "::1", "::", "fe80::1%lo", "fd00:ec2::254", "fec0::1", "ff02::1", "ff0e::1",
        "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::169.254.169.254",
        "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "5f00::1",
    ],
)  # fmt: skip
async def test_no_spelling_of_a_private_address_is_reached(site, monkeypatch, address):
    async def found(*_, **__):
        return [(0, 0, 0, "", (address, site.port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)

    told = await site.look(resolver=site.resolver(allow_private=False))

    assert (told.verified, told.detail) == (False, "its host has no address that may be reached")


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::8.8.8.8"])
def test_what_is_public_may_be_reached(address):
    assert is_public(address)


async def test_a_name_that_turns_private_between_two_redirects_is_not_followed(site, monkeypatch):
    site.answers["/moved"] = redirect("/page")
    loop, known = asyncio.get_running_loop(), ["8.8.8.8", "127.0.0.1"]
    connect = loop.create_connection

    async def rebound(host, port, **_):
        assert host == "localhost", "what is connected to is not looked up again"
        return [(0, 0, 0, "", (known.pop(0), port))]

    async def to_the_site(factory, host, port, **options):
        return await connect(factory, "127.0.0.1" if host == "8.8.8.8" else host, port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", rebound)
    monkeypatch.setattr(loop, "create_connection", to_the_site)

    told = await site.look("/moved", resolver=site.resolver(allow_private=False))

    assert (told.verified, told.detail) == (False, "its host has no address that may be reached")
    assert (site.asked, known) == ([f"localhost:{site.port}/moved"], [])


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost:{port}@127.0.0.1/page",
        "https://127.0.0.1@localhost:{port}/page",
        "https://127.0.0.1\\@localhost:{port}/page",
        "https://localhost:{port}\\@127.0.0.1/page",
        "https://localhost:{port}#@127.0.0.1/page",
        "https://localhost:{port}.evil.example/page",
        "https://localhost:0{port}0/page",
        "https://2130706433:{port}/page",
        "https://0x7f.1:{port}/page",
        "https://127.1:{port}/page",
        "https://[::1]:{port}/page",
        "https://[::ffff:7f00:1]:{port}/page",
        "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:{port}/page",
    ],
)
async def test_no_trick_of_spelling_leads_from_a_configured_host_to_another(site, url):
    told = await site.resolver()(None, parse_locator(url.format(port=site.port)))

    # The one with a fragment is the host itself: of a fragment nothing is sent.
    assert {asked.partition("/")[0] for asked in site.asked} <= {f"localhost:{site.port}"}
    assert not told.verified


@pytest.mark.parametrize(
    "location",
    [
        "https://[",
        "//[::1",
        "https://localhost:99999999/",
        "/" + "x" * 70_000,
        "/\x01",
        "\t\t//127.0.0.1/",
        "file:///etc/passwd",
    ],
)
async def test_a_redirect_to_what_is_no_address_verifies_nothing_and_fails_nobody(site, location):
    site.answers["/moved"] = redirect(location)

    assert not (await site.look("/moved")).verified
    assert len(site.asked) == 1


async def test_the_address_is_looked_up_once(site, monkeypatch):
    loop, looked_up = asyncio.get_running_loop(), []
    ask = loop.getaddrinfo

    async def counted(host, *args, **kwargs):
        if host == "localhost":
            looked_up.append(host)
        return await ask(host, *args, **kwargs)

    monkeypatch.setattr(loop, "getaddrinfo", counted)

    assert (await site.look()).verified
    assert looked_up == ["localhost"]


async def test_a_redirect_on_the_host_is_followed_and_one_off_it_is_not(site):
    site.answers["/moved"] = redirect("/page")
    site.answers["/away"] = redirect("https://example.org/page")
    site.answers["/plain"] = redirect(f"http://localhost:{site.port}/page")
    site.answers["/loop"] = redirect("/loop")

    assert (await site.look("/moved")).verified
    for path in ("/away", "/plain", "/loop"):
        assert not (await site.look(path)).verified


async def test_a_redirect_that_says_not_where_to_verifies_nothing_and_fails_nobody(site):
    site.answers["/unsaid"] = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"

    found = await site.look("/unsaid")

    assert (found.verified, found.detail) == (False, "the host answers 302")


async def test_a_redirect_to_another_host_is_not_followed_even_if_findings_may_cite_that_one(site):
    site.answers["/moved"] = redirect(f"https://127.0.0.1:{site.port}/page")
    source = {"ca_file": site.ca_file, "allow_private": True}
    both = {name: HttpSource(host=f"{name}:{site.port}", **source) for name in ("localhost", "127.0.0.1")}

    found = await site.look("/moved", resolver=HttpsResolver(both))

    assert (found.verified, len(site.asked)) == (False, 1)


async def test_a_host_that_is_down_or_fails_is_asked_again(site):
    site.answers["/failing"] = b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n"
    site.answers["/busy"] = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"
    site.answers["/torn"] = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"

    for path in ("/failing", "/busy", "/torn"):
        with pytest.raises(UnreachableSourceError):
            await site.look(path)
    site.port, closed = 1, site.resolver(host="localhost:1")
    with pytest.raises(UnreachableSourceError):
        await site.look(resolver=closed)


async def test_a_certificate_that_is_not_trusted_is_not_believed(site):
    with pytest.raises(UnreachableSourceError, match="CERTIFICATE_VERIFY_FAILED"):
        await site.look(resolver=site.resolver(ca_file=None))


async def test_a_page_beyond_measure_is_not_read_to_its_end(site, monkeypatch):
    monkeypatch.setattr(https_sources, "_BYTES", 1_000)
    site.answers["/large"] = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2_000

    assert not (await site.look("/large")).verified
