"""Results as terminal tables, CSV, JSON, Markdown and LaTeX."""

import csv
import io
import json
import math
import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import weft
from weft.errors import InputError
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result
from weft.report.result_folder import file_names, save_results
from weft.report.result_formats import to_csv, to_json, to_markdown
from weft.report.terminal import (
    ASCII,
    UNICODE,
    console_symbols,
    counts_line,
    note_lines,
    paragraph,
    results_tables,
)
from weft.statistics.markup import escape_latex, escape_markdown

NASTY = "a|b_c & 50% [x] {y} #1 $z ~ ^ \\ <b>"


def result(name, ndcg, gini=0.5, **more):
    values = (
        MetricValue("nDCG", 10, ndcg, 0.01, 5, True),
        MetricValue("Gini", 10, gini, higher_is_better=False),
        MetricValue("BiasDisparityBR", 10, 1.0, target=1.0, cell=("F", "Sci|Fi")),
    )
    return Result(values, name, **more)


RESULTS = [result("als", 0.4), result(NASTY, 0.3, -0.25)]


def test_summary_has_a_row_per_model_metric_and_cutoff():
    table = weft.table(RESULTS).to_frame()
    assert table.columns == [
        "model",
        "metric",
        "k",
        "value",
        "std_error",
        "ci_low",
        "ci_high",
        "users",
        "higher_is_better",
    ]
    assert table.height == 6 and table["model"].to_list() == ["als"] * 3 + [NASTY] * 3
    assert table["metric"].to_list()[:3] == ["nDCG", "Gini", "BiasDisparityBR[F, Sci|Fi]"]
    assert table["higher_is_better"].to_list()[:3] == [True, False, None]
    own = RESULTS[0].to_frame()
    assert table.filter(pl.col("model") == "als").select(own.columns).equals(own, null_equal=True)


def test_csv_reads_back():
    rows = list(csv.DictReader(io.StringIO(to_csv([*RESULTS, result("none", math.nan)]))))
    assert [row["model"] for row in rows] == ["als"] * 3 + [NASTY] * 3 + ["none"] * 3
    assert (
        float(rows[0]["value"]) == 0.4
        and float(rows[0]["ci_low"]) == RESULTS[0].entry("nDCG@10").ci_low
    )
    assert (
        math.isnan(float(rows[6]["value"]))
        and rows[1]["users"] == ""
        and rows[2]["higher_is_better"] == ""
    )


def test_json_matches_saved_results(tmp_path):
    got = json.loads(to_json(RESULTS))
    assert got == [json.loads(one.save(tmp_path / "a.json").read_text()) for one in RESULTS]
    assert json.loads(to_json([result("x", math.nan)]))[0]["values"][0]["value"] is None


def cells(line):
    """The cells of a row of a pipe table, unescaped."""
    return [
        re.sub(r"\\(.)", r"\1", cell.strip())
        for cell in re.split(r"(?<!\\)\|", line.replace("\\\\", "\0"))[1:-1]
    ]


def test_markdown_is_a_pipe_table_with_the_best_in_bold():
    head, rule, *rows = to_markdown(RESULTS).splitlines()
    assert cells(head)[:2] == ["metric", "als"] and cells(head)[2].replace("\0", "\\") == NASTY
    assert set(rule) <= set("|-: ") and rule.count("|") == 4
    assert cells(rows[0]) == ["nDCG@10 ↑", "**0.4000** ± 0.0196", "0.3000 ± 0.0196"]
    assert cells(rows[1]) == ["Gini@10 ↓", "0.5000", "**-0.2500**"]
    assert cells(rows[2]) == ["BiasDisparityBR@10[F, Sci|Fi] → 1", "1.0000", "1.0000"]


def test_longer_side_is_the_rows():
    assert to_markdown(RESULTS).startswith("| metric")
    assert to_markdown([result(str(number), number / 10) for number in range(5)]).startswith(
        "| model"
    )
    assert weft.table(RESULTS).to_latex().count("\\\\\n") == 4


def test_latex_is_booktabs_with_escaped_names():
    text = weft.table(RESULTS).to_latex()
    for part in (
        "\\toprule",
        "\\midrule",
        "\\bottomrule",
        "\\begin{tabular}{lrr}",
        "\\end{tabular}",
    ):
        assert text.count(part) == 1
    assert (
        "nDCG@10 $\\uparrow$ & \\textbf{0.4000} $\\pm$ 0.0196 & 0.3000 $\\pm$ 0.0196 \\\\" in text
    )
    assert "Gini@10 $\\downarrow$ & 0.5000 & \\textbf{$-$0.2500} \\\\" in text
    body = [line for line in text.splitlines() if line.endswith("\\\\")]
    assert all(len(re.findall(r"(?<!\\)&", line)) == 2 for line in body)


@given(st.text(max_size=30))
def test_escapes_any_text_in_cells(text):
    latex = escape_latex(text)
    for sign in "&%$#_":
        without_math = re.sub(r"\$(-|\\[a-z]+)\$", "", latex)
        assert not re.search(rf"(?<!\\){re.escape(sign)}", without_math)
    plain = re.sub(r"\\[{}]", "", latex)
    assert (
        plain.count("{") == plain.count("}")
        and "\n" not in latex
        and not latex.startswith(("[", "*"))
    )
    markdown = escape_markdown(text)
    assert "\n" not in markdown and len(cells(f"| {markdown} |")) == 1
    assert not re.search(r"[|*_`<\[]", re.sub(r"\\.", "", markdown))


def test_shows_missing_and_undefined_values():
    other = Result((MetricValue("nDCG", 10, math.nan),), "b")
    for form in ("markdown", "latex", "html", "typst"):
        text = weft.table([result("a", 0.3), other]).render(form)
        assert "undefined" in text and "\\textbf" not in text and "**" not in text


# --------------------------------------------------------------------------------------------------


def test_file_names_are_safe():
    names = [
        "als",
        "../x",
        "a/b",
        "a\\b",
        "A/B",
        "",
        ".",
        "..",
        "con",
        "NUL.txt",
        "é 1",
        "-rf",
        "x" * 300,
        "名" * 300,
        "a\0b",
        "a\nb",
    ]
    safe = file_names(names)
    assert len({name.casefold() for name in safe}) == len(names)
    for name in safe:
        assert (
            re.fullmatch(r"[\w+=@-][\w.+=@-]*", name)
            and len(name.encode()) <= 105
            and not name.startswith(("-", "."))
        )
    assert (
        safe[0] == "als"
        and safe[2] == "a_b"
        and file_names(["v1.2", "als_knn-3"]) == ["v1.2", "als_knn-3"]
    )


def test_writes_the_files_of_a_run_together(tmp_path):
    users = pl.DataFrame({"user": [1, 2], "nDCG@10": [0.1, 0.2]})
    folder = tmp_path / "new" / "folder"
    files = save_results([result("a/b", 0.4, per_user=users), result("pop", 0.3)], folder)
    assert [file.name for file in files] == ["a_b.json", "pop.json", "summary.csv"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "a_b.json",
        "a_b.per_user.parquet",
        "pop.json",
        "summary.csv",
    ]
    loaded = weft.load_result(files[0])
    assert loaded.name == "a/b" and loaded.per_user.equals(users)
    assert (folder / "summary.csv").read_text() == to_csv([result("a/b", 0.4), result("pop", 0.3)])


def test_writes_no_file_if_one_cannot_be_written(tmp_path):
    old = save_results([result("als", 0.1)], tmp_path / "out")[0].read_text()
    (tmp_path / "out" / "pop.json").mkdir()
    with pytest.raises(InputError, match=r"pop.json: cannot be written \(it is a folder\)"):
        save_results([result("als", 0.4), result("pop", 0.3)], tmp_path / "out")
    assert (tmp_path / "out" / "als.json").read_text() == old
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "als.json",
        "pop.json",
        "summary.csv",
    ]


def test_failed_saving_leaves_no_folder(tmp_path):
    class Broken:
        def write_parquet(self, file):
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        save_results(
            [result("als", 0.4), result("pop", 0.3, per_user=Broken())], tmp_path / "new" / "folder"
        )
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------------------------


def printed(results, width):
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    legend, tables = results_tables(results, width)
    console.print(paragraph(legend, width))
    for table in tables:
        console.print(table)
    return console.file.getvalue()


@pytest.mark.parametrize("count", [1, 2, 3, 12])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_tables_fit_the_terminal_with_whole_numbers(count, width):
    """Every number whole, in a line that is not wider than the terminal."""
    long = "F1(metric_name_1=nDCG, metric_name_2=MAP, beta=0.5)"
    results = [
        Result(
            tuple(
                MetricValue(name, k, (1 + place + 7 * at + k) / 1000, 0.001 * (place + 1), 9, True)
                for at, name in enumerate(("nDCG", "Recall", "Precision", long))
                for k in (5, 10)
            ),
            f"model_{place}" if place else "a_model_with_a_name_that_is_long_indeed",
        )
        for place in range(count)
    ]
    text = printed(results, width)
    assert max(map(len, text.splitlines())) <= width
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
    for one in results:
        for value in one.entries:
            assert f"{value.value:.4f}" in text
            if "± and" in text or count == 1:
                assert re.search(rf"{value.value:.4f}[* ] ± {1.959964 * value.std_error:.4f}", text)
    if "widest" in text:  # no room for bars: one interval of each metric
        for name in results[0]:
            assert f"± {1.959964 * max(one.entry(name).std_error for one in results):.4f}" in text
        assert "--format csv" in text
    elif count > 1:
        assert text.count("●") == 8 * count + 1  # and one in the legend
    assert text.count("*") == (9 if count > 1 else 0)


def test_many_models_are_rows():
    results = [result(f"model_{number}", number / 20) for number in range(12)]
    wide, narrow = printed(results, 400), printed(results, 80)
    assert "\nnDCG@10 " in wide and "│ model_3 " in wide and "\nmodel_3 " in narrow
    for line in (line for line in narrow.splitlines() if "model_11" in line):
        assert line.startswith("model_11 ")
    assert re.search(r"\nmodel_11 +│ 0\.5500\*", narrow)


def by_hand(models, metrics, name="model_{}"):
    """Results with a mean, a count and a large number, in turn."""
    kinds = [
        ("nDCG", 0.2, 0.01, True),
        ("ItemCoverage", 200.0, math.nan, True),
        ("ARP", 279.0949, 1.75, False),
    ]
    return [
        Result(
            tuple(
                MetricValue(
                    metric,
                    k,
                    round(value * (1 + place / 100), 0 if math.isnan(error) else 4),
                    error,
                    None,
                    up,
                )
                for k in range(1, metrics // 3 + 1)
                for metric, value, error, up in kinds
            ),
            name.format(place),
        )
        for place in range(models)
    ]


def test_shows_significant_digits():
    text = printed(by_hand(3, 3), 80)
    rows = {line.split("│")[0].strip(): line for line in text.splitlines() if "│" in line}
    assert (
        " 200 " in rows["ItemCoverage@1"]
        and " 204*" in rows["ItemCoverage@1"]
        and "." not in rows["ItemCoverage@1"]
    )
    assert " 279.1* " in rows["ARP@1"] and "0.2000 " in rows["nDCG@1"]
    small = [
        Result((MetricValue("nDCG", 10, value, value / 10, 5, True),), name)
        for name, value in (("a", 0.00012), ("b", 0.00013))
    ]
    assert "0.00012 " in printed(small, 80) and "0.00013*" in printed(small, 80)
    assert "undefined" in printed([result("a", math.nan), result("b", 0.3)], 100)


@pytest.mark.parametrize(
    ("models", "metrics"), [(1, 3), (2, 24), (3, 24), (5, 24), (8, 6), (30, 3), (30, 36)]
)
@pytest.mark.parametrize("width", [40, 80, 100, 140])
def test_tables_of_any_shape_fit_and_are_complete(models, metrics, width):
    results = by_hand(models, metrics)
    text = printed(results, width)
    assert max(map(len, text.splitlines())) <= width and not any(
        line.endswith(" ") for line in text.splitlines()
    )
    flat = text.replace("\n", " ")
    for name in results[0]:
        assert name in flat
    for one in results:
        assert flat.count(one.name)
    assert text.count("0.2000") >= metrics // 3  # every mean of the first model, whole
    for part in ("+-", "\x1b"):
        assert part not in text


def test_bars_of_a_metric_share_one_scale():
    values = {"low": (0.1, 0.01), "mid": (0.2, 0.02), "high": (0.3, 0.01)}
    results = [
        Result((MetricValue("nDCG", 10, value, error, 5, True),), name)
        for name, (value, error) in values.items()
    ]
    (row,) = [
        line.split("│")[1:]
        for line in printed(results, 150).splitlines()
        if line.startswith("nDCG")
    ]
    points = [row[at].index("●") for at in range(3)]
    assert (
        points[0] < points[1] < points[2]
        and abs(points[2] - points[1] - (points[1] - points[0])) <= 1
    )
    widths = [cell.rindex("┤") - cell.index("├") for cell in row]
    assert widths[1] > widths[0] == widths[2]


def test_no_bars_without_intervals():
    """The smallest difference would look like the largest."""
    (row,) = [line for line in printed(RESULTS, 100).splitlines() if line.startswith("Gini")]
    assert "●" not in row and "0.5000" in row and "-0.2500*" in row


def test_ascii_terminals():
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(width=80, file=file)
    assert (
        console_symbols(console) == ASCII
        and console_symbols(Console(file=io.StringIO())) == UNICODE
    )
    legend, tables = results_tables(
        [result("als", 0.4), result("pop", 0.3)], 80, console_symbols(console)
    )
    console.print(paragraph(legend, 80))
    for table in tables:
        console.print(table)
    file.flush()
    text = file.buffer.getvalue().decode("ascii")
    assert (
        text.startswith("+- and [-o-] 95% interval over users")
        and "0.4000* +- 0.0196" in text
        and "[o]" in text
    )


def test_breaks_long_names_between_words():
    results = by_hand(6, 24, name="{}_popularity_by-month")
    text = printed(results, 80)
    assert "0_" in text and "popularity" in text and "popularit\n" not in text
    for name in ("", "x" * 200, "[bold]", "日本語の名前" * 6, "<b>"):
        odd = [*by_hand(2, 3), *by_hand(1, 3, name=name.replace("{", ""))]
        shown = printed(odd, 80)
        assert max(cell_len(line) for line in shown.splitlines()) <= 80
        assert name.replace(" ", "") in re.sub(r"[\s│]", "", shown) or len(name) > 20


def test_paragraphs_do_not_break_numbers_from_units():
    text = paragraph("so many words and a number of 95 % and more", 35).plain
    assert (
        text == "so many words and a number of 95 %\nand more"
        and paragraph("95 %", 3).plain == "95 %"
    )


def test_text_around_the_table():
    a = result(
        "a",
        0.4,
        counts={"evaluated_users": 1, "items": 9, "relevant_items": 2000},
        notes=("both", "only a"),
    )
    b = result(
        "b", 0.4, counts={"evaluated_users": 1, "items": 8, "relevant_items": 2000}, notes=("both",)
    )
    assert counts_line([a, b]) == "1 evaluated user, 8 to 9 items, 2,000 relevant interactions."
    assert (
        note_lines([a, b])[1:] == ["all models: both", "a: only a"]
        and "different catalogues" in note_lines([a, b])[0]
    )
    assert note_lines([a]) == ["both", "only a"]


def test_shows_bootstrap_intervals_as_two_ends():
    """Not around the value: both ends, in every format."""
    ends = {
        "boot_low": 0.3,
        "boot_high": 0.5,
        "bca_low": 0.31,
        "bca_high": 0.52,
        "boot_std_error": 0.05,
    }
    values = (
        MetricValue("nDCG", 10, 0.4, 0.01, 5, True, **ends),
        MetricValue(
            "Gini",
            10,
            0.5,
            higher_is_better=False,
            boot_low=0.6,
            boot_high=0.7,
            boot_std_error=0.05,
        ),
    )
    booted = Result(values, "als", settings={"bootstrap": 100})
    assert "| nDCG@10 ↑ | 0.4000 \\[0.3100, 0.5200\\] |" in to_markdown(
        [booted]
    ) and "\\[0.4020, 0.5980\\]" in to_markdown([booted])
    assert "0.4000 {[}0.3100, 0.5200{]}" in weft.table([booted]).to_latex()
    shown = printed([booted, result("pop", 0.3)], 100)
    assert "0.4000* [0.3100, 0.5200]" in shown and "0.3000  ± 0.0196" in shown
    (row,) = [line.split("│") for line in shown.splitlines() if line.startswith("nDCG@10")]
    ends = [row[1].index(sign) for sign in "├●┤"]
    assert ends[1] - ends[0] < ends[2] - ends[1]  # 0.09 below the value, 0.12 above
    table = weft.table([booted, result("pop", 0.3)]).to_frame()
    assert table.columns[-5:] == ["boot_low", "boot_high", "bca_low", "bca_high", "boot_std_error"]
    assert table["bca_low"].to_list()[0] == 0.31 and math.isnan(table["bca_low"].to_list()[2])
    assert json.loads(to_json([booted]))[0]["values"][0]["bca_high"] == 0.52
