import pytest

from anabranch.consolidation.sources import SourcesConfig
from anabranch.model.errors import InvalidInputError


def test_entries_are_read_by_name():
    config = SourcesConfig.parse(
        {
            "gitRepositories": {"docs": {"path": "/srv/docs"}, "code": {"url": "https://example.org/code.git"}},
            "httpSources": {"wiki": {"host": "Wiki.example.org", "allowPrivate": True}},
        }
    )

    assert config.git_repositories["docs"].path == "/srv/docs"
    assert config.http_sources["wiki"].host == "wiki.example.org"
    assert SourcesConfig.parse(None) == SourcesConfig()


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"gitRepositories": {"docs": {}}}, "gitRepositories.docs"),
        ({"gitRepositories": {"docs": {"path": "a", "url": "b"}}}, "exactly one"),
        ({"httpSources": {"wiki": {"host": "https://wiki"}}}, "httpSources.wiki.host"),
        ({"unknown": {}}, "unknown"),
    ],
)
def test_a_mistake_is_named(value, named):
    with pytest.raises(InvalidInputError, match=named):
        SourcesConfig.parse(value)
