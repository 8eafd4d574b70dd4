"""Sphinx extension: pages of the families of metrics, for the navigation of the site.

The index of metrics has a section for each family, which is what readers of the repository see. On
the site each section also becomes a page below the index, with the pages of its metrics below it.
The pages are written when the build starts, and are not part of the repository.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

from weft.metrics.registry import FAMILIES

FOLDER = "families"
INDEX = "metrics/README"


def family_page(index: str, family: str) -> str:
    """Return the page of a family: its section of the index, and the navigation to its metrics."""
    title = family.capitalize()
    section = index.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0].strip()
    names = re.findall(r"^\| \[.+?\]\((\w+)\.md\)", section, re.M)
    entries = "\n".join(f"../{name}" for name in names)
    content = re.sub(r"\]\((?![a-z]+:|#)", "](../", section)
    return f"# {title} metrics\n\n{content}\n\n{_toctree(entries)}"


def write_pages(app: Sphinx) -> None:
    """Write the page of each family, unless it is up to date."""
    source = Path(app.srcdir)
    index = (source / f"{INDEX}.md").read_text(encoding="utf-8")
    folder = source / "metrics" / FOLDER
    folder.mkdir(exist_ok=True)
    for family in FAMILIES:
        path = folder / f"{family}.md"
        page = family_page(index, family)
        if not path.exists() or path.read_text(encoding="utf-8") != page:
            path.write_text(page, encoding="utf-8")


def add_families(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the families to the navigation of the index."""
    if docname == INDEX:
        source[0] += "\n" + _toctree("\n".join(f"{FOLDER}/{family}" for family in FAMILIES))


def _toctree(entries: str) -> str:
    return f"```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions above."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", add_families)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
