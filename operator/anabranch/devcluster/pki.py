"""The certificates of a local cluster: one authority, one for each server, one client certificate for each user.

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

from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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

HOST_ADDRESS = "10.98.0.1"
"""The host as a node sees it: its end of the link between the two."""

SERVER_ADDRESSES = ("127.0.0.1", "10.97.0.1", HOST_ADDRESS)
"""Where the API answers; the second is the first of the Service range, which is that of the Service ``kubernetes``."""


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
        authority = _Authority.make(folder)
        authority.issue("kube-apiserver", Client("kube-apiserver"), names=SERVER_NAMES, addresses=SERVER_ADDRESSES)
        for name, client in CLIENTS.items():
            authority.issue(name, client)
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder / "sa.key", _pem(key))
        _write(folder / "sa.pub", _public_pem(key.public_key()))
        (folder / "complete").touch()


def ensure_node(folder: Path, *, clients: Mapping[str, Client], name: str, address: str) -> None:
    """Writes what a node needs besides, once, by the authority that :func:`ensure` made.

    Args:
        folder: Where, as for :func:`ensure`.
        clients: Its users, by the name of their certificate.
        name: The node's own, which ``kubelet-server.crt`` is for.
        address: Its address.
    """
    if not (folder / "node-complete").exists():
        authority = _Authority.load(folder)
        authority.issue("kubelet-server", Client(f"system:node:{name}"), names=[name], addresses=[address])
        for each, client in clients.items():
            authority.issue(each, client)
        (folder / "node-complete").touch()


class _Authority:
    """A certificate authority, with its files in a folder."""

    def __init__(self, folder: Path, key: ec.EllipticCurvePrivateKey) -> None:
        self._folder = folder
        self._key = key
        self._name = _name(Client("devcluster"))

    @classmethod
    def make(cls, folder: Path) -> _Authority:
        """A new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        authority = cls(folder, key)
        certificate = (
            authority._builder(authority._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        authority._save("ca", key, certificate)
        return authority

    @classmethod
    def load(cls, folder: Path) -> _Authority:
        """The one whose files are there."""
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise DevclusterError(f"{folder / 'ca.key'} holds no key of ours.", hint="Take the cluster down.")
        return cls(folder, key)

    def issue(self, name: str, subject: Client, *, names: Sequence[str] = (), addresses: Sequence[str] = ()) -> None:
        """Makes a key and a certificate for it: a server's where names or addresses are given, else a client's."""
        server = bool(names or addresses)
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            self._builder(_name(subject), key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if server:
            alternatives: list[x509.GeneralName] = [x509.DNSName(each) for each in names]
            alternatives += [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
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
