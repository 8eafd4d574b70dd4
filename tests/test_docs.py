"""Generated pages are up to date, YAML blocks load, and links are not broken."""

import json
import re
import sys
from pathlib import Path

import pytest
from latex2mathml.converter import convert as latex_to_mathml
from ruamel.yaml import YAML

from weft._input_kinds import split_column
from weft.config import load
from weft.errors import check_choice
from weft.metrics import registry
from weft.metrics.base.metric import BaseMetric
from weft.metrics.declarations import own_parameters
from weft.metrics.profiles import PROFILES
from weft.metrics.registry import EMPTY_INPUTS, build_metric, built_in_metrics, find_metric
from weft.report.definitions import (
    LIKED,
    LISTS,
    RATED,
    ToolDefinition,
    compare_definitions,
    describe,
    describe_parameters,
    describe_settings,
    differing_parameters,
    list_facts,
)
from weft.report.math_symbols import set_symbols
from weft.report.metric_pages import render_pages
from weft.report.text import _COUNTS as COUNT_TEXTS

ROOT = Path(__file__).parents[1]
PAGES = render_pages()


def test_every_count_is_documented():
    page = (ROOT / "docs" / "reference" / "api" / "results.md").read_text(encoding="utf-8")
    for name, meaning in COUNT_TEXTS.items():
        assert f"| `{name}` | {meaning} |" in page


@pytest.mark.parametrize("place", PAGES)
def test_generated_pages_are_up_to_date(place):
    written = (
        (ROOT / "docs" / place).read_text(encoding="utf-8")
        if (ROOT / "docs" / place).exists()
        else ""
    )
    assert written == PAGES[place], "write the pages again: python -m weft.report.metric_pages docs"


def test_every_page_belongs_to_a_metric():
    names = {path.name for path in (ROOT / "docs" / "metrics").iterdir()}
    assert names - {"families"} == {  # which a build of the site writes
        "README.md",
        *(f"{metric.__name__}.md" for metric in built_in_metrics()),
    }


@pytest.mark.parametrize("metric", built_in_metrics(), ids=lambda metric: metric.__name__)
def test_metrics_document_what_a_page_shows(metric):
    description = describe(metric)
    assert (
        description.summary.endswith(".")
        and description.edge_cases.endswith(".")
        and description.example
        and ">>> metric.update(" in description.code
    )
    assert re.search(r"doi 10\.\d{4,9}/\S+$", metric.reference), metric.reference
    assert {"family", "better", "range", "needs", "reference"} <= {
        what for what, _ in list_facts(metric)
    }


@pytest.mark.parametrize("metric", built_in_metrics(), ids=lambda metric: metric.__name__)
def test_metrics_document_formula_use_and_related_metrics(metric):
    description = describe(metric)
    markup = latex_to_mathml(description.formula)
    letters = re.sub(r"<[^>]*>|\W|_", "", markup)
    assert "\\" not in markup and metric.__name__.replace("_", "") in letters
    for symbol in re.findall(r"\$(.+?)\$", description.symbols):
        assert "\\" not in latex_to_mathml(symbol)
    assert re.search(r"[.)]$", description.use)
    assert 2 <= len(re.findall(r"[.](?= [A-Z]|$)", description.use)) <= 4
    names = {metric.__name__ for metric in built_in_metrics()} - {metric.__name__}
    assert set(description.related) <= names and len(description.related) >= 2
    page = PAGES[f"metrics/{metric.__name__}.md"]
    assert f"```math\n{description.formula}\n```" in page and description.use in page
    assert description.symbols in page and "$" not in description.definition
    assert all(f"]({name}.md): " in page for name in description.related)


@pytest.mark.parametrize("metric", built_in_metrics(), ids=lambda metric: metric.__name__)
def test_metrics_describe_their_parameters(metric):
    page = PAGES[f"metrics/{metric.__name__}.md"]
    for one in describe_parameters(metric):
        assert re.match(r"[A-Z`]", one.text) and one.text.endswith("."), one
        assert "As in " not in one.text.replace("As in trec_eval", ""), one
        default = f"`{one.default}`" if one.default else "required"
        text = set_symbols(one.text).replace("|", "\\|")
        assert f"\n| `{one.name}` | {default} | {text} |\n" in page
    for base in metric.__mro__:
        if issubclass(base, BaseMetric):
            assert set(describe(base).parameters) <= set(own_parameters(base)), base


def test_symbols_of_metrics_are_maths():
    for name, page in PAGES.items():
        prose = re.sub(r"```.*?```|`[^`]*`|\$[^$]*\$", "", page, flags=re.S)
        assert not re.search(r"(?<![\w/.-])[A-Za-zα-ω]_(?:[a-z]\b|\()", prose), name
    assert "$\\theta_p$ is the probability" in PAGES["metrics/ERR.md"]


def test_settings_of_all_metrics_are_described():
    for one in describe_settings():
        assert f"\n| `{one.name}` | `{one.default}` | {one.text} |\n" in PAGES["metrics/README.md"]
    undescribed = set(own_parameters(BaseMetric)) - {one.name for one in describe_settings()}
    assert undescribed == set()


@pytest.fixture
def closed_choices(monkeypatch):
    """A function that returns the allowed values of closed choices, by parameter of a metric."""

    def find(metric):
        allowed_values = {}

        def record(parameter, value, allowed):
            allowed_values[parameter] = allowed
            return check_choice(parameter, value, allowed)

        for name, module in list(sys.modules.items()):
            if name.startswith("weft.") and getattr(module, "check_choice", None) is check_choice:
                monkeypatch.setattr(module, "check_choice", record)
        spec = registry.example_spec(metric)
        build_metric(spec, inputs=EMPTY_INPUTS, standalone=False)
        monkeypatch.undo()
        return allowed_values

    return find


def test_descriptions_name_all_values_of_choices(closed_choices):
    num_choices = 0
    for metric in built_in_metrics():
        choices = closed_choices(metric)
        for one in [*describe_parameters(metric), *describe_settings()]:
            for value in choices.get(one.name, ()):
                assert f'`"{value}"`' in one.text, (metric.__name__, one.name, value)
            num_choices += one.name in choices and one not in describe_settings()
    assert num_choices > 80


class DescribedMetric(find_metric("DCG")):
    """A metric of an author.

    Parameters:
        power: Exponent of
            the value, with a
            note: from 0 up.
        discount, other: As in nDCG. Here, it has
            no effect.
        unknown: As in Unknown.

    A paragraph.
    """

    def __init__(self, k, *, power, discount=1, other=1, unknown="x", free=None, **settings):
        super().__init__(k, **settings)


class DerivedMetric(DescribedMetric):
    def __init__(self, k, *, power=2, **settings):
        super().__init__(k, power=power, **settings)


def test_parameters_of_authors_are_described():
    assert describe(DescribedMetric).definition == "A paragraph."
    described = {one.name: (one.default, one.text) for one in describe_parameters(DescribedMetric)}
    discount = describe(find_metric("nDCG")).parameters["discount"]
    assert described == {
        "power": ("", "Exponent of the value, with a note: from 0 up."),
        "discount": ("1", f"{discount} Here, it has no effect."),
        "other": ("1", "As in nDCG. Here, it has no effect."),  # nDCG has no such parameter
        "unknown": ('"x"', "As in Unknown."),
        "free": ("None", ""),
    }
    (power,) = describe_parameters(DerivedMetric)
    assert (power.default, power.text) == ("2", described["power"][1])


def test_unknown_latex_commands_are_found():
    assert "\\" in latex_to_mathml(r"\unknown{x}")
    assert "\\" not in latex_to_mathml(r"\frac{|L_u \cap R_u|}{k}")


def test_pages_show_aliases():
    assert "\nAlso known as: HR, Hit, hits, Success, hit ratio.\n" in PAGES["metrics/HitRate.md"]
    assert "\nSearch terms: AUROC, ROC AUC.\n" in PAGES["metrics/AUC.md"]
    both = "\nAlso known as: MPR, percentile ranking. Search terms: MR, average rank, rank.\n"
    assert both in PAGES["metrics/PercentileRank.md"]
    assert "known as" not in PAGES["metrics/Judged.md"]


def test_pages_name_the_parameters_in_which_tools_differ():
    rows = [
        ToolDefinition("weft", "ILD(distance=category)@5"),  # the default is the cosine
        ToolDefinition("one", "ILD(distance=category, users=evaluated)@5"),
        ToolDefinition("two", "ILD(distance=jaccard, users=evaluated)@5"),
        ToolDefinition("three", "", reason="it has another definition"),
    ]
    assert differing_parameters(rows) == {
        "distance": {"category": ["one"], "jaccard": ["two"]},
        "users": {"evaluated": ["one", "two"]},
    }
    page = PAGES["metrics/MAP.md"]
    assert "`normalizer=hits` in torchmetrics; `normalizer=list` in lenskit." in page
    assert "Unless they are excluded, the tools use" in PAGES["metrics/HitRate.md"]
    assert "define it differently." in PAGES["metrics/LAUC.md"]
    assert "utopia_points=[1, 1]` in" not in PAGES["metrics/EucDistance.md"]  # of the example


def test_tools_keep_their_parameters_on_the_example():
    assert "`distance=jaccard` in recpack" in PAGES["metrics/ILD.md"]
    assert "| `recpack` | `ILD(distance=jaccard, users=evaluated)@5` |" in PAGES["metrics/ILD.md"]
    row = next(row for row in PAGES["metrics/ERR.md"].splitlines() if "`ir_measures` |" in row)
    assert "max_grade=4.0" in row
    assert row.endswith("| error |")  # of ratings up to 5


def test_metrics_of_given_metrics_need_their_inputs():
    assert "| needs | the inputs of its metrics |" in PAGES["metrics/Hypervolume.md"]
    assert "| needs | scores and truth only |" in PAGES["metrics/F1.md"]


def test_references_are_linked():
    assert (
        "[doi 10.1145/345508.345543](https://doi.org/10.1145/345508.345543)"
        in (PAGES["metrics/MAP.md"])
    )
    assert "(https://doi.org/10.1002/%28SICI%291097" in PAGES["metrics/NDPM.md"]
    assert "(https://doi.org/10.1007/s10791-011-9167-7); Clarke" in PAGES["metrics/ERR_IA.md"]


def test_links_are_not_broken():
    docs = ROOT / "docs"
    documents = [*ROOT.glob("*.md"), *docs.rglob("*.md"), *docs.glob("gallery/*.ipynb")]
    assert len(documents) > 45
    for document in documents:
        for target in re.findall(
            r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")
        ):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), (
                    f"{document.relative_to(ROOT)} links to {target}"
                )


YAML_BLOCKS = [
    pytest.param(block, id=f"{document.name}-{number}")
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    for number, block in enumerate(
        re.findall(r"^```yaml\n(.*?)^```", document.read_text(encoding="utf-8"), re.M | re.S),
        start=1,
    )
    if "runs-on:" not in block  # a workflow of a CI server
]


@pytest.mark.parametrize("block", YAML_BLOCKS)
def test_yaml_blocks_load(block, tmp_path):
    """In a folder with all the files that it names."""
    for path in paths_in(YAML(typ="safe").load(block)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "my_metrics.py").write_text(
        "import weft\n@weft.register\nclass FirstHalf(weft.UserAverageTopKMetric):\n    "
        "higher_is_better = True\n"
    )
    (tmp_path / "block.yaml").write_text(block, encoding="utf-8")
    before = dict(registry._classes)
    try:
        configuration = load(tmp_path / "block.yaml")
    finally:
        registry._classes.clear()
        registry._classes.update(before)
        registry.canonical_name.cache_clear()
    assert configuration.evaluation.all_metrics


def paths_in(document):
    data = dict(document.get("data", {}))
    inputs = data.pop("inputs", {})
    for section in (data, inputs, document.get("models", {})):
        for file in section.values():
            yield (
                file.get("path", file.get("recommendation_file"))
                if isinstance(file, dict)
                else file
            )
    evaluation = document.get("evaluation", {})
    slices = {**evaluation.get("slices", {}), **evaluation.get("item_slices", {})}
    for groups in slices.values():
        file = groups.get("of", groups.get("path")) if isinstance(groups, dict) else groups
        file = split_column(file)[0]
        if file.endswith(".csv"):
            yield file
    if "reader" in document:
        yield from (
            f"{document['reader']['split']['local_path']}/{part}.tsv" for part in ("train", "test")
        )


def test_there_are_yaml_blocks():
    assert len(YAML_BLOCKS) >= 8


def test_definitions_of_tools_differ_as_documented():
    """The four lists of the docs under each tool's definition; worked out by hand in the README and
    in test_pitfalls.
    """
    by_tool = {row.tool: row for row in compare_definitions(find_metric("MAP"))}
    assert {
        tool: by_tool[tool].binary for tool in ("weft", "trec_eval", "torchmetrics", "rectools")
    } == {
        "weft": "0.4258",
        "trec_eval": "0.3833",
        "torchmetrics": "0.5639",
        "rectools": "0.3833",
    }
    values = [by_tool[tool].binary for tool in ("weft", "trec_eval", "torchmetrics")]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "MAP@5 is {}, {} or {}, depending".format(*values) in readme
    assert set(by_tool) <= {"weft", *PROFILES} and "mean of Precision@1" in by_tool["elliot"].reason
    assert LISTS.keys() == LIKED.keys() == RATED.keys()


NOTEBOOKS = sorted((ROOT / "docs" / "gallery").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_have_no_outputs_and_describe_their_pictures(path):
    """The build of the site executes them; stored outputs could be of an earlier version."""
    notebook = json.loads(path.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells and all(not cell["outputs"] for cell in cells)
    # Shell commands in cells are no Python: a build that does not execute them would warn.
    assert notebook["metadata"]["language_info"]["pygments_lexer"] == "ipython3"
    drawn = [cell for cell in cells if ".plot(" in "".join(cell["source"])]
    assert drawn or "alt.Chart(" in path.read_text()
    assert all(cell["metadata"]["mystnb"]["image"]["alt"] for cell in drawn)


def test_the_gallery_lists_its_notebooks():
    index = (ROOT / "docs" / "gallery" / "index.md").read_text()
    assert len(NOTEBOOKS) >= 6
    assert all(f"({path.name})" in index and f"\n{path.stem}\n" in index for path in NOTEBOOKS)
