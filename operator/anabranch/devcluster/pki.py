"""The certificates of a local control plane: one authority, one server, one client certificate for each user.

Kubernetes takes a client's name and groups from its certificate, so these decide who is who.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

LIFE = dt.timedelta(days=3650)
"""A cluster that is kept must not stop working one day."""

SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)

SERVER_ADDRESSES = ("127.0.0.1", "10.97.0.1")
"""The loopback address, and the first of the Service range, which is that of the Service ``kubernetes``."""


@dataclass(frozen=True)
class Client:
    """A user, as Kubernetes reads it off a certificate."""

    user: str
    group: str | None = None


CLIENTS = {
    "admin": Client("admin", group="system:masters"),
    "kube-controller-manager": Client("system:kube-controller-manager"),
}
"""The users of a control plane by the name of their certificate."""


def ensure(folder: Path) -> None:
    """Writes ``NAME.crt`` and ``NAME.key`` for authority, server and clients, and the key for tokens, once.

    ``sa.key`` signs the tokens of ServiceAccounts, ``sa.pub`` verifies them. Every file is its owner's only.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / "complete").exists():
        authority = _Authority(folder)
        authority.issue("kube-apiserver", Client("kube-apiserver"), server=True)
        for name, client in CLIENTS.items():
            authority.issue(name, client)
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder / "sa.key", _pem(key))
        _write(folder / "sa.pub", _public_pem(key.public_key()))
        (folder / "complete").touch()


class _Authority:
    """A certificate authority that is made anew, with its files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(Client("devcluster"))
        certificate = (
            self._builder(_name(Client("devcluster")), self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self._save("ca", self._key, certificate)

    def issue(self, name: str, subject: Client, *, server: bool = False) -> None:
        """Makes a key and a certificate for it, a server's or a client's."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            self._builder(_name(subject), key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if server:
            names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVER_NAMES]
            names += [x509.IPAddress(ipaddress.ip_address(address)) for address in SERVER_ADDRESSES]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        self._save(name, key, builder.sign(self._key, hashes.SHA256()))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + LIFE)
            # Python's ssl module insists on both identifiers since 3.13.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )

    def _save(self, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        _write(self._folder / f"{name}.key", _pem(key))
        _write(self._folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _name(client: Client) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, client.user)]
    if client.group:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, client.group))
    return x509.Name(attributes)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public_pem(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _write(path: Path, content: bytes) -> None:
    """Writes a file that nobody else may read, not even for the moment of writing it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
