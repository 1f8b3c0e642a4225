"""A manifest's signature: an in-toto statement in a DSSE envelope, by an Ed25519 key.

The manifest hash says what the records are; the signature says who stands for it. It binds the hash to its place in the
line's history, so that an old manifest, or one of another line, cannot be passed off as this one. A statement is a
function of the manifest, and Ed25519 is deterministic: the same manifest has the same signature each time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from anabranch.model.canonical import canonical_bytes, hash_bytes
from anabranch.model.errors import AnabranchError, DigestMismatchError, InvalidInputError

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner, SSlibKey

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://anabranch.dev/manifest/v1"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"


class SignatureError(DigestMismatchError):
    """A signature is not by the key that is trusted, or not of this manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What a signature binds.

    Attributes:
        line: The line.
        generation: The manifest's number in it.
        baseline_id: Its own id.
        manifest_hash: Root of the trie, ``sha256:…``.
        feed_watermark: Sequence of the last event that it includes.
    """

    line: str
    generation: int
    baseline_id: str
    manifest_hash: str
    feed_watermark: int

    def statement(self) -> bytes:
        """The in-toto statement, in canonical form."""
        return canonical_bytes(
            {
                "_type": STATEMENT,
                "subject": [{"name": self.baseline_id, "digest": {"sha256": hash_bytes(self.manifest_hash).hex()}}],
                "predicateType": PREDICATE,
                "predicate": {
                    "line": self.line,
                    "generation": self.generation,
                    "baseline_id": self.baseline_id,
                    "manifest_hash": self.manifest_hash,
                    "feed_watermark": self.feed_watermark,
                },
            }
        )


class Signer:
    """Signs manifests by one key."""

    def __init__(self, signer: CryptoSigner) -> None:
        self._signer = signer

    @classmethod
    def from_pem(cls, text: bytes) -> Self:
        """A signer of a private key.

        Args:
            text: PEM, PKCS 8, Ed25519, without a password.

        Raises:
            InvalidInputError: If it is none.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415
        from securesystemslib.signer import CryptoSigner  # noqa: PLC0415

        try:
            key = load_pem_private_key(text, password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidInputError(
                "The signing key is no Ed25519 private key in PEM form.",
                hint="Make one: openssl genpkey -algorithm ed25519.",
            )
        return cls(CryptoSigner(key))

    @property
    def key_id(self) -> str:
        """Names the key, in the envelopes that it signs."""
        return str(self._signer.public_key.keyid)

    def sign(self, manifest: Signed) -> dict[str, Any]:
        """The envelope of a manifest, as JSON."""
        from securesystemslib.dsse import Envelope  # noqa: PLC0415

        envelope = Envelope(manifest.statement(), PAYLOAD_TYPE, {})
        envelope.sign(self._signer)
        signed: dict[str, Any] = envelope.to_dict()
        return signed


def check(envelope: dict[str, Any], *, public_key: bytes) -> Signed:
    """What an envelope says, if it is signed by a key.

    Args:
        envelope: As JSON.
        public_key: PEM, Ed25519.

    Raises:
        SignatureError: If the key did not sign it, or it is no statement about a manifest.
        InvalidInputError: If the key is none.
    """
    from securesystemslib.dsse import Envelope  # noqa: PLC0415
    from securesystemslib.exceptions import FormatError, VerificationError  # noqa: PLC0415

    key = _public(public_key)
    try:
        found = Envelope.from_dict(json.loads(json.dumps(envelope)))
        found.verify([key], 1)
    except VerificationError:
        raise SignatureError(
            "The signature is not by the key that is trusted.",
            hint="Check that it is the installation's key; if it is, the manifest is not genuine.",
        ) from None
    except (AttributeError, FormatError, KeyError, TypeError, ValueError):
        raise SignatureError("The envelope is ill-formed.", hint="Fetch it again.") from None
    return _signed(found.payload, found.payload_type)


def check_same(signed: Signed, **expected: Any) -> None:
    """Check that a signature is of the manifest that it came with.

    Raises:
        SignatureError: Naming what it says otherwise.
    """
    for name, value in expected.items():
        if getattr(signed, name) != value:
            raise SignatureError(
                f"The signature is of the {name} {getattr(signed, name)!r}, and the manifest has {value!r}.",
                hint="It belongs to another manifest: this one is not signed by it.",
            )


def _public(text: bytes) -> SSlibKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415
        from securesystemslib.signer import SSlibKey  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise AnabranchError(
            f"{error.name} is not installed, which checks signatures.", hint="pip install 'anabranch[signing]'"
        ) from None
    try:
        key = load_pem_public_key(text)
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInputError(
            "The public key is no Ed25519 key in PEM form.", hint="openssl pkey -in private.pem -pubout gives it."
        )
    return SSlibKey.from_crypto(key)


def _signed(payload: bytes, payload_type: str) -> Signed:
    try:
        statement = json.loads(payload)
        signed = Signed(**statement["predicate"])
        if payload_type == PAYLOAD_TYPE and signed.statement() == payload:
            return signed
    except (KeyError, TypeError, ValueError, AnabranchError):
        pass
    raise SignatureError("What was signed is no statement about a manifest.", hint="Ask who signed it.")
