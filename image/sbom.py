"""Says what is in a release: bills of material, of the locked Python packages (CycloneDX) and of the image (SPDX).

Both are read off what they are about, by the standard library alone: the first off a lock file, the second off the
image's own records, so that nothing can be in the one and not in the other. The same input gives the same bytes.

    python image/sbom.py lock requirements-runtime.lock > anabranch.cdx.json
    python image/sbom.py image anabranch-image.tar > anabranch-image.spdx.json
"""

from __future__ import annotations

import email
import hashlib
import importlib.metadata
import json
import re
import sys
import tarfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PRODUCT = "anabranch"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "anabranch.dev")

_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)(?:\s*;\s*([^\\\n]*[^\\\s]))?", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r"^    #(?: via)?\s+([a-z0-9][a-z0-9.-]*)", re.MULTILINE)
_METADATA = re.compile(r".*/site-packages/[^/]+\.dist-info/METADATA")
_LICENSED = re.compile(r"[A-Za-z0-9.+() -]+")


@dataclass(frozen=True)
class Pinned:
    """A package of a lock file.

    Attributes:
        name: In its normal form.
        version: The one.
        marker: Where it is installed only; empty: everywhere.
        hashes: SHA-256 of each file that may be installed, in order.
        wanted_by: Names of the packages that want it.
    """

    name: str
    version: str
    marker: str = ""
    hashes: tuple[str, ...] = ()
    wanted_by: frozenset[str] = field(default_factory=frozenset)

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:pypi/{self.name}@{quote(self.version)}"


def locked(text: str) -> list[Pinned]:
    """The packages of a lock file as uv writes it, in its order."""
    starts = [*_PINNED.finditer(text)]
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return [
        Pinned(
            name=re.sub(r"[-_.]+", "-", start[1]).lower(),
            version=start[2],
            marker=start[3] or "",
            hashes=tuple(_HASH.findall(part := text[start.start() : end])),
            wanted_by=frozenset(_VIA.findall(part)),
        )
        for start, end in zip(starts, ends, strict=True)
    ]


def cyclonedx(packages: list[Pinned], *, version: str, licenses: Mapping[str, str]) -> dict[str, Any]:
    """The CycloneDX 1.6 bill of locked packages.

    Args:
        packages: As `locked` gives them.
        version: Of the product.
        licenses: SPDX expressions by package, as far as they are known.
    """
    product = {
        "type": "application",
        "bom-ref": PRODUCT,
        "name": PRODUCT,
        "version": version,
        "purl": f"pkg:pypi/{PRODUCT}@{version}",
        "licenses": [{"expression": "Apache-2.0"}],
    }
    components = [_component(package, licenses.get(package.name)) for package in packages]
    wants = {
        name: sorted(package.purl for package in packages if name in package.wanted_by)
        for name in (PRODUCT, *(package.name for package in packages))
    }
    refs = {PRODUCT: PRODUCT, **{package.name: package.purl for package in packages}}
    body: dict[str, Any] = {
        "metadata": {"component": product},
        "components": components,
        "dependencies": [{"ref": refs[name], "dependsOn": wanted} for name, wanted in wants.items()],
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(body, sort_keys=True))
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1, **body}


def _component(package: Pinned, license_: str | None) -> dict[str, Any]:
    marked = [{"name": "anabranch:marker", "value": package.marker}] if package.marker else []
    # Which file is installed depends on the machine: CycloneDX's own `hashes` would be those of one of them.
    files = [{"name": "anabranch:file:sha256", "value": each} for each in package.hashes]
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        **({"licenses": [{"expression": license_}]} if license_ else {}),
        "properties": [*marked, *files],
    }


def installed_licenses() -> dict[str, str]:
    """The SPDX expressions that installed packages state."""
    return {
        re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower(): found.metadata["License-Expression"]
        for found in importlib.metadata.distributions()
        if "License-Expression" in found.metadata
    }


def spdx(archive: Path) -> dict[str, Any]:
    """The SPDX 2.3 bill of a saved image: its Debian and Python packages, as its own records tell."""
    with tarfile.open(archive) as image:
        manifest = json.load(_opened(image, "manifest.json"))[0]
        configuration = _opened(image, manifest["Config"]).read()
        described = json.loads(configuration)
        packages = sorted(
            (each for layer in manifest["Layers"] for each in _of_layer(image, layer)), key=lambda each: each["SPDXID"]
        )
    labels = described["config"].get("Labels") or {}
    digest = hashlib.sha256(configuration).hexdigest()
    product = {
        "SPDXID": "SPDXRef-image",
        "name": PRODUCT,
        "versionInfo": labels.get("org.opencontainers.image.version", "unknown"),
        "primaryPackagePurpose": "CONTAINER",
        "downloadLocation": "NOASSERTION",
        "licenseDeclared": labels.get("org.opencontainers.image.licenses", "NOASSERTION"),
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
    }
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{PRODUCT}-image",
        "documentNamespace": f"https://anabranch.dev/spdx/image/{digest}",
        "creationInfo": {"created": described["created"][:19] + "Z", "creators": ["Tool: anabranch-sbom"]},
        "documentDescribes": [product["SPDXID"]],
        "packages": [product, *packages],
        "relationships": [
            {"spdxElementId": product["SPDXID"], "relationshipType": "CONTAINS", "relatedSpdxElement": each["SPDXID"]}
            for each in packages
        ],
    }


def _of_layer(image: tarfile.TarFile, layer: str) -> Iterator[dict[str, Any]]:
    with tarfile.open(fileobj=_opened(image, layer)) as files:
        for member in files:
            name = member.name.removeprefix("./")
            if name == "var/lib/dpkg/status":
                for record in _opened(files, member.name).read().decode().strip().split("\n\n"):
                    about = email.message_from_string(record)
                    architecture = about["Architecture"]
                    purl = f"pkg:deb/debian/{about['Package']}@{quote(about['Version'])}?arch={architecture}"
                    yield _package("deb", about["Package"], about["Version"], purl, None)
            elif _METADATA.fullmatch(name):
                about = email.message_from_string(_opened(files, member.name).read().decode())
                made = Pinned(re.sub(r"[-_.]+", "-", about["Name"]).lower(), about["Version"])
                yield _package("python", made.name, made.version, made.purl, about["License-Expression"])


def _package(kind: str, name: str, version: str, purl: str, license_: str | None) -> dict[str, Any]:
    reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
    return {
        "SPDXID": f"SPDXRef-{kind}-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "licenseDeclared": license_ if license_ and _LICENSED.fullmatch(license_) else "NOASSERTION",
        "externalRefs": [reference],
    }


def _opened(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    if found is None:
        sys.exit(f"{name} is no file of the archive.")
    return found


def main(kind: str, path: Path) -> None:
    """Prints a bill."""
    if kind == "image":
        bill = spdx(path)
    else:
        version = importlib.metadata.version(PRODUCT)
        bill = cyclonedx(locked(path.read_text(encoding="utf-8")), version=version, licenses=installed_licenses())
    print(json.dumps(bill, indent=1, ensure_ascii=False))  # noqa: T201  (that is what it is for)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
