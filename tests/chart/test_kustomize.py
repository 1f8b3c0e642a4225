"""The kustomize base is the chart, and kustomize builds it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from anabranch.chart import kustomize
from anabranch.devcluster import binaries

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def files(helm):
    return kustomize.files(helm.path)


def test_the_files_are_what_the_chart_renders(files):
    found = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / kustomize.BASE).iterdir()}
    assert found == files, "run `make kustomize`"


def test_kustomize_builds_it_and_an_overlay_changes_every_image(files, tmp_path):
    kubectl = binaries.path("kubectl")
    if not kubectl.exists():
        pytest.skip("there is no kubectl: `make devcluster` builds it")
    (tmp_path / "base").mkdir()
    for name, text in files.items():
        (tmp_path / "base" / name).write_text(text)
    overlay = {"resources": ["base"], "images": [{"name": "anabranch", "newName": "r.example/a", "newTag": "9"}]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    built = subprocess.run([kubectl, "kustomize", tmp_path], check=True, capture_output=True, text=True).stdout
    objects = list(yaml.safe_load_all(built))
    whole = sum(len(list(yaml.safe_load_all(text))) for name, text in files.items() if name != "kustomization.yaml")
    assert len(objects) == whole
    assert built.count("image: r.example/a:9") == 5  # two programs that wait for the schema, and the migration
    assert "image: anabranch" not in built


def test_nothing_in_it_is_helms(files):
    for text in files.values():
        assert "helm.sh" not in text
        assert "managed-by: Helm" not in text
