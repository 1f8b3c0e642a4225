"""The operator's configuration file: what it may say of models, and how a mistake in it is told."""

from __future__ import annotations

import pytest

from anabranch.controllers.configuration import Configuration
from anabranch.model.errors import InvalidInputError

URL = "https://models.example/v1"


def read(folder, text):
    path = folder / "config.yaml"
    path.write_text(text)
    return Configuration.read(path)


def test_models_stand_beside_what_findings_may_cite(tmp_path):
    model = f"{{url: '{URL}', model: m, timeoutSeconds: 5}}"
    found = read(tmp_path, f"httpSources: {{wiki: {{host: wiki.example}}}}\nmodels: {{small: {model}}}")
    assert found.http_sources["wiki"].host == "wiki.example"
    assert (found.models["small"].url, found.models["small"].timeout_seconds) == (URL, 5)


def test_no_file_and_an_empty_one_say_nothing(tmp_path):
    assert Configuration.read(None).models == read(tmp_path, "").models == {}


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ({"model": "m"}, "models.small.url"),
        ({"url": "ftp://models.example", "model": "m"}, "models.small.url"),
        ({"url": "https://user:secret@models.example", "model": "m"}, "models.small.url"),
        ({"url": "https://models.example:99999", "model": "m"}, "models.small"),
        ({"url": "https://models.example/v1?key=x", "model": "m"}, "models.small.url"),
        ({"url": "http://models.example", "model": "m", "apiKeyFile": "/key"}, "https only"),
        ({"url": URL, "model": "m", "timeoutSeconds": 0}, "models.small.timeoutSeconds"),
        ({"url": URL, "model": "m", "apiKey": "sk-secret"}, "models.small.apiKey"),
    ],
)
def test_a_mistake_is_named_and_no_secret_is(model, named):
    with pytest.raises(InvalidInputError, match=named) as raised:
        Configuration.parse({"models": {"small": model}})
    assert "secret" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match=r"none\.yaml"):
        Configuration.read(tmp_path / "none.yaml")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read(tmp_path, "models: {")
