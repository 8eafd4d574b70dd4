"""`weft.table`: one table of several models in every language; LaTeX and typst are compiled."""

import html.parser
import json
import math
import os
import re
import shutil
import statistics
import subprocess

import numpy as np
import polars as pl
import pytest
import typst

import weft
from weft.errors import SettingError
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result

USERS, ITEMS = 80, 40
HOSTILE = [
    r"a_b & 50% #1 $x$ {y} ~ ^ \ <b>|",
    "naïve – “Übermaß” [x] *y* `z` @me",
    "= head / // comment 'q' \"r\" 1. + - text",
    '\\input{secret} #read("/etc/hosts") <script>alert(1)</script>',
]
FORMS = ("markdown", "latex", "html", "typst")


def evaluate(name, boost, seed=0, **more):
    generator = np.random.default_rng(seed)
    truth = {user: [user % ITEMS, (7 * user + 3) % ITEMS] for user in range(USERS)}
    scores = generator.random((USERS, ITEMS))
    for user, items in truth.items():
        scores[user, items] += boost
    metrics = ["nDCG", "Gini", "MRR", "ItemCoverage", "AUC"]
    return weft.evaluate(
        scores, truth, metrics=metrics, top_k=[5, 10], per_user=True, name=name, **more
    )


@pytest.fixture(scope="module")
def results():
    return [evaluate("pop", 0.0), evaluate("als", 0.3, 1), evaluate("worse", -0.1, 2)]


@pytest.fixture(scope="module")
def comparison(results):
    return weft.compare(results)


def read_cells(text):
    """Return the cells of a pipe table, row by row."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [rows[0], *rows[2:]]


def by_hand(*values, metric="nDCG", k=10, up=True, names="abcdefgh"):
    return [
        Result((MetricValue(metric, k, value, higher_is_better=up),), name)
        for name, value in zip(names, values)
    ]


# --------------------------------------------------------------------------------------------------


def test_best_is_bold_and_second_is_underlined():
    cells = read_cells(weft.table(by_hand(0.1, 0.3, 0.2, 0.3)).to_markdown())
    assert cells[0] == ["model", "nDCG@10 ↑"]
    assert [row[1] for row in cells[1:]] == [
        "0.1000",
        "**0.3000**",
        "<ins>0.2000</ins>",
        "**0.3000**",
    ]
    lower = read_cells(weft.table(by_hand(0.1, 0.3, 0.2, metric="Gini", up=False)).to_markdown())
    assert [row[1] for row in lower] == ["Gini@10 ↓", "**0.1000**", "0.3000", "<ins>0.2000</ins>"]


def test_two_models_have_no_second_best_and_equal_ones_no_best():
    text = weft.table(by_hand(0.1, 0.2)).to_markdown()
    assert "<ins>" not in text and "**0.2000**" in text and "underlined" not in text
    assert "**" not in weft.table(by_hand(0.2, 0.2, 0.2)).to_markdown()
    undirected = weft.table(by_hand(0.1, 0.2, 0.3, up=None)).to_markdown()
    assert "**" not in undirected and "| nDCG@10 |" in undirected


def test_undefined_and_missing_values():
    other = Result((MetricValue("MRR", 10, 0.5, higher_is_better=True),), "other")
    results = [*by_hand(0.1, math.nan, 0.2), other]
    rows = {row[0]: row[1:] for row in read_cells(weft.table(results).to_markdown())}
    assert rows["a"] == ["0.1000", "-"] and rows["b"] == ["undefined", "-"]
    assert rows["c"] == ["**0.2000**", "-"] and rows["other"] == ["-", "0.5000"]


def test_any_mix_of_metrics_in_any_spelling(results, comparison):
    chosen = ["ndcg@10", "Gini@5", "auc", "ItemCoverage@10"]
    for given in (results, comparison, {result.name: result for result in results}):
        table = weft.table(given, chosen, rows="models")
        head, *rows = read_cells(table.to_markdown())
        assert head == ["model", "nDCG@10 ↑", "Gini@5 ↓", "AUC ↑", "ItemCoverage@10 ↑"]
        for row, result in zip(rows, results, strict=True):
            for cell, name in zip(row[1:], chosen):
                assert f"{result[name]:.4f}" in cell
    with pytest.raises(SettingError, match=r"'MAP@7', which no result has; they have: nDCG@5"):
        weft.table(results, ["MAP@7"])


def test_all_metrics_by_default_and_those_compared(results, comparison):
    assert {row.name for row in weft.table(results).metric_rows} == set(results[0])
    assert [row.name for row in weft.table(comparison).metric_rows] == list(comparison.means)


def test_digits_and_per_cent(results):
    names = ["nDCG@10", "Gini@10", "ItemCoverage@10"]
    table = weft.table(results, names, percent=True, spread="none", rows="metrics")
    rows = read_cells(table.to_markdown())[1:]
    assert [row[0] for row in rows] == ["nDCG@10 (%) ↑", "Gini@10 (%) ↓", "ItemCoverage@10 ↑"]
    assert rows[0][1].strip("*<ins>/") == f"{100 * results[0]['nDCG@10']:.2f}"
    assert f"{results[0]['ItemCoverage@10']:.2f}" in rows[2][1]
    plain = weft.table(results, "nDCG@10", digits=1, arrows=False, spread="none")
    assert read_cells(plain.to_markdown())[0] == ["model", "nDCG@10"]
    assert read_cells(plain.to_markdown())[1][1].strip("<ins>/*") in ("0.0", "0.1", "0.2")
    bounded = weft.table(results, "nDCG@10", percent=True).to_markdown()
    half = 100 * 1.959964 * results[1].entry("nDCG@10").std_error
    assert f"± {half:.2f}" in bounded


def test_spreads(results):
    entry = results[1].entry("nDCG@10")
    shown = {
        spread: weft.table(results, "nDCG@10", spread=spread).to_markdown()
        for spread in ("auto", "interval", "std_error", "none")
    }
    assert shown["auto"] == shown["interval"]
    assert f"± {1.959964 * entry.std_error:.4f}" in shown["interval"]
    assert f"± {entry.std_error:.4f}" in shown["std_error"] and "±" not in shown["none"]
    assert "95% intervals over users" in shown["interval"]


def test_runs_show_mean_and_standard_deviation(results):
    runs = {"als": [evaluate("als", 0.3, seed) for seed in (1, 5, 9)], "pop": [results[0]]}
    table = weft.table(runs, ["nDCG@10", "Gini@10"], rows="models")
    for column, name in enumerate(("nDCG@10", "Gini@10"), start=1):
        values = [result[name] for result in runs["als"]]
        mean, std = statistics.fmean(values), statistics.stdev(values)
        cell = read_cells(table.to_markdown())[1][column]
        assert f"{mean:.4f}" in cell and cell.endswith(f"± {std:.4f}")
    assert "±" not in read_cells(table.to_markdown())[2][1]
    assert "standard deviations over runs" in table.to_markdown()
    frame = table.to_frame()
    assert frame["run"].to_list() == [0, 0, 1, 1, 2, 2, 0, 0] and len(frame) == 8
    assert frame.filter(model="als", metric="nDCG")["value"].to_list() == [
        result["nDCG@10"] for result in runs["als"]
    ]
    with pytest.raises(SettingError, match="over the users of one run"):
        weft.table(runs, spread="interval")


def test_daggers_against_a_baseline(results, comparison):
    table = weft.table(comparison, baseline="pop", rows="models")
    head, *rows = read_cells(table.to_markdown())
    by_model = {row[0]: dict(zip(head, row)) for row in rows}
    significant = 0
    for row in comparison.rows:
        if "pop" not in (row["model_a"], row["model_b"]):
            continue
        other = row["model_b"] if row["model_a"] == "pop" else row["model_a"]
        name = f"{row['metric']}@{row['k']} ↑"
        expected = ""
        if row["significant"]:
            expected = "†" if results[0][name[:-2]] < comparison.means[name[:-2]][other] else "‡"
            significant += 1
        found = [mark for mark in "†‡" if mark in by_model[other][name]]
        assert found == list(expected)
    assert significant > 1 and not re.search("[†‡]", "".join(by_model["pop"].values()))
    assert "† significantly better than pop, ‡ worse" in table.to_markdown()
    assert comparison.caption("paired_t").replace("_", "\\_") in table.to_markdown()


def test_metrics_without_a_test_are_named_beside_the_marks(comparison):
    """Gini has no value per user; without a mark it would read as not significant."""
    text = weft.table(comparison, ["nDCG@10", "Gini@10"], baseline="pop").to_markdown()
    assert "‡ worse; not tested: Gini@10" in text
    assert "not tested" not in weft.table(comparison, ["nDCG@10"], baseline="pop").to_markdown()


def test_letters_without_a_baseline(comparison):
    letters = comparison.letters("paired_t")["nDCG@10"]
    cells = read_cells(weft.table(comparison, "nDCG@10").to_markdown())[1:]
    assert {row[0]: row[1].split()[-1] for row in cells} == letters
    assert set("".join(letters.values())) > {"a"}


def test_each_metric_has_the_first_test_that_it_was_tested_by():
    results = [evaluate(name, boost, bootstrap=200) for name, boost in (("a", 0.0), ("b", 0.4))]
    compared = weft.compare(results)
    assert compared.tests == ("paired_t", "bootstrap")
    table = weft.table(compared, ["nDCG@10", "Gini@10"])
    assert table.tests["nDCG@10"] == "paired_t" and table.tests["Gini@10"] == "bootstrap"
    assert all(compared.caption(test) in table.to_html() for test in compared.tests)
    only = weft.table(compared, test="bootstrap")
    assert "Gini@10" in only.tests and "nDCG@10" not in only.tests
    assert [row.name for row in only.metric_rows] == list(only.tests)
    assert compared.to_markdown().count("\n| ---") == 2


def test_given_marks_replace_those_of_a_comparison(results, comparison):
    for given in (results, comparison):
        marked = weft.table(
            given, "nDCG@10", marks={"nDCG@10": {"als": "§"}}, spread="none", notes=["§ mine"]
        )
        cells = read_cells(marked.to_markdown())[1:]
        assert [row[1].endswith(" §") for row in cells] == [False, True, False]
        assert "§ mine." in marked.to_markdown() and "letter" not in marked.to_markdown()


def test_relative_change(results):
    table = weft.table(results, ["nDCG@10"], baseline="pop", improvement=True, spread="none")
    base, better, worse = (result["nDCG@10"] for result in results)
    cells = [row[1] for row in read_cells(table.to_markdown())[1:]]
    assert "%" not in cells[0] and cells[1].endswith(f"(+{100 * (better / base - 1):.1f}%)")
    assert cells[2].endswith(f"({100 * (worse / base - 1):+.1f}%)".replace("-", "−"))
    assert "change relative to pop" in table.to_markdown()
    zero = weft.table(by_hand(0.0, 0.2), baseline="a", improvement=True).to_markdown()
    assert "%)" not in zero


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"improvement": True}, "baseline="),
        ({"baseline": "other"}, "'pop', 'als', 'worse'"),
        ({"test": "paired_t"}, "weft.compare"),
        ({"spread": "sd"}, "spread='sd' is not known"),
        ({"rows": "users"}, "rows='users' is not known"),
        ({"digits": -1}, "digits"),
        ({"percent": 1}, "percent"),
    ],
)
def test_wrong_options(results, options, says):
    with pytest.raises(SettingError, match=re.escape(says)):
        weft.table(results, **options)


@pytest.mark.parametrize("given", [[], {}, {"a": []}, [1], "a", {"a": [0.5]}])
def test_wrong_results(given):
    with pytest.raises(SettingError, match="result"):
        weft.table(given)


def test_frames_of_ten_models():
    results = by_hand(*(number / 10 for number in range(10)), names="abcdefghij")
    frame = weft.table(results).to_frame()
    assert frame["model"].to_list() == list("abcdefghij") and len(weft.table(results).models) == 10
    assert frame.columns[:4] == ["model", "metric", "k", "value"]
    assert weft.table(results).to_pandas()["value"].to_list() == frame["value"].to_list()
    assert pl.read_csv(weft.table(results).to_csv().encode())["value"].to_list() == [
        *frame["value"]
    ]
    assert weft.table([results[0], results[0]]).models == ["a", "a (2)"]
    assert weft.table(results[0]).models == ["a"]


def test_representations(results, comparison):
    table = weft.table(results)
    assert repr(table) == table.to_markdown() and table._repr_html_() == table.to_html()
    assert "<table" in comparison._repr_html_() and "nDCG@10" in comparison._repr_html_()
    assert comparison.to_latex() == weft.table(comparison).to_latex()
    first, second = list(comparison.results)[:2]
    assert f"\n{first} - {second}\n" in repr(comparison)


# --------------------------------------------------------------------------------------------------


def hostile_table(**options):
    results = [
        Result(
            (
                MetricValue("nDCG", 10, 0.1 * place, 0.01, 9, True),
                MetricValue("Bias_#%&", 5, -0.2, cell=("F|M", "[Sci]_Fi$")),
            ),
            name,
        )
        for place, name in enumerate(HOSTILE)
    ]
    return weft.table(results, baseline=HOSTILE[1], improvement=True, **options)


TAGS = {*"biup", "table", "caption", "thead", "tbody", "tr", "th", "td", "sup"}


class Reader(html.parser.HTMLParser):
    """The tags and the text of the cells of an HTML table."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self._in_cell = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")
            self._in_cell = True

    def handle_endtag(self, tag):
        self._in_cell &= tag not in ("td", "th")

    def handle_data(self, data):
        if self._in_cell:
            self.cells[-1] += data


def test_html_has_the_names_as_text_and_lines_that_word_keeps():
    for rows in ("models", "metrics"):
        text = hostile_table(rows=rows).to_html(caption="<i>mine</i>", label='a"b')
        reader = Reader(text)
        assert set(reader.tags) <= TAGS
        assert set(HOSTILE) <= set(reader.cells) and "<caption><i>mine</i></caption>" in text
        assert 'id="a&quot;b"' in text
    styles = re.findall(r'<t[hd] style="([^"]*)"', text)
    assert len(styles) == len(reader.cells)
    assert all("border-bottom" in style for style in styles[:3] + styles[-3:])


@pytest.mark.parametrize("rows", ["models", "metrics"])
@pytest.mark.parametrize("caption", [None, "Models on _two_ metrics, $k = 10$"])
def test_typst_compiles(rows, caption):
    label = None if caption is None else "tab:all"
    text = hostile_table(rows=rows).to_typst(caption=caption, label=label)
    reference = "" if caption is None else "See @tab:all.\n"
    document = f"#set page(width: 60cm, height: auto)\n{reference}{text}"
    pdf = typst.compile(document.encode())
    assert pdf.startswith(b"%PDF")
    assert text.count("table.hline") == 3


def test_typst_prints_the_names():
    for name in HOSTILE:
        text = weft.table(by_hand(0.1, names=[name])).to_typst(caption="x")
        cell = re.search(r"\n    \[(.*?)\], \[0", text)[1]
        found = typst.query(f"#metadata([{cell}]) <m>".encode(), "<m>", field="value")
        assert name == _typst_text(found)


def _typst_text(found):
    """Return the text of the content that typst's query prints as JSON."""

    def walk(node):
        if isinstance(node, list):
            return "".join(map(walk, node))
        if isinstance(node, dict):
            if node.get("func") == "space":
                return " "
            return "".join(walk(node[key]) for key in ("text", "children", "body") if key in node)
        return node if isinstance(node, str) else ""

    return walk(json.loads(found))


def require_tex():
    if shutil.which("pdflatex") is None:
        if os.environ.get("WEFT_REQUIRE_TEX"):
            pytest.fail("WEFT_REQUIRE_TEX is set, but there is no pdflatex")
        pytest.skip(
            "there is no pdflatex; install texlive-latex-base, or set WEFT_REQUIRE_TEX to fail"
        )


@pytest.mark.slow
def test_latex_compiles(tmp_path, comparison):
    require_tex()
    tables = [
        hostile_table(rows="models", percent=True).to_latex(),
        hostile_table(rows="metrics").to_latex(caption=r"On \emph{two} metrics", label="tab:all"),
        weft.table(comparison, baseline="pop", improvement=True).to_latex(),
        comparison.to_latex(pairs=True),
        weft.table({"a": [evaluate("a", 0.1), evaluate("a", 0.2)]}).to_latex(),
    ]
    document = "\n\n".join(
        [
            r"\documentclass{article}\usepackage{booktabs}\begin{document}",
            r"See Table~\ref{tab:all}.",
            *tables,
            r"\end{document}",
        ]
    )
    (tmp_path / "paper.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
    done = subprocess.run(
        [*command, "paper.tex"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 1000
    log = (tmp_path / "paper.log").read_text(encoding="latin-1")
    assert "Missing character" not in log and "secret" not in re.findall(r"\(\./(\S+)", log)


@pytest.mark.parametrize("form", FORMS)
def test_every_language_has_every_number(results, form):
    text = weft.table(results).render(form).replace("\\.", ".")
    for result in results:
        for value in result.values():
            assert f"{value:.4f}" in text
