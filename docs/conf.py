"""How Sphinx makes the site of the documentation (`make site`).

The repository itself is the source: a page of the site lies where its Markdown lies, so relative
links lead to the same pages as on a code host. The hooks do what is not in the Markdown: the
sidebar, and pages that show the files of Python to which pages link.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

import mdtensor

ROOT = Path(__file__).parents[1]
INDEX = "docs/index"

project = "mdtensor"
copyright = "the mdtensor authors"  # noqa: A001 - the name that Sphinx reads
version = release = mdtensor.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "bench/results/README.md"]
exclude_patterns = [".*", "build", "dist", "*.egg-info", "examples", "mdtensor", "tests"]

myst_heading_anchors = 4  # links to headings, as code hosts make them
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the text says types and shapes

html_theme = "furo"
html_title = f"mdtensor {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False


def setup(app: Sphinx) -> None:
    """Connects the hooks."""
    app.connect("source-read", _add_sidebar)
    app.connect("autodoc-process-docstring", _rewrite_docstring)
    app.connect("doctree-read", _strip_code)
    app.connect("doctree-read", _link_files, priority=400)  # before Sphinx copies what is linked
    app.connect("html-collect-pages", _pages_of_files)
    app.connect("build-finished", _begin_with_the_readme)


def _add_sidebar(app: Sphinx, docname: str, content: list[str]) -> None:
    """Makes the sidebar of what docs/index.md lists: a part for each of its sections.

    The decisions, many and seldom read, lie below one entry.
    """
    if docname not in (root_doc, INDEX):
        return
    sections = (ROOT / f"{INDEX}.md").read_text(encoding="utf-8").split("\n## ")[1:]
    for section in sections:
        caption, _, text = section.partition("\n")
        linked = re.findall(r"^- \[.+?\]\((.+?)\.md\)", text, flags=re.MULTILINE)
        pages = [f"/{_in_repository(INDEX, page)}" for page in linked if page != "../README"]
        if caption == "Decisions":
            if docname == INDEX:
                content[0] += _toctree(caption, pages)
            pages = [f"By subject </{INDEX}>"]
        if docname == root_doc:
            content[0] += _toctree(caption, pages)


def _toctree(caption: str, entries: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", *entries, "```", ""])


def _rewrite_docstring(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Rewrites `code` and docs/page.md of docstrings, which are Markdown, for reStructuredText."""
    for number, line in enumerate(lines):
        if not line.startswith((">>>", "...")):
            coded = re.sub(r"`([^`]+)`", r"\\ ``\1``\\ ", line)
            lines[number] = re.sub(r"\bdocs/([\w/]+)\.md\b", r":doc:`/docs/\1`", coded)


def _strip_code(app: Sphinx, doctree: nodes.document) -> None:
    """Drops the empty line at which an example of Markdown ends; colours no plain text."""
    for block in doctree.findall(nodes.literal_block):
        text = block.rawsource = block.astext().rstrip()
        block.children = []
        block.append(nodes.Text(text))
        if block.get("language", "default") == "default" and not text.startswith(">>>"):
            block["language"] = "none"


def _link_files(app: Sphinx, doctree: nodes.document) -> None:
    """Leads links to files of Python to pages that show these; folders have none: text stays."""
    page = app.env.docname
    files: set[str] = app.env.metadata[page].setdefault("files", set())
    for link in list(doctree.findall(addnodes.download_reference)):
        path = _in_repository(page, link["reftarget"])
        if path.suffix == ".py":
            files.add(str(path))
            uri = app.builder.get_relative_uri(page, str(path))
            line = _line_of(path, link.astext())
            link.replace_self(nodes.reference("", "", *link.children, refuri=f"{uri}#line-{line}"))
    for link in list(doctree.findall(addnodes.pending_xref)):
        place = ((ROOT / page).parent / link["reftarget"]).resolve()
        if link["reftype"] == "myst" and place.is_dir() and place.is_relative_to(ROOT):
            link.replace_self(link.children)


def _in_repository(page: str, target: str) -> PurePosixPath:
    """Where a target lies to which a page links, from the root of the repository."""
    path = ((ROOT / page).parent / target).resolve()
    return PurePosixPath(path.relative_to(ROOT).as_posix())


def _line_of(path: PurePosixPath, name: str) -> int:
    """The line that defines what a link names, else the first one."""
    last = re.escape(name.rpartition(".")[2])
    pattern = rf"^\s*(?:class |def |async def )?{last}\b(?:[\[(:]| ?[:=])"
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    found = (number for number, line in enumerate(lines, 1) if re.search(pattern, line))
    return next(found, 1)


def _pages_of_files(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each file to which pages link, with its text in colours."""
    assert isinstance(app.builder, StandaloneHTMLBuilder)
    pages = app.env.metadata.values()
    for path in sorted({file for page in pages for file in page.get("files", ())}):
        text = (ROOT / path).read_text(encoding="utf-8")
        code = app.builder.highlighter.highlight_block(text, "python", lineanchors="line")
        yield path, {"title": path, "body": f"<h1>{path}</h1>{code}"}, "page.html"


def _begin_with_the_readme(app: Sphinx, exception: Exception | None) -> None:
    """Puts the start page where servers of files look for it."""
    if exception is None and app.builder.name == "html":
        shutil.copy(app.outdir / f"{root_doc}.html", app.outdir / "index.html")
