"""The page of the report in a browser."""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
import re
import sys
from importlib import resources
from pathlib import Path

import altair as alt
import axe_playwright_python
import polars as pl
import pytest
import torch

import weft
from page_browser import launched, opened
from weft.errors import MissingExtra
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result
from weft.metrics.registry import all_metrics, needs_cutoff
from weft.report.charts import KINDS, Figure
from weft.report.context import ReportContext
from weft.report.html import page as report
from weft.statistics.markup import escape_latex, escape_markdown, latex_table, markdown_table

EVIL = "<script>alert(1)</script>"
ODD = [
    "",
    "a,b",
    'say "hi"',
    "x | y [z]",
    "50 % & $ _ # { } ~ ^ \\",
    "日本 ✓",
    "-1",
    "end\u2028line",
    EVIL,
    "A" * 90,
]


def value(metric, k, number, error=0.01, **more):
    return MetricValue(metric, k, number, error, 100, **({"higher_is_better": True} | more))


def result(name, shift=0.0, notes=()):
    """A model with values of every kind; the more `shift`, the better."""
    values = (
        value("nDCG", 5, 0.2 + shift),
        value("nDCG", 10, 0.3 + shift),
        value("Recall", 5, math.nan if shift > 0.15 else 0.1 + 2 * shift),
        value("Recall", 10, 0.15 + 2 * shift),
        value("GAUC", None, 0.8 - shift, bca_low=0.7, bca_high=0.9),
        value("Gini", 10, 0.9 - shift, math.nan, higher_is_better=False),
        value("ItemCoverage", 10, 50.0 + 100 * shift, math.nan),
        value("Custom", 10, shift, math.nan, higher_is_better=None, target=0.1),
        value("BiasDisparityBD", 10, shift, math.nan, higher_is_better=None, cell=("F", "Drama")),
        value(
            "BiasDisparityBD", 10, -shift, math.nan, higher_is_better=None, cell=(EVIL, "Dra,ma")
        ),
    )
    return Result(values, name, {"users": 100, "evaluated_users": 100, "items": 60}, tuple(notes))


def subject(*names):
    return ReportContext({name: result(name, 0.1 * at) for at, name in enumerate(names)})


def chart_figure(rows, **looks):
    """A chart with a choice, as the report has them."""
    table = pl.DataFrame(rows)
    choice = alt.param(
        name="metric_choice",
        value=rows[0]["metric"],
        bind=alt.binding_select(options=["nDCG", "Recall"], name="Metric "),
    )
    chart = (
        alt.Chart(table)
        .mark_bar(height=12)
        .encode(x="value:Q", y="model:N", tooltip=["model:N", "value:Q"])
        .transform_filter("datum.metric === metric_choice")
        .add_params(choice)
        .properties(width="container", height=200, **looks)
    )
    texts = {("nDCG",): "The longest bar is the best.", ("Recall",): "One has no bar."}
    return Figure(
        "bars", "A bar for each model", "The longest bar is the best.", chart, table, texts
    )


ROWS = [
    {"model": model, "metric": metric, "value": number}
    for metric, numbers in {"nDCG": (0.1, 0.25, 0.2), "Recall": (0.5, None, 0.7)}.items()
    for model, number in zip(("one", EVIL, "-1"), numbers)
]


@pytest.fixture(scope="module")
def browser():
    with launched() as browser:
        yield browser


@pytest.fixture
def show(browser, tmp_path):
    """Opens the page of a subject."""

    def show(about, **options):
        file = report.write(report.render(about), tmp_path / "report.html")
        return opened(browser, file, **options)

    return show


@pytest.fixture
def own_charts(monkeypatch):
    monkeypatch.setattr(
        report,
        "figures",
        lambda subject: [chart_figure(ROWS), chart_figure(ROWS[:3], title="again")],
    )


def texts(page, selector):
    return page.locator(selector).all_inner_texts()


def column(page, at, table="#table-0"):
    """The values of a column from top to bottom, without rows that are hidden."""
    cells = texts(page, f"{table} tbody tr:not(.family):not([hidden]) > :nth-child({at + 1})")
    return [re.split(r"[\s↑↓→±[]", text.replace("★\nbest:\n", ""))[0] for text in cells]


# --------------------------------------------------------------------------------------------------


def test_policy_names_every_script_and_style():
    text = report.render(subject("one", "two"))
    policy = (
        re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
        .group(1)
        .replace("&#39;", "'")
    )
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    assert all(
        re.fullmatch(r"'sha256-[\w+/=]{44}'( 'sha256-[\w+/=]{44}')*", rules[kind])
        for kind in ("script-src", "style-src")
    )
    assert len(rules) == 6
    assert not re.search(
        r"""\s(style|on\w+)=["']""", text.partition("<body>")[2].partition("<script")[0]
    )


def test_title_is_escaped():
    assert "<title>&lt;b&gt;</title>" in report.render(subject("one"), title="<b>")
    assert "<title>Comparison of one, two and (unnamed)</title>" in report.render(
        subject("one", "two", "")
    )
    assert "<title>Evaluation of one</title>" in report.render(subject("one"))
    assert "<title>Comparison of 6 models</title>" in report.render(subject(*"abcdef"))


def test_assets_are_in_the_package():
    assets = resources.files("weft.report.html").joinpath("assets")
    assert {"page.html.jinja", "page.css", "page.js"} <= {asset.name for asset in assets.iterdir()}


@pytest.mark.parametrize("package", ["altair", "jinja2", "vl_convert"])
def test_missing_extra(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "weft.report.html.page")
    with pytest.raises(MissingExtra, match=re.escape("pip install 'weft[report]'")):
        importlib.import_module("weft.report.html.page")


def test_digits_follow_the_numbers():
    def shown(*numbers, error=math.nan):
        results = {
            str(at): Result((value("nDCG", 10, number, error),), str(at))
            for at, number in enumerate(numbers)
        }
        body = (
            report.render(ReportContext(results)).partition("<tbody>")[2].partition("</tbody>")[0]
        )
        return re.findall(r"<td[^>]*>(?:<b>.*?</span>.*?</span>)?([^<]+)", body)

    assert shown(0.12345678, 0.5) == ["0.1235", "0.5000"]
    assert shown(364.28, 12.0) == ["364.3", "12.0"]
    assert shown(55.0, 183.0) == ["55", "183"]
    assert shown(0.000123456, 0.00001) == ["0.00012", "0.00001"]
    assert shown(math.inf, math.nan, 0.0) == ["inf", "undefined", "0.0000"]


def test_data_of_charts_is_shared_and_complete(own_charts):
    text = report.render(subject("one", "two"))
    datasets = re.findall(r'class="dataset"[^>]*>([^<]+)<', text)
    values = [json.loads(data)["columns"][2]["of"] for data in datasets]
    assert values == [[0.1, 0.25, 0.2, 0.5, None, 0.7], [0.1, 0.25, 0.2]]
    alt.data_transformers.enable(
        "default", max_rows=1
    )  # what somebody set for their notebook does not matter
    try:
        assert report.render(subject("one", "two")) == text
    finally:
        alt.data_transformers.enable("default")


# --------------------------------------------------------------------------------------------------


def test_metrics_are_rows_and_sort_within_families(show):
    with show(subject("one", "two", "three")) as page:
        assert texts(page, "#table-0 thead th") == ["metric", "one", "two", "three"]
        assert texts(page, "#table-0 .family") == ["Accuracy", "Diversity", "Coverage", "Other"]
        names = column(page, 0)
        assert names == ["nDCG@5", "nDCG@10", "Recall@5", "Recall@10", "GAUC", *names[5:]]
        head = page.locator("#table-0 thead button").nth(3)
        head.click()
        assert column(page, 3)[:5] == ["0.4000", "0.5000", "0.5500", "0.6000", "undefined"]
        assert page.locator("#table-0 th[aria-sort]").get_attribute("aria-sort") == "ascending"
        ascending = column(page, 0)[:5]
        head.press("Enter")
        assert page.locator("#table-0 th[aria-sort]").get_attribute("aria-sort") == "descending"
        descending = column(page, 0)[:5]
        assert ascending[-1] == descending[-1] == "Recall@5"  # undefined is last, both ways
        assert ascending[:4] == descending[3::-1]
        head.press("Enter")
        assert column(page, 0) == names and page.locator("th[aria-sort]").count() == 0
        page.locator("#table-0 thead button").first.click()
        assert column(page, 0)[:5] == ["GAUC", "nDCG@5", "nDCG@10", "Recall@5", "Recall@10"]


def test_best_values_and_directions(show):
    with show(subject("one", "two", "three")) as page:
        rows = page.locator("#table-0 tbody tr:not(.family)").all()
        best = {
            row.locator(".name").inner_text(): row.locator("b").all_inner_texts() for row in rows
        }
        assert all(len(cells) == 1 for cells in best.values())
        assert best["Gini@10"] == ["★\nbest:\n0.7000"]
        assert best["Custom@10"] == ["★\nbest:\n0.1000"]  # closest to its target
        directions = page.locator("#table-0 .direction").evaluate_all(
            "found => found.map((one) => one.title)"
        )
        assert set(directions) == {"higher is better", "lower is better", "closer to 0.1 is better"}


def test_filter_by_cutoff(show):
    with show(subject("one", "two")) as page:
        page.get_by_role("radio", name="5", exact=True).check()
        assert column(page, 0) == ["nDCG@5", "Recall@5", "GAUC"]
        assert page.locator("#table-0 .family:visible").count() == 1
        page.get_by_role("radio", name="all").check()
        assert len(column(page, 0)) == 8


@pytest.mark.slow
def test_many_models_are_rows_in_one_order(show):
    with show(subject(*"abcdefg")) as page:
        assert page.locator("#tables table").count() > 1
        for cutoff in ("5", "10"):
            page.get_by_role("radio", name=cutoff, exact=True).check()
            assert page.locator("#tables td.bar:visible").count() >= 7  # where intervals lie
        page.get_by_role("radio", name="all").check()
        first, *_, last = page.locator("#tables table").evaluate_all(
            "tables => tables.map((table) => '#' + table.id)"
        )
        page.locator(f"{first} thead button").nth(1).click()
        page.locator(f"{first} thead button").nth(1).click()
        assert column(page, 0, first) == column(page, 0, last) == list("gfedcba")
        undefined = texts(page, "#tables td.none")
        assert undefined and set(undefined) == {"undefined"}
        page.get_by_role("radio", name="5", exact=True).check()
        assert texts(page, "#tables caption:visible") == ["Accuracy at 5", "Accuracy"]


def test_wide_tables_say_that_they_scroll(show):
    """At 400 pixels a table with three models is cut; at 1280 it fills the page."""
    names = ["a rather long model name", "another long model name", "a third long model name"]
    about = subject(*names)
    with show(about, width=400) as page:
        hint = page.locator("#tables .hint")
        assert hint.is_visible() and page.locator("#tables .scroll[data-more]").count() == 1
        page.locator("#tables .scroll").evaluate("one => { one.scrollLeft = 10000; }")
        page.wait_for_function("() => !document.querySelector('.scroll[data-more]')")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
    with show(about) as page:
        assert not page.locator("#tables .hint").is_visible()
        table, body = (
            page.locator(one).bounding_box()["width"] for one in ("#tables table", "main")
        )
        assert table > 0.98 * body


def test_one_model_one_metric(show):
    with show(
        ReportContext(
            {"only": Result((MetricValue("nDCG", 10, 0.5, higher_is_better=True),), "only")}
        )
    ) as page:
        assert column(page, 1) == ["0.5000"]
        assert page.locator(".cutoffs, .bar, #tables b").count() == 0


def test_page_without_values_and_charts(show, monkeypatch):
    monkeypatch.setattr(report, "figures", lambda subject: [])
    with show(
        ReportContext(
            {"only": Result((MetricValue("nDCG", 10, math.nan, higher_is_better=True),), "only")}
        )
    ) as page:
        assert column(page, 1) == ["undefined"]


# --------------------------------------------------------------------------------------------------


def copied(page, form):
    page.evaluate("navigator.clipboard.writeText('')")
    page.get_by_role("button", name=form, exact=True).click()
    page.get_by_role("status").get_by_text("Copied").wait_for()
    return page.evaluate("navigator.clipboard.readText()")


CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}


def test_copies_what_is_shown(show):
    with show(subject("one", 'a, "b"', "x|y_z"), **CLIPBOARD) as page:
        page.get_by_role("radio", name="5", exact=True).check()
        rows = list(csv.reader(io.StringIO(copied(page, "CSV"))))
        assert rows[0] == [
            "metric",
            *(
                f"{name}{more}"
                for name in ("one", 'a, "b"', "x|y_z")
                for more in ("", " low", " high")
            ),
        ]
        assert [row[0] for row in rows[1:]] == ["nDCG@5", "Recall@5", "GAUC"]
        assert rows[2][7:] == ["", "", ""]
        assert list(map(float, rows[1][1:4])) == pytest.approx(
            [0.2, 0.2 - 1.959964 * 0.01, 0.2 + 1.959964 * 0.01], abs=1e-6
        )

        def expected(escape, bold, plus_minus, low, high):
            head = ["metric", "one", 'a, "b"', escape("x|y_z")]
            cells = [
                [f"{number:.4f} {plus_minus} 0.0196" for number in (0.2, 0.3)],
                [f"{number:.4f} {plus_minus} 0.0196" for number in (0.1, 0.3)],
            ]
            interval = f"{low}0.7000, 0.9000{high}"
            return head, [
                ["nDCG@5", *cells[0], bold("0.4000") + f" {plus_minus} 0.0196"],
                ["Recall@5", cells[1][0], bold("0.3000") + f" {plus_minus} 0.0196", "undefined"],
                [
                    "GAUC",
                    bold("0.8000") + f" {interval}",
                    f"0.7000 {interval}",
                    f"0.6000 {interval}",
                ],
            ]

        notes = texts(page, ".legend li")
        markdown = copied(page, "Markdown")
        table = markdown_table(
            *expected(escape_markdown, lambda text: f"**{text}**", "±", r"\[", r"\]")
        )
        assert markdown == table + "".join(f"\n{escape_markdown(note)}.\n" for note in notes)
        latex = copied(page, "LaTeX")
        assert latex == latex_table(
            *expected(escape_latex, lambda text: rf"\textbf{{{text}}}", r"$\pm$", "{[}", "{]}"),
            notes,
        )


def test_csv_of_many_models_is_one_table(show):
    with show(subject(*"abcdef"), **CLIPBOARD) as page:
        page.locator("#table-0 thead button").first.click()
        page.locator("#table-0 thead button").first.click()
        rows = list(csv.DictReader(io.StringIO(copied(page, "CSV"))))
        assert [row["model"] for row in rows] == list("fedcba")
        assert float(rows[0]["Gini@10"]) == pytest.approx(0.4) and float(
            rows[-1]["nDCG@5 low"]
        ) == pytest.approx(0.1804)


@pytest.mark.slow
def test_letters_are_copied(show, compared):
    with show(ReportContext.from_result(compared), **CLIPBOARD) as page:
        assert texts(page, "#table-0 tbody tr[data-k]:nth-child(2) sup")[:3] == ["b", "b", "a"]
        assert "share a letter" in page.locator(".legend").inner_text()
        assert re.search(r"\| \*\*0\.\d{4}\*\* ± 0\.\d{4} a \|", copied(page, "Markdown"))
        assert re.search(
            r"& \\textbf\{0\.\d{4}\} \$\\pm\$ 0\.\d{4}\\textsuperscript\{a\}", copied(page, "LaTeX")
        )
        assert next(csv.DictReader(io.StringIO(copied(page, "CSV"))))["good letters"] == "a"


@pytest.fixture(scope="module")
def compared():
    torch.manual_seed(0)
    truth = (torch.rand(60, 40) < 0.15).float()
    truth[:, 0] = 1
    scores = {
        "bad": torch.rand(60, 40),
        "poor": torch.rand(60, 40),
        "good": torch.rand(60, 40) + truth,
    }
    evaluated = [
        weft.evaluate(
            one,
            truth,
            metrics=["nDCG", "Recall", "ItemCoverage"],
            top_k=[5, 10],
            per_user=True,
            name=name,
        )
        for name, one in scores.items()
    ]
    return weft.compare(evaluated)


def test_copying_without_a_clipboard(show):
    spy = """Object.defineProperty(navigator, 'clipboard', {value: undefined});
             document.addEventListener('copy', () => window.copied = getSelection().toString());"""
    with show(subject("one", "two"), before=spy) as page:
        button = page.get_by_role("button", name="CSV")
        button.click()
        page.get_by_role("status").get_by_text("Copied").wait_for()
        assert page.evaluate("copied").startswith("metric,one,one low,one high,two")
        assert button.evaluate("button => button === document.activeElement")
        page.locator("pre code").first.evaluate("code => (code.textContent = 'a:\\n    b:  c\\n')")
        page.locator("[data-copy-code]").first.click()
        assert page.evaluate("copied") == "a:\n    b:  c\n"


def test_texts_are_escaped_as_elsewhere(show):
    nasty = [
        *ODD,
        "".join(map(chr, range(1, 127))),
        "*a*",
        "[b]",
        "-0.5",
        "- 1",
        "†",
        "\x85\u200b\t x ",
        "é",
    ]
    with show(subject("one")) as page:
        for form, escape in (("markdown", escape_markdown), ("latex", escape_latex)):
            assert page.evaluate(f"texts => texts.map(FORMS.{form}.escape)", nasty) == [
                escape(text) for text in nasty
            ]


# --------------------------------------------------------------------------------------------------


def test_charts_are_drawn_chosen_and_hovered(show, own_charts):
    with show(subject("one", "two")) as page:
        bars = page.locator("#chart-0 .mark-rect.role-mark path")
        assert bars.count() == 3 and page.locator("#chart-1 .mark-rect.role-mark path").count() == 3
        chart = page.locator("#chart-0")
        assert (chart.get_attribute("role"), chart.get_attribute("aria-describedby")) == (
            "img",
            "chart-0-text",
        )
        assert page.get_by_role("img", name="A bar for each model").count() == 2
        before = bars.first.get_attribute("d")
        page.locator("#chart-0-bindings").get_by_label("Metric").select_option("Recall")
        page.wait_for_function(
            "before => document.querySelector('#chart-0 .mark-rect.role-mark "
            "path').getAttribute('d') !== before",
            arg=before,
        )
        assert texts(page, "#chart-0-text") == [
            "One has no bar."
        ]  # what is said goes with what is chosen
        assert texts(page, "#chart-1-text") == ["The longest bar is the best."]
        bars.first.hover()
        page.locator("#vg-tooltip-element.visible").wait_for()
        assert "0.5" in page.locator("#vg-tooltip-element").inner_text()


def test_data_behind_a_chart(show, own_charts):
    with show(subject("one", "two"), **CLIPBOARD) as page:
        details = page.locator("details.data[data-of=chart-0-table]")
        assert details.locator("table").count() == 0
        details.locator("summary").click()
        details.locator("table").wait_for()
        assert details.locator("tbody tr").all_inner_texts()[1].split("\t") == [
            EVIL,
            "nDCG",
            "0.25",
        ]
        details.locator("thead button").nth(2).click()
        assert [text.split("\t")[2] for text in details.locator("tbody tr").all_inner_texts()] == [
            "0.1",
            "0.2",
            "0.25",
            "0.5",
            "0.7",
            "",
        ]
        details.locator("thead button").first.click()
        assert [text.split("\t")[0] for text in details.locator("tbody tr").all_inner_texts()] == [
            "-1"
        ] * 2 + [EVIL] * 2 + ["one"] * 2
        details.get_by_role("button", name="Copy as CSV").click()
        page.get_by_role("status").get_by_text("Copied").wait_for()
        rows = list(csv.reader(io.StringIO(page.evaluate("navigator.clipboard.readText()"))))
        assert rows[1:3] == [["one", "nDCG", "0.1"], [EVIL, "nDCG", "0.25"]]


def test_long_data_are_cut_and_copied_whole(show, monkeypatch):
    rows = [{"model": f"m{at}", "metric": "nDCG", "value": at / 7} for at in range(1500)]
    figure = chart_figure(rows[:5])
    monkeypatch.setattr(
        report,
        "figures",
        lambda subject: [Figure("bars", "t", "x", figure.chart, pl.DataFrame(rows))],
    )
    with show(subject("one"), **CLIPBOARD) as page:
        details = page.locator("details.data[data-of=chart-0-table]")
        details.locator("summary").click()
        details.locator("table").wait_for()
        assert details.locator("tbody tr").count() == 1000
        details.get_by_role("button", name="Copy as CSV").click()
        page.get_by_role("status").get_by_text("Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()").count("\n") == 1501


def test_values_by_label_have_their_own_table(show):
    with show(subject("one", "two")) as page:
        assert not any("BiasDisparityBD" in name for name in column(page, 0))
        details = page.locator("details.data[data-of=labelled]")
        details.locator("summary").click()
        details.locator("table").wait_for()
        rows = [text.split("\t") for text in details.locator("tbody tr").all_inner_texts()]
        assert rows[0] == ["BiasDisparityBD@10[F, Drama]", "0", "0.1"]
        assert (
            rows[1][0].startswith("BiasDisparityBD@10[")
            and EVIL in rows[1][0]
            and rows[1][2] == "-0.1"
        )


@pytest.fixture(scope="module")
def everything():
    """Two models with all that a report can show; names are as odd as they may be."""
    torch.manual_seed(0)
    truth = (torch.rand(80, 40) < 0.15).int()
    results = [
        weft.evaluate(
            torch.rand(80, 40) + weight * truth,
            truth,
            train=(torch.rand(80, 40) < 0.1).int(),
            user_groups={user: [EVIL, "two"][user % 2] for user in range(80)},
            item_clusters={item: ["Dra,ma", EVIL, "x"][item % 3] for item in range(40)},
            slices={
                EVIL: {user: ["a", "b", "c [d]"][user % 3] for user in range(80)},
                "activity": "quantiles(2)",
            },
            metrics=["nDCG", "Recall", "Gini", "EPC", "ARP", "BiasDisparityBD", "BiasDisparityBR"],
            top_k=[5, 10],
            per_user=True,
            name=name,
        )
        for name, weight in {EVIL: 0.2, "better": 0.4}.items()
    ]
    return ReportContext(
        {result.name: result for result in results}, weft.compare(results), ("something is odd",)
    )


LONG_NAMES = [
    f"two_tower_transformer_v2_final_2026-11-01_{size}_negatives" for size in ("large", "small")
]


@pytest.fixture(scope="module")
def long_names():
    """Two models whose names differ only near their ends."""
    torch.manual_seed(0)
    truth = (torch.rand(80, 40) < 0.15).int()
    train = (torch.rand(80, 40) < 0.1).int()
    results = [
        weft.evaluate(
            torch.rand(80, 40) + weight * truth,
            truth,
            train=train,
            slices={"age": {user: ["old", "young"][user % 2] for user in range(80)}},
            metrics=["nDCG", "Gini"],
            top_k=[5, 10],
            per_user=True,
            exposure=True,
            name=name,
        )
        for name, weight in zip(LONG_NAMES, (0.4, 0.2))
    ]
    return ReportContext({one.name: one for one in results}, weft.compare(results))


# Of every text of a chart that is not transparent: its chart, content and place.
CHART_TEXTS = """() => [...document.querySelectorAll('.figure')].flatMap((figure) =>
  [...figure.querySelectorAll('.role-mark text')]
    .filter((text) => text.textContent.trim() && text.getAttribute('opacity') !== '0')
    .map((text) => { const {x, y, width, height} = text.getBoundingClientRect();
      return [figure.dataset.kind, text.textContent, x, y, width, height]; }))"""


def overlapping(texts):
    """Pairs of different texts of a chart that cover each other."""
    found = []
    for at, (kind, text, x, y, width, height) in enumerate(texts):
        for other_kind, other, x2, y2, width2, height2 in texts[:at]:
            covers_x = min(x + width, x2 + width2) - max(x, x2) > 2
            covers_y = min(y + height, y2 + height2) - max(y, y2) > 4
            if kind == other_kind and text != other and covers_x and covers_y:
                found.append((kind, text, other))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
def test_long_names_are_told_apart(show, long_names, width):
    with show(long_names, width=width) as page:
        texts = page.evaluate(CHART_TEXTS)
        for kind in {kind for kind, *_ in texts}:
            own = [text for of_kind, text, *_ in texts if of_kind == kind]
            for size in ("large", "small"):
                assert any(f"{size}_negatives" in text for text in own), (kind, own)
        assert overlapping(texts) == []
        assert all(x >= 0 and x + wide <= width for _, _, x, _, wide, _ in texts)
        for caption in page.locator(".figure .caption").all_inner_texts():
            assert all(name in caption for name in LONG_NAMES)
        page.locator("#chart-0 text", has_text="small_negatives").hover()
        page.locator("#vg-tooltip-element.visible").wait_for()
        assert LONG_NAMES[1] in page.locator("#vg-tooltip-element").inner_text()


def test_colours_and_buttons_have_their_place(show):
    with show(subject(*LONG_NAMES, "A" * 90), width=400) as page:
        # The dot with the colour of a model is on the line on which its name begins.
        tops = page.locator("#table-0 thead .model").evaluate_all(
            """names => names.map((name) => { const range = document.createRange();
                 range.setStart(name.firstChild, 0); range.setEnd(name.firstChild, 1);
                 return [name.getBoundingClientRect().top, range.getBoundingClientRect().top]; })"""
        )
        assert len(tops) == 3 and all(abs(name - letter) < 8 for name, letter in tops)
        for code in page.locator(".code").all():
            button, text = (code.locator(one).bounding_box() for one in ("button", "pre"))
            assert button["y"] + button["height"] <= text["y"]


MARKS = ".role-mark :is(path, text, line)"


@pytest.mark.slow
def test_complete_report(show, everything):
    with show(everything) as page:
        assert [one.get_attribute("data-kind") for one in page.locator(".figure").all()] == list(
            KINDS
        )
        for one in page.locator(".figure").all():
            assert one.locator(MARKS).count()
            for select in one.locator("select").all():
                for option in select.locator("option").all_inner_texts():
                    select.select_option(label=option)
                    page.wait_for_timeout(20)  # for the chart to be drawn again
                    assert one.locator(MARKS).count()
        assert page.get_by_text("There are no values for this selection").count() == 0
        notes = page.locator(".notes").inner_text()
        assert "something is odd" in notes and EVIL in notes
        page.evaluate(
            "document.querySelectorAll('.counts').forEach((details) => (details.open = true))"
        )
        counted = (
            page.locator(".counts tbody tr")
            .filter(has_text="train interactions")
            .locator("td")
            .all_inner_texts()
        )
        assert counted == [
            f"{result.counts['train_interactions']:,}" for result in everything.results.values()
        ]
    with show(everything, bypass_csp=True) as page:
        refuse_barriers(page, ((1280, "dark"), (400, "light")))


def test_failing_charts_show_a_message(browser, tmp_path, own_charts):
    text = report.render(subject("one")).replace('"type":"filter"', '"type":"nonsense"', 1)
    with opened(browser, report.write(text, tmp_path / "report.html"), says="error: ") as page:
        assert "This chart could not be drawn" in page.locator("#chart-0").inner_text()
        assert page.locator("#chart-1 .role-mark path").count() == 3


# --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_does_not_interpret_names(show):
    about = ReportContext(
        {name: result(name, 0.02 * at, [f"{name} is odd"]) for at, name in enumerate(ODD)}
    )
    with show(about) as page:
        assert texts(page, "#table-0 tbody th .name") == [name or "(unnamed)" for name in ODD]
        page.locator("#table-0 thead button").first.click()
        assert page.locator("script").count() == page.locator("head script, body > script").count()
        assert page.get_by_text(f"{EVIL} is odd").count() == 1


AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


TWO_FRAMES = (
    "new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => go(null))))"
)


def refuse_barriers(page, looks):
    """Assert that axe finds no serious barrier and that nothing is wider than the window."""
    page.add_script_tag(content=AXE)
    for width, scheme in looks:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.evaluate(TWO_FRAMES)  # resize observers have run
        found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        bad = [
            (one["id"], [node["html"][:200] for node in one["nodes"]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert bad == [], f"{width} pixels, {scheme}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
@pytest.mark.parametrize("models", [3, 7])
def test_page_is_accessible(show, own_charts, models):
    about = ReportContext(
        {f"model {at}": result(f"model {at}", 0.03 * at, ["a note"]) for at in range(models)}
    )
    with show(about, bypass_csp=True) as page:
        page.evaluate(
            "document.querySelectorAll('details').forEach((details) => (details.open = true))"
        )
        refuse_barriers(
            page,
            ((1280, "light"), (1280, "dark"), (400, "light"))
            if models == 3
            else ((1280, "dark"), (400, "dark")),
        )


def test_print_shows_charts_and_definitions(show, own_charts):
    with show(subject("one", "two")) as page:
        page.evaluate(
            "addEventListener('beforeprint', () => window.open = "
            "document.querySelectorAll('details.definition[open]').length)"
        )
        assert page.locator("details.definition[open]").count() == 0
        assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
        assert page.evaluate("window.open") == page.locator("details.definition").count() > 0
        assert page.locator("details.definition[open]").count() == 0
        page.emulate_media(media="print", color_scheme="dark")
        assert page.locator("nav, .tools, .skip").filter(visible=True).count() == 0
        assert page.locator(".chart svg").first.is_visible()
        assert (
            page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        )


@pytest.mark.slow
def test_many_models_metrics_and_cutoffs(show):
    metrics = [metric for metric in all_metrics() if needs_cutoff(metric)]
    metrics = [*metrics, *metrics][:40]
    torch.manual_seed(0)
    results = {}
    for model in (f"model-{at}" for at in range(30)):
        values = [
            MetricValue(
                metric.__name__ + "B" * (at >= len(set(metrics))),
                k,
                float(torch.rand(())),
                0.01,
                100_000,
                metric.higher_is_better,
                metric.target,
            )
            for at, metric in enumerate(metrics)
            for k in (5, 10, 20, 50, 100)
        ]
        results[model] = Result(tuple(values), model, {"evaluated_users": 100_000, "items": 50_000})
    about = ReportContext(results)
    assert len(report.render(about).encode()) < 3_000_000
    with show(about) as page:
        assert page.evaluate("document.querySelectorAll('*').length") < 60_000
        assert page.get_by_role("radio", name="10", exact=True).is_checked()
        assert page.locator("#tables table:visible").count() < 20
