"""How the pages of this repository become a site: `make docs`.

The pages are written for a plain Git host, and the site adds nothing to them that one would miss there: the links
between them are relative, their order is that of docs/README.md, and a link to what is no page leads to that file.
So the source folder is the whole repository, and what a site needs beside the pages is made here.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]

project = "Anabranch"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    "*.md",
    "docs/**.md",
    "benchmarks/README.md",
    "charts/kustomize/README.md",
    "deploy/argocd/README.md",
    "examples/platform-team/README.md",
    "operator/anabranch/devcluster/README.md",
]
exclude_patterns = [".*", "artifacts", "build", "dist", "docs/**/__pycache__", "node_modules"]
myst_heading_anchors = 4  # as Git hosts make them
nitpicky = True

html_theme = "furo"
html_title = f"{project} {release}"
html_favicon = "../operator/anabranch/web/static/mark.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"source_directory": ""}

SOURCE = os.environ.get("ANABRANCH_DOCS_SOURCE", "").rstrip("/")
"""Where one reads files that are no pages, such as `https://HOST/REPOSITORY/blob/COMMIT`; else the site has copies."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Have Sphinx call what is below."""
    app.connect("source-read", add_contents)
    app.connect("doctree-read", lead_to_source, priority=400)  # before Sphinx gathers what to copy
    app.connect("build-finished", add_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def add_contents(_app: Sphinx, name: str, source: list[str]) -> None:
    """Give the first page the site's table of contents, and the runbook that of its alerts."""
    if name == root_doc:
        source[0] += "".join(contents())
    elif name == "docs/runbook":
        source[0] += toctree("", ["runbooks/*"])


def contents() -> Iterator[str]:
    """The table of contents: a part for each section of docs/README.md, with the pages in the order of its links."""
    told: set[str] = set()
    yield toctree("", ["docs/README"])
    for section in (ROOT / "docs/README.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        linked = (os.path.normpath(f"docs/{page}") for page in re.findall(r"\]\(([^)#]+)\.md[)#]", text))
        pages = [page for page in dict.fromkeys(linked) if page not in {*told, root_doc}]
        told.update(pages)
        yield toctree(heading, pages)


def toctree(caption: str, pages: list[str]) -> str:
    """A part of the table of contents, seen in the sidebar only."""
    return "\n".join(
        ["\n", "```{toctree}", ":hidden:", ":glob:", f":caption: {caption}" if caption else "", "", *pages, "```", ""]
    )


def lead_to_source(_app: Sphinx, doctree: nodes.document) -> None:
    """Turn links to files that are no pages to where these can be read, if that is known."""
    folder = Path(doctree["source"]).parent
    for link in list(doctree.findall(addnodes.download_reference)) if SOURCE else ():
        path = (folder / link["reftarget"]).resolve().relative_to(ROOT)
        link.replace_self(nodes.reference("", "", *link.children, refuri=f"{SOURCE}/{path}"))


def add_index(app: Sphinx, failure: Any) -> None:
    """Let the first page answer by the site's bare address, too."""
    if not failure and app.builder.name == "html":
        shutil.copyfile(Path(app.outdir) / f"{root_doc}.html", Path(app.outdir) / "index.html")
