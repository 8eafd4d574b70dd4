"""The pages about other tools agree with the profiles: names, parameters, settings, versions."""

import re
from pathlib import Path

import pytest

from weft.metrics.names import parse_name
from weft.metrics.profiles import PROFILES, apply_profile
from weft.metrics.registry import canonical_name

FOLDER = Path(__file__).parents[1] / "docs" / "guide" / "migrate"
PAGES = {
    "elliot": "elliot",
    "ir_measures": "trec-eval",
    "ranx": "ranx",
    "recbole": "recbole",
    "rectools": "rectools",
    "replay": "replay",
    "torchmetrics": "torchmetrics",
    "trec_eval": "trec-eval",
    "warprec": "warprec",
}


def read_page(profile):
    return (FOLDER / f"{PAGES[profile]}.md").read_text(encoding="utf-8")


def read_tables(text):
    """Return the tables of a page, each as its rows of cells; the first row is the header."""
    blocks = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    tables = [[split_cells(line) for line in block.splitlines()] for block in blocks]
    return [[head, *rows] for head, _, *rows in tables]


def split_cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def name_rows(profile):
    """Return the rows of the table of metric names: (their name, ours, ours without profile)."""
    head = f'Weft with `profile="{profile}"`'
    (table,) = (rows for rows in read_tables(read_page(profile)) if head in rows[0])
    return [row[:3] for row in table[1:]]


def test_every_page_is_tested():
    assert {f"{page}.md" for page in PAGES.values()} | {"index.md"} == {
        path.name for path in FOLDER.iterdir()
    }


@pytest.mark.parametrize("profile", PAGES)
def test_names_are_those_of_the_profile(profile):
    for theirs, ours, full in name_rows(profile):
        assert theirs.startswith("`"), theirs
        applied = str(apply_profile(ours.strip("`"), PROFILES[profile]))
        assert full == f"`{canonical_name(applied)}`", (theirs, ours)


@pytest.mark.parametrize("profile", PAGES)
def test_every_metric_of_the_profile_is_on_the_page(profile):
    named = {parse_name(ours.strip("`")).name for _, ours, _ in name_rows(profile)}
    assert named == set(PROFILES[profile].covers)
    others = [
        row for rows in read_tables(read_page(profile)) if rows[0][1:2] == ["Weft"] for row in rows
    ]
    text = "\n".join(row[1] for row in others)
    assert all(f"`{name}`" in text for name in PROFILES[profile].excluded)


@pytest.mark.parametrize("profile", PAGES)
def test_settings_and_version_are_on_the_page(profile):
    text = read_page(profile)
    for name, value in PROFILES[profile].settings.items():
        assert f"`{name}={value!r}`".replace("'", '"') in text
    assert PROFILES[profile].version.split()[0] in text
    assert f"| {PROFILES[profile].version.split()[0]}" in overview() or profile == "ir_measures"
    assert f"`{profile}`" in overview()


def overview():
    return (FOLDER / "index.md").read_text(encoding="utf-8")
