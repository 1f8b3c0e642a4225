"""The bills of material name all that is locked, and all that the image's own records name, and come out the same."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import pytest
from image import sbom

LOCK = (Path(__file__).parents[2] / "requirements-runtime.lock").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def bill():
    return sbom.cyclonedx(sbom.locked(LOCK), version="1.2.3", licenses={"httpx": "BSD-3-Clause"})


def test_each_locked_package_is_a_component_with_the_hashes_of_its_files(bill):
    pinned = re.findall(r"^([a-z0-9._-]+)==([^ ]+)", LOCK, re.MULTILINE)
    assert [(each["name"], each["version"]) for each in bill["components"]] == pinned
    hashes = [each["value"] for part in bill["components"] for each in part["properties"] if "sha256" in each["name"]]
    assert hashes == re.findall(r"sha256:([0-9a-f]{64})", LOCK)
    (httpx,) = (each for each in bill["components"] if each["name"] == "httpx")
    assert httpx["licenses"] == [{"expression": "BSD-3-Clause"}]
    (pywin32,) = (each for each in bill["components"] if each["name"] == "pywin32")
    assert pywin32["properties"][0] == {"name": "anabranch:marker", "value": "sys_platform == 'win32'"}


def test_each_component_is_wanted_by_the_product_or_by_what_it_wants(bill):
    wanted = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    reached, ahead = set(), {sbom.PRODUCT}
    while ahead:
        reached |= ahead
        ahead = {each for ref in ahead for each in wanted[ref]} - reached
    assert reached == {sbom.PRODUCT, *(each["bom-ref"] for each in bill["components"])}


def test_the_same_lock_gives_the_same_bill_and_another_one_another(bill):
    again = sbom.cyclonedx(sbom.locked(LOCK), version="1.2.3", licenses={"httpx": "BSD-3-Clause"})
    assert json.dumps(again) == json.dumps(bill)
    other = sbom.cyclonedx(sbom.locked(LOCK)[1:], version="1.2.3", licenses={})
    assert other["serialNumber"] != bill["serialNumber"]


def packed(files):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return held.getvalue()


@pytest.fixture
def image(tmp_path):
    """A saved image of two layers: one of Debian's, one of Python's."""
    record = "Package: {0}\nArchitecture: amd64\nVersion: {1}\nDescription: it\n .\n more of it\n"
    status = "\n".join([record.format("git", "1:2.39.5-0+deb12u2"), record.format("libc6", "2.36-9")])
    metadata = "Metadata-Version: 2.4\nName: {0}\nVersion: 1.0\n{1}\nAbout it.\n"
    site = "opt/anabranch/lib/python3.11/site-packages"
    packages = {
        f"{site}/a_b-1.0.dist-info/METADATA": metadata.format("A_b", "License-Expression: MIT\n").encode(),
        f"{site}/c-1.0.dist-info/METADATA": metadata.format("c", "").encode(),
        f"{site}/c-1.0.dist-info/RECORD": b"c/METADATA",
    }
    labels = {"org.opencontainers.image.version": "1.2.3", "org.opencontainers.image.licenses": "Apache-2.0"}
    parts = {
        "base.tar": packed({"./var/lib/dpkg/status": status.encode()}),
        "top.tar": packed(packages),
        "config.json": json.dumps({"created": "2026-01-31T12:00:00.123Z", "config": {"Labels": labels}}).encode(),
        "manifest.json": json.dumps([{"Config": "config.json", "Layers": ["base.tar", "top.tar"]}]).encode(),
    }
    path = tmp_path / "image.tar"
    path.write_bytes(packed(parts))
    return path


def test_an_image_contains_what_its_records_name(image):
    bill = sbom.spdx(image)
    product, *packages = bill["packages"]
    assert (product["versionInfo"], product["licenseDeclared"]) == ("1.2.3", "Apache-2.0")
    assert [(each["externalRefs"][0]["referenceLocator"], each["licenseDeclared"]) for each in packages] == [
        ("pkg:deb/debian/git@1%3A2.39.5-0%2Bdeb12u2?arch=amd64", "NOASSERTION"),
        ("pkg:deb/debian/libc6@2.36-9?arch=amd64", "NOASSERTION"),
        ("pkg:pypi/a-b@1.0", "MIT"),
        ("pkg:pypi/c@1.0", "NOASSERTION"),
    ]
    contained = [each["relatedSpdxElement"] for each in bill["relationships"]]
    assert contained == [each["SPDXID"] for each in packages]
    assert len(set(contained)) == len(contained)
    assert bill["creationInfo"]["created"] == "2026-01-31T12:00:00Z"
    assert json.dumps(sbom.spdx(image)) == json.dumps(bill)
