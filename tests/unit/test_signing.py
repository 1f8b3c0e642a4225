"""A signature binds a manifest to its place in its line's history, by a key that is trusted."""

from __future__ import annotations

import base64
import copy
import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from anabranch.domain.signing import SignatureError, Signed, Signer, check, check_same
from anabranch.model.errors import InvalidInputError

MANIFEST = Signed(line="ln_1", generation=7, baseline_id="bl_7", manifest_hash=f"sha256:{'ab' * 32}", feed_watermark=40)


def pems(key=None):
    key = key or ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private, public


PRIVATE, PUBLIC = pems()
SIGNER = Signer.from_pem(PRIVATE)


def test_what_was_signed_is_what_is_checked_and_the_same_each_time():
    envelope = SIGNER.sign(MANIFEST)
    assert check(envelope, public_key=PUBLIC) == MANIFEST
    assert SIGNER.sign(MANIFEST) == envelope
    statement = json.loads(base64.b64decode(envelope["payload"]))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"] == [{"name": "bl_7", "digest": {"sha256": "ab" * 32}}]
    assert statement["predicate"] == vars_of(MANIFEST)


def vars_of(signed):
    return {name: getattr(signed, name) for name in signed.__slots__}


def test_the_signature_is_the_one_that_dsse_defines():
    envelope = SIGNER.sign(MANIFEST)
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"].encode()
    key = serialization.load_pem_public_key(PUBLIC)
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    key.verify(base64.b64decode(envelope["signatures"][0]["sig"]), signed)  # raises if it is not


def test_another_key_is_not_trusted():
    with pytest.raises(SignatureError, match="trusted"):
        check(SIGNER.sign(MANIFEST), public_key=pems()[1])


@pytest.mark.parametrize("name", ["line", "generation", "baseline_id", "manifest_hash", "feed_watermark"])
def test_each_member_is_bound(name):
    envelope = SIGNER.sign(MANIFEST)
    statement = json.loads(base64.b64decode(envelope["payload"]))
    value = statement["predicate"][name]
    statement["predicate"][name] = value + 1 if isinstance(value, int) else value[:-1] + "0"
    altered = {**envelope, "payload": base64.b64encode(json.dumps(statement).encode()).decode()}
    with pytest.raises(SignatureError):
        check(altered, public_key=PUBLIC)
    with pytest.raises(SignatureError, match=name):
        check_same(MANIFEST, **{name: statement["predicate"][name]})


def test_a_statement_about_something_else_is_refused_though_the_key_signed_it():
    class Other(Signed):
        def statement(self):
            return b'{"_type":"https://in-toto.io/Statement/v1"}'

    with pytest.raises(SignatureError, match="no statement about a manifest"):
        check(SIGNER.sign(Other(**vars_of(MANIFEST))), public_key=PUBLIC)


@pytest.mark.parametrize("broken", ["payload", "payloadType", "signatures"])
@pytest.mark.parametrize("value", [None, "", [], {}, 7, "%%%", [{"keyid": "x"}]])
def test_whatever_is_no_envelope_is_refused(broken, value):
    envelope = copy.deepcopy(SIGNER.sign(MANIFEST))
    envelope[broken] = value
    with pytest.raises(SignatureError):
        check(envelope, public_key=PUBLIC)


@pytest.mark.parametrize("text", [b"", b"not a key", pems(ec.generate_private_key(ec.SECP256R1()))[0], PUBLIC])
def test_a_key_that_cannot_sign_is_refused(text):
    with pytest.raises(InvalidInputError, match="Ed25519 private key"):
        Signer.from_pem(text)


@pytest.mark.parametrize("text", [b"", b"not a key", pems(ec.generate_private_key(ec.SECP256R1()))[1], PRIVATE])
def test_a_key_that_cannot_check_is_refused(text):
    with pytest.raises(InvalidInputError, match="Ed25519 key"):
        check(SIGNER.sign(MANIFEST), public_key=text)
