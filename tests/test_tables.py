"""Results as text: every format says the same, whatever the names hold."""

import csv
import io
import json
import math
import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import weft
from weft.errors import InputError
from weft.report.tables import (
    escape_latex,
    escape_markdown,
    file_names,
    save_all,
    summary,
    to_csv,
    to_json,
    to_latex,
    to_markdown,
)
from weft.report.terminal import counts_line, note_lines, results_tables
from weft.result import MetricValue, Result

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
    table = summary(RESULTS)
    assert table.columns == ["model", "metric", "k", "value", "std_error", "ci_low", "ci_high", "users", "higher_is_better"]
    assert table.height == 6 and table["model"].to_list() == ["als"] * 3 + [NASTY] * 3
    assert table["metric"].to_list()[:3] == ["nDCG", "Gini", "BiasDisparityBR[F, Sci|Fi]"]
    assert table["higher_is_better"].to_list()[:3] == [True, False, None]
    own = RESULTS[0].to_frame()
    assert table.filter(pl.col("model") == "als").select(own.columns).equals(own, null_equal=True)
    assert summary([]).is_empty()


def test_csv_reads_back():
    rows = list(csv.DictReader(io.StringIO(to_csv([*RESULTS, result("none", math.nan)]))))
    assert [row["model"] for row in rows] == ["als"] * 3 + [NASTY] * 3 + ["none"] * 3
    assert float(rows[0]["value"]) == 0.4 and float(rows[0]["ci_low"]) == RESULTS[0].entry("nDCG@10").ci_low
    assert math.isnan(float(rows[6]["value"])) and rows[1]["users"] == "" and rows[2]["higher_is_better"] == ""


def test_json_is_what_is_saved(tmp_path):
    got = json.loads(to_json(RESULTS))
    assert got == [json.loads(one.save(tmp_path / "a.json").read_text()) for one in RESULTS]
    assert json.loads(to_json([result("x", math.nan)]))[0]["values"][0]["value"] is None


def cells(line):
    """The cells of a row of a pipe table, unescaped."""
    return [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in re.split(r"(?<!\\)\|", line.replace("\\\\", "\0"))[1:-1]]


def test_markdown_is_a_pipe_table_with_the_best_in_bold():
    head, rule, *rows = to_markdown(RESULTS).splitlines()
    assert cells(head)[:2] == ["metric", "als"] and cells(head)[2].replace("\0", "\\") == NASTY
    assert set(rule) <= set("|-: ") and rule.count("|") == 4
    assert cells(rows[0]) == ["nDCG@10", "**0.4000** ± 0.0196", "0.3000 ± 0.0196"]
    assert cells(rows[1]) == ["Gini@10", "0.5000", "**-0.2500**"]
    assert cells(rows[2]) == ["BiasDisparityBR@10[F, Sci|Fi]", "1.0000", "1.0000"]


def test_the_longer_side_runs_down():
    assert to_markdown(RESULTS).startswith("| metric")
    assert to_markdown([result(str(number), number / 10) for number in range(5)]).startswith("| model")
    assert to_latex(RESULTS).count("\\\\\n") == 4


def test_latex_is_booktabs_with_escaped_names():
    text = to_latex(RESULTS)
    for part in ("\\toprule", "\\midrule", "\\bottomrule", "\\begin{tabular}{lrr}", "\\end{tabular}"):
        assert text.count(part) == 1
    assert "nDCG@10 & \\textbf{0.4000} $\\pm$ 0.0196 & 0.3000 $\\pm$ 0.0196 \\\\" in text
    assert "Gini@10 & 0.5000 & \\textbf{$-$0.2500} \\\\" in text
    body = [line for line in text.splitlines() if line.endswith("\\\\")]
    assert all(len(re.findall(r"(?<!\\)&", line)) == 2 for line in body)


@given(st.text(max_size=30))
def test_no_text_breaks_out_of_a_cell(text):
    latex = escape_latex(text)
    for sign in "&%$#_":
        assert not re.search(rf"(?<!\\){re.escape(sign)}", latex.removeprefix("$-$"))
    plain = re.sub(r"\\[{}]", "", latex)
    assert plain.count("{") == plain.count("}") and "\n" not in latex and not latex.startswith(("[", "*"))
    markdown = escape_markdown(text)
    assert "\n" not in markdown and len(cells(f"| {markdown} |")) == 1
    assert not re.search(r"[|*_`<\[]", re.sub(r"\\.", "", markdown))


def test_a_missing_or_undefined_value_is_said():
    other = Result((MetricValue("nDCG", 10, math.nan),), "b")
    for write in (to_markdown, to_latex):
        text = write([result("a", 0.3), other])
        assert "undefined" in text and "\\textbf" not in text and "**" not in text


# --------------------------------------------------------------------------------------------------------------- files


def test_files_get_safe_names():
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
        assert re.fullmatch(r"[\w+=@-][\w.+=@-]*", name) and len(name.encode()) <= 105 and not name.startswith(("-", "."))
    assert safe[0] == "als" and safe[2] == "a_b" and file_names(["v1.2", "als_knn-3"]) == ["v1.2", "als_knn-3"]


def test_the_files_of_a_run_are_written_together(tmp_path):
    users = pl.DataFrame({"user": [1, 2], "nDCG@10": [0.1, 0.2]})
    folder = tmp_path / "new" / "folder"
    files = save_all([result("a/b", 0.4, per_user=users), result("pop", 0.3)], folder)
    assert [file.name for file in files] == ["a_b.json", "pop.json", "summary.csv"]
    assert sorted(path.name for path in folder.iterdir()) == ["a_b.json", "a_b.per_user.parquet", "pop.json", "summary.csv"]
    loaded = weft.load_result(files[0])
    assert loaded.name == "a/b" and loaded.per_user.equals(users)
    assert (folder / "summary.csv").read_text() == to_csv([result("a/b", 0.4), result("pop", 0.3)])


def test_if_one_file_cannot_be_written_none_is(tmp_path):
    old = save_all([result("als", 0.1)], tmp_path / "out")[0].read_text()
    (tmp_path / "out" / "pop.json").mkdir()
    with pytest.raises(InputError, match=r"pop.json: cannot be written \(it is a folder\)"):
        save_all([result("als", 0.4), result("pop", 0.3)], tmp_path / "out")
    assert (tmp_path / "out" / "als.json").read_text() == old
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["als.json", "pop.json", "summary.csv"]


def test_no_folder_is_left_of_what_failed(tmp_path):
    class Broken:
        def write_parquet(self, file):
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        save_all([result("als", 0.4), result("pop", 0.3, per_user=Broken())], tmp_path / "new" / "folder")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------------------ terminal


def printed(results, width):
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    for table in results_tables(results, width):
        console.print(table)
    return console.file.getvalue()


@pytest.mark.parametrize("count", [1, 2, 3, 12])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_tables_stay_readable(count, width):
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
    for one in results:
        for value in one.values:
            assert re.search(rf"{value.value:.4f}[* ] ± {1.959964 * value.std_error:.4f}", text)
    assert text.count("*") == (8 if count > 1 else 0)


def test_many_models_run_down():
    results = [result(f"model_{number}", number / 20) for number in range(12)]
    wide, narrow = printed(results, 400), printed(results, 80)
    assert "│ nDCG@10 " in wide and "│ model_3 " in narrow
    for line in (line for line in narrow.splitlines() if "model_11" in line):
        assert line.startswith("│ model_11 ")
    assert re.search(r"│ model_11 +│ 0\.5500\*", narrow)


def test_what_stands_around_the_table():
    a = result("a", 0.4, counts={"evaluated_users": 1, "items": 9, "relevant_items": 2000}, notes=("both", "only a"))
    b = result("b", 0.4, counts={"evaluated_users": 1, "items": 8, "relevant_items": 2000}, notes=("both",))
    assert counts_line([a, b]) == "1 evaluated user, 8 to 9 items, 2,000 relevant interactions."
    assert note_lines([a, b])[1:] == ["all: both", "a: only a"] and "different catalogues" in note_lines([a, b])[0]
    assert note_lines([a]) == ["both", "only a"]


def test_intervals_of_resampled_users_are_shown_as_they_are():
    """Not around the value: both ends, in every format."""
    ends = {"boot_low": 0.3, "boot_high": 0.5, "bca_low": 0.31, "bca_high": 0.52, "boot_std_error": 0.05}
    values = (
        MetricValue("nDCG", 10, 0.4, 0.01, 5, True, **ends),
        MetricValue("Gini", 10, 0.5, higher_is_better=False, boot_low=0.6, boot_high=0.7, boot_std_error=0.05),
    )
    booted = Result(values, "als", settings={"bootstrap": 100})
    assert "| nDCG@10 | 0.4000 \\[0.3100, 0.5200\\] |" in to_markdown([booted]) and "\\[0.4020, 0.5980\\]" in to_markdown([booted])
    assert "0.4000 {[}0.3100, 0.5200{]}" in to_latex([booted])
    console = Console(width=80, file=io.StringIO())
    for table in results_tables([booted, result("pop", 0.3)], 80):
        console.print(table)
    assert "0.4000* [0.3100, 0.5200]" in console.file.getvalue() and "0.3000  ± 0.0196" in console.file.getvalue()
    table = summary([booted, result("pop", 0.3)])
    assert table.columns[-5:] == ["boot_low", "boot_high", "bca_low", "bca_high", "boot_std_error"]
    assert table["bca_low"].to_list()[0] == 0.31 and math.isnan(table["bca_low"].to_list()[2])
    assert json.loads(to_json([booted]))[0]["values"][0]["bca_high"] == 0.52
