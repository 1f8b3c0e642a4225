"""The schemas that are made of the models, and the files that are made of the schemas."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from click.testing import CliRunner
from pydantic import Field

from anabranch.manifests import crds, generate
from anabranch.model.crd import BaselineResource, BranchResource, ConsolidationJobResource
from anabranch.model.crd.base import Duration, Report, Rule, Spec, rules
from anabranch.model.crd.schema import fields, structural

ROOT = Path(__file__).parents[2]


def schemas():
    for crd in crds():
        yield crd["spec"]["names"]["kind"], crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_every_field_has_a_text_for_kubectl_explain():
    for kind, schema in schemas():
        missing = [path for path, field in fields(schema) if not field.get("description") and path != "metadata"]
        assert not missing, kind


def test_no_field_of_a_list_item_has_a_default():
    for kind, schema in schemas():
        assert not [path for path, field in fields(schema) if "[]" in path and "default" in field], kind


def test_every_list_and_every_text_that_rules_read_is_bounded():
    for kind, schema in schemas():
        lists = {path: field for path, field in fields(schema["properties"]["spec"]) if field["type"] == "array"}
        assert all("maxItems" in field for field in lists.values()), kind
        texts = {path: field for path, field in fields(schema["properties"]["spec"]) if field["type"] == "string"}
        assert not [path for path, field in texts.items() if not {"maxLength", "enum"} & field.keys()], kind


def test_every_integer_is_64_bits_wide():
    for kind, schema in schemas():
        assert {field["format"] for _, field in fields(schema) if field["type"] == "integer"} == {"int64"}, kind


def test_every_rule_says_what_is_wrong():
    for _, schema in schemas():
        for _, field in fields(schema):
            for rule in field.get("x-kubernetes-validations", ()):
                assert rule["message"].startswith(("spec.", "name ", "a job", "only a job", "each ", "one "))


def test_the_checked_in_definitions_are_what_the_models_say():
    result = CliRunner().invoke(generate.main, ["--check", f"--dir={ROOT / 'crds'}"])
    assert result.exit_code == 0, result.output


def test_generating_is_deterministic_and_drift_is_named(tmp_path):
    run = CliRunner().invoke
    assert run(generate.main, ["--check", f"--dir={tmp_path}"]).exit_code == 1
    assert run(generate.main, [f"--dir={tmp_path}"]).exit_code == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == generate.files()
    assert run(generate.main, ["--check", f"--dir={tmp_path}"]).exit_code == 0

    (tmp_path / "stray.yaml").write_text("")
    branches = tmp_path / "branches.yaml"
    branches.write_text(branches.read_text().replace("shortNames", "shortnames"))
    result = run(generate.main, ["--check", f"--dir={tmp_path}"])
    assert result.exit_code == 1
    assert "branches.yaml, stray.yaml" in result.output
    assert run(generate.main, [f"--dir={tmp_path}"]).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == set(generate.files())


def test_a_written_file_reads_back_as_the_definition():
    assert [yaml.safe_load(text) for text in generate.files().values()] == crds()


def test_the_examples_are_read_by_the_operators_own_models():
    kinds = {kind.KIND: kind for kind in (BaselineResource, BranchResource, ConsolidationJobResource)}
    seen = set()
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] in kinds:
                server = {"uid": "u", "generation": 1}
                kinds[document["kind"]].parse({**document, "metadata": {**document["metadata"], **server}})
                seen.add(document["kind"])
    assert seen == kinds.keys()


# The generator by itself


class Part(Spec):
    """A part."""

    size: int = 3
    """How large."""


class Whole(Spec):
    """A whole."""

    part: Annotated[Part, Field(json_schema_extra=rules(Rule("self.size > 0", "spec.part.size must be positive")))] = (
        Part()
    )
    """The part that matters."""

    other: Part | None = None
    """Another
    part."""

    wait: Duration = timedelta(minutes=5)
    """How long."""

    names: tuple[str, ...] = ()
    """Which."""


def test_references_unions_and_defaults_fold_into_one_structural_schema():
    size = {"description": "How large.", "type": "integer", "format": "int64", "default": 3}
    part: dict[str, Any] = {"type": "object", "properties": {"size": size}}
    assert structural(Whole) == {
        "description": "A whole.",
        "type": "object",
        "properties": {
            "part": {
                **part,
                "description": "The part that matters.",
                "default": {},
                "x-kubernetes-validations": [
                    {"rule": "self.size > 0", "message": "spec.part.size must be positive"},
                ],
            },
            "other": {**part, "description": "Another part."},
            "wait": {
                "description": "How long.",
                "type": "string",
                "default": "5m",
                "pattern": "^[1-9][0-9]{0,5}(s|m|h)$",
                "maxLength": 7,
            },
            "names": {
                "description": "Which.",
                "type": "array",
                "default": [],
                "x-kubernetes-list-type": "atomic",
                "items": {"type": "string"},
            },
        },
    }


def test_a_report_has_no_defaults():
    class Count(Report):
        """A count."""

        seen: int = 0
        """How many."""

    assert "default" not in structural(Count)["properties"]["seen"]


def test_a_field_without_words_is_refused():
    class Silent(Spec):
        """A silent one."""

        size: int

    with pytest.raises(ValueError, match=r"Silent\.size has no description"):
        structural(Silent)


def test_a_default_inside_a_list_is_refused():
    class Row(Spec):
        """A table."""

        parts: tuple[Part, ...]
        """Its parts."""

    with pytest.raises(ValueError, match=r"Row\.parts\[\]\.size has a default inside a list"):
        structural(Row)


def test_a_type_without_a_structural_form_is_refused():
    class Either(Spec):
        """One or the other."""

        value: int | str
        """A number or a text."""

    with pytest.raises(ValueError, match=r"Either\.value has no structural form: anyOf"):
        structural(Either)
