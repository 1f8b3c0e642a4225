"""The certificate that the chart makes itself: would a client that trusts its authority accept it?"""

from __future__ import annotations

import base64

from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store
from tests.chart.rendering import EXISTING, NAMESPACE


def pem(rendered, secret, key):
    return base64.b64decode(rendered.get("Secret", secret)["data"][key])


def test_the_generated_certificate_is_good_for_every_name_of_the_service(render):
    rendered = render({**EXISTING, "api": {"tls": {"extraNames": ["memory.example"], "days": 30}}})
    authority = x509.load_pem_x509_certificate(pem(rendered, "anabranch-api-tls", "ca.crt"))
    assert pem(rendered, "anabranch-api-ca", "tls.crt") == pem(rendered, "anabranch-api-tls", "ca.crt")
    leaf = x509.load_pem_x509_certificate(pem(rendered, "anabranch-api-tls", "tls.crt"))
    assert (leaf.not_valid_after_utc - leaf.not_valid_before_utc).days == 30
    for name in (
        f"anabranch-api.{NAMESPACE}.svc",
        f"anabranch-api.{NAMESPACE}.svc.cluster.local",
        f"anabranch-api.{NAMESPACE}",
        "memory.example",
    ):
        verifier = PolicyBuilder().store(Store([authority])).build_server_verifier(x509.DNSName(name))
        verifier.verify(leaf, [])


def test_the_pods_do_not_get_the_key_of_the_authority(render):
    for _, _, pod in render().pods():
        for volume in pod["volumes"]:
            assert volume.get("secret", {}).get("secretName") != "anabranch-api-ca"
