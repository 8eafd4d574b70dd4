"""The documentation site: links, search and accessibility, in a browser without a network.

WEFT_SITE names a built site. Without it the tests build one, with notebooks that are not executed.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
import threading
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE, STDOUT, run
from urllib.parse import unquote, urlsplit

import axe_playwright_python
import pytest

from page_browser import launched, open_page

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
# Animations have ended, and the page is drawn.
SETTLED = (
    "Promise.all(document.getAnimations().map((one) => one.finished)).then(() => new Promise("
    "(go) => requestAnimationFrame(() => requestAnimationFrame(() => go(null)))))"
)
# Axe takes seconds for a long page; its elements repeat, so that the beginning is enough.
SHORTEN = (
    "document.querySelectorAll('article section > *').forEach((one) => "
    "one.getBoundingClientRect().top + scrollY > 3000 && one.remove())"
)
# A page of every section.
SAMPLE = (
    "index",
    "get-started",
    "guide/own-metrics",
    "metrics/nDCG",
    "concepts/significance",
    "reference/api/evaluate",
    "reference/commands",
    "reference/settings",
    "gallery/index",
    "develop/benchmarks",
    "changelog",
)
# Queries and the page that must come first.
QUERIES = {
    "nDCG": "metrics/nDCG",
    "ndcg": "metrics/nDCG",
    "Recall": "metrics/Recall",
    "MAP": "metrics/MAP",
    "F1": "metrics/F1",
    "HitRate": "metrics/HitRate",
    "hit rate": "metrics/HitRate",
    "HR": "metrics/HitRate",
    "Hit": "metrics/HitRate",
    "Success": "metrics/HitRate",
    "Novelty": "metrics/EPC",
    "ILD": "metrics/ILD",
    "intra-list diversity": "metrics/ILD",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    if named := os.environ.get("WEFT_SITE"):
        return Path(named)
    missing = [name for name in ("sphinx", "myst_nb", "furo") if find_spec(name) is None]
    if missing:
        message = f"no {', '.join(missing)}: pip install -c constraints.txt '.[docs]'"
        if os.environ.get("WEFT_REQUIRE_SITE") == "1":
            pytest.fail(message)
        pytest.skip(message)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "--quiet", "-b", "html"]
    options = ["-D", "nb_execution_mode=off", "-d", str(folder / "doctrees")]
    source = run(
        [*command, *options, str(ROOT / "docs"), str(folder / "html")],
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
    )
    assert source.returncode == 0, source.stdout
    return folder / "html"


# ----------------------------------------------------------------------------------- static checks


class Page(HTMLParser):
    """The ids, the links and the resources of a page."""

    RESOURCES = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.resources = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.update(filter(None, (values.get("id"), values.get("name"))))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        place = values.get(self.RESOURCES.get(tag, ""))
        if place:
            self.resources.append(place)


@pytest.fixture(scope="module")
def pages(site):
    return {
        file.relative_to(site).as_posix(): Page(file.read_text(encoding="utf-8"))
        for file in site.rglob("*.html")
        if "_static" not in file.relative_to(site).parts
    }


def test_there_is_a_page_of_each_source(site, pages):
    sources = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        for pattern in ("*.md", "*.ipynb")
        for path in (ROOT / "docs").rglob(pattern)
        if not path.relative_to(ROOT / "docs").parts[0].startswith("_")
    }
    assert sources <= pages.keys()


def test_code_in_tables_can_be_broken(site):
    """Long names of metrics would leave no room for the other columns."""
    text = (site / "guide" / "migrate" / "warprec.html").read_text(encoding="utf-8")
    assert "UserMADRanking(<wbr>gain=<wbr>exponential_shifted)" in text


def test_pages_load_nothing_from_elsewhere(site, pages):
    for name, page in pages.items():
        for place in page.resources:
            assert not urlsplit(place).netloc, f"{name} loads {place}"
            assert "://" not in place, f"{name} loads {place}"
            if not place.startswith("data:"):
                target = posixpath.normpath(posixpath.join(posixpath.dirname(name), place))
                assert (site / urlsplit(unquote(target)).path).exists(), f"{name} loads {place}"


def test_style_sheets_load_nothing_from_elsewhere(site):
    """Also fonts and pictures of rules that no page of the browser tests applies."""
    sheets = list(site.rglob("*.css"))
    assert len(sheets) > 3
    for sheet in sheets:
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.S)
        places = re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", text)
        for place in filter(None, (part for pair in places for part in pair)):
            is_data = place.startswith("data:")
            assert is_data or not urlsplit(place).netloc, f"{sheet.name} loads {place}"


def test_links_lead_to_pages_and_anchors(site, pages):
    broken = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
            target = name if not parts.path else path
            if target not in pages:
                if not (site / target).is_file():
                    broken.append((name, link))
            elif parts.fragment and unquote(parts.fragment) not in pages[target].ids:
                broken.append((name, link))
    assert broken == []


# ------------------------------------------------------------------------------------- the browser


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site):
    """The address of a local server of the site."""
    handler = partial(QuietHandler, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    with launched() as browser:
        yield browser


@contextmanager
def watched(browser, address, **options):
    """A page that requests only what is on the server, and logs no error."""
    context, page, requested, logged = open_page(browser, **options)
    yield page
    context.close()
    elsewhere = [url for url in requested if not url.startswith((f"{address}/", "data:", "blob:"))]
    assert elsewhere == []
    assert [text for text in logged if text.startswith(("error", "warning"))] == []


def test_search_finds_metrics_by_name_and_alias(browser, address):
    first = {}
    with watched(browser, address) as page:
        for query in QUERIES:
            page.goto(f"{address}/search.html?q={query}")
            link = page.locator("#search-results ul.search li a").first
            link.wait_for()
            page.locator("#search-results > p.search-summary:not(:empty)").wait_for()  # is complete
            first[query] = urlsplit(link.get_attribute("href")).path.removesuffix(".html")
    assert first == QUERIES


def test_search_works_from_files(browser, site):
    """The index is a script, so that no server is needed."""
    page = browser.new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q=nDCG")
    link = page.locator("#search-results ul.search li a").first
    link.wait_for()
    assert link.get_attribute("href").startswith("metrics/nDCG.html")
    page.close()


def serious(page):
    """Return what axe finds serious or critical on a page."""
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [
        (one["id"], [node["html"][:200] for node in one["nodes"]][:5])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("name", [*SAMPLE, "search"])
def test_pages_are_accessible_and_narrow(browser, address, name):
    with watched(browser, address, bypass_csp=True) as page:
        page.goto(f"{address}/{name}.html")
        page.add_script_tag(content=AXE)
        backgrounds = set()
        for width, scheme in ((400, "light"), (1280, "dark")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.evaluate(SETTLED)
            backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.evaluate(SHORTEN)
            assert serious(page) == [], f"{width} pixels, {scheme}"
        assert len(backgrounds) == 2  # dark mode follows the system
