"""Names, labels and ids from data: they never steer a terminal, and never leave the folder."""

import ast
import csv
import io
import json
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import weft
from weft import cli
from weft.cli import output
from weft.errors import InputError, SettingError, escape_controls, setting_ref, warn_about_input
from weft.evaluation.atomic_files import write_files
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result
from weft.report.result_folder import save_results
from weft.statistics.markup import csv_table

# A window title, a colour, C1 control characters, an overwritten line, reversed text.
HOSTILE = "x\x1b]0;owned\x07\x1b[31m\x9b2J\x9dy\x08\x7f\r\u202ez"
LISTS = "user,item,score\nu1,a,0.9\nu1,b,0.5\nu2,c,0.8\nu2,a,0.4\n"


def control_characters(text):
    return [sign for sign in text if unicodedata.category(sign) == "Cc" and sign not in "\n\t"]


def assert_harmless(text):
    assert control_characters(text) == [] and "\u202e" not in text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(f"{name}.csv").write_text(LISTS)
    Path("truth.csv").write_text("user,item\nu1,b\nu2,a\n")
    Path("labels.csv").write_text(f'user,kind\nu1,"{HOSTILE}"\nu2,plain\n')
    return tmp_path


def run(*arguments, code=0):
    done = CliRunner().invoke(cli.app, [str(argument) for argument in arguments], prog_name="weft")
    assert done.exit_code == code, done.output
    return done


def evaluate(*arguments, code=0):
    files = ("--recs", f"{HOSTILE}=a.csv", "--recs", "b=b.csv", "--truth", "truth.csv")
    return run("evaluate", *files, "-m", "nDCG", "-k", "2", *arguments, code=code)


def test_escapes_what_steers_a_terminal():
    assert escape_controls("\x1b[0m\x9b\u202e\x00\x7f") == (r"\u001b[0m\u009b\u202e\u0000\u007f")
    assert escape_controls("Zoë\t日本 🎵\nשלום \u200f") == "Zoë\t日本 🎵\nשלום \u200f"
    escape_controls("\ud800").encode()  # lone surrogates cannot be encoded
    assert json.loads(escape_controls('"\x9b\x7f"')) == "\x9b\x7f"


@pytest.mark.parametrize("format_", ["table", "json", "csv", "markdown", "latex"])
def test_commands_escape_names_and_labels(folder, format_):
    options = ("--format", format_, "--slice", "kind=labels.csv", "--out", "out", "--per-user")
    done = evaluate(*options, "--gate", "nDCG@2 >= 0.1")
    assert "owned" in done.stdout
    assert_harmless(done.output)
    results = sorted(Path("out").glob("*.json"))
    compared = run("compare", *results, "--format", format_)
    assert "owned" in compared.output
    assert_harmless(compared.output)
    assert HOSTILE in {weft.load_result(path).name for path in results}  # files are exact


def test_json_on_the_terminal_has_the_exact_names(folder):
    done = evaluate("--format", "json")
    assert [model["name"] for model in json.loads(done.stdout)] == [HOSTILE, "b"]


def test_check_escapes_ids(folder):
    Path("a.csv").write_text(f'user,item,score\n"{HOSTILE}",a,0.9\nu1,"{HOSTILE}",0.5\n')
    for format_ in ("table", "json"):
        options = ("--recs", "a=a.csv", "--truth", "truth.csv", "--format", format_)
        done = CliRunner().invoke(cli.app, ["check", *options], prog_name="weft")
        assert "owned" in done.output
        assert_harmless(done.output)


@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_errors_escape_keys_values_and_paths(folder, debug):
    Path("run.yaml").write_text(json.dumps({"data": {"truth": "truth.csv", HOSTILE: 1}}))
    for arguments in (
        ("evaluate", "run.yaml"),
        ("evaluate", f"{HOSTILE}.yaml"),
        ("compare", f"{HOSTILE}.json", "b.json"),
        ("evaluate", "--recs", "a.csv", "--truth", f"{HOSTILE}.csv", "-m", "nDCG@2"),
        ("evaluate", "--recs", "a.csv", "--truth", "truth.csv", "-m", HOSTILE),
    ):
        done = run(*arguments, *debug, code=2)
        assert "error:" in done.stderr
        assert_harmless(done.output)


def test_commands_escape_notes_and_names_of_result_files(folder):
    made = weft.evaluate("a.csv", "truth.csv", metrics="nDCG@2", per_user=True)
    for name in "ab":
        path = made.save(f"{name}.json")
        document = json.loads(path.read_text()) | {"name": name + HOSTILE, "notes": [HOSTILE]}
        path.write_text(json.dumps(document))
    done = run("compare", "a.json", "b.json", "--pairs")
    assert "owned" in done.stdout
    assert_harmless(done.output)


def test_progress_escapes_names(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with output.show_progress(2) as step:
        step(f"evaluating [red]{HOSTILE}")
    shown = capsys.readouterr().err
    assert r"\u001b]0;owned" in shown and "\x1b]0;" not in shown and "\x9b" not in shown


def test_python_escapes_text_of_results_errors_and_warnings():
    result = Result((MetricValue("nDCG", 2, 0.5),), name=HOSTILE, notes=(HOSTILE,))
    assert_harmless(repr(result))
    assert_harmless(str(InputError(f"{HOSTILE} {setting_ref('name', 1)}")))
    assert_harmless(SettingError(HOSTILE).render())
    with pytest.warns(UserWarning, match="owned") as caught:
        warn_about_input(HOSTILE)
    assert_harmless(str(caught[0].message))


def test_warnings_of_commands_are_escaped(tmp_path):
    code = (
        "import sys, warnings, weft.cli.application as application\n"
        "application.app = lambda **_: warnings.warn(chr(27) + '[31mred')\n"
        "application.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "warning: \\u001b[31mred\n"


def test_text_is_printed_in_one_place():
    """Only `print_text` and `open_console` print; a new command cannot forget to escape."""
    package = Path(weft.__file__).parent
    allowed = {
        "cli/error_handling.py": 1,  # print_text
        "report/terminal/printing.py": 1,  # the text of print(comparison), which is escaped
        "report/metric_pages.py": 1,  # paths of generated pages, run by developers
        "evaluation/progress.py": 1,  # a progress bar without text from data
    }
    pattern = re.compile(r"(print|Console|echo|sys\.std(out|err)\.write)$")
    found = {}
    for path in package.rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if type(node) is ast.Call]
        count = sum(pattern.fullmatch(ast.unparse(call.func)) is not None for call in calls)
        if count:
            found[path.relative_to(package).as_posix()] = count
    assert found == allowed


def test_a_printed_comparison_is_escaped():
    truth = {"ann": ["x"], "bob": ["z"]}
    names = {"a\x1b[31m": {"ann": ["x"], "bob": ["z"]}, "b": {"bob": ["y", "z"]}}
    settings = {"metrics": "MRR@2", "per_user": True}
    results = [weft.evaluate(lists, truth, name=name, **settings) for name, lists in names.items()]
    printed = repr(weft.compare(results))
    assert "\x1b" not in printed and "\\u001b[31m" in printed


# --------------------------------------------------------------------------------------------------


def test_csv_guards_text_that_a_spreadsheet_would_evaluate():
    texts = ["=1+1", "+a", "-x", "@sum", "\ttab", "-1", "+2.5e-3", "-.5", "a=b", "", None, "-1+1"]
    frame = pl.DataFrame({"text": texts, "other": texts, "number": range(-12, 0)})
    guarded = pl.read_csv(io.StringIO(csv_table(frame)), infer_schema=False)
    expected = ["'=1+1", "'+a", "'-x", "'@sum", "'\ttab", *texts[5:11], "'-1+1"]
    assert guarded["text"].to_list() == guarded["other"].to_list() == expected
    assert guarded["number"].to_list() == [str(number) for number in range(-12, 0)]
    assert csv_table(frame, guard_formulas=False) == frame.write_csv()


def csv_words(text, *columns):
    rows = csv.DictReader(io.StringIO(text))
    return {row[column] for row in rows for column in columns}


def test_commands_guard_names_and_labels_in_csv(folder):
    Path("labels.csv").write_text("user,kind\nu1,=HYPERLINK()\nu2,-1\n")
    options = ("--slice", "kind=labels.csv", "--format", "csv", "--out", "out", "--per-user")
    Path("run.yaml").write_text(
        json.dumps({"models": {"=cmd": "a.csv", "@b": "b.csv"}, "data": {"truth": "truth.csv"}})
    )
    for guard, names, groups in (
        ((), {"'=cmd", "'@b"}, {"'=HYPERLINK()", "-1"}),
        (("--no-guard-csv",), {"=cmd", "@b"}, {"=HYPERLINK()", "-1"}),
    ):
        done = run("evaluate", "run.yaml", "-m", "nDCG@2", *options, *guard)
        assert csv_words(done.stdout, "model") == names
        assert csv_words(Path("out/summary.csv").read_text(), "model") == names
        assert csv_words(Path("out/slices.csv").read_text(), "model") == names
        assert csv_words(Path("out/slices.csv").read_text(), "group") == groups
        results = sorted(Path("out").glob("*.json"))
        compared = run("compare", *results, "--format", "csv", "--out", "out.csv", *guard)
        for text in (compared.stdout, Path("out.csv").read_text()):
            assert csv_words(text, "model_a", "model_b") == names


# --------------------------------------------------------------------------------------------------


def test_names_of_models_stay_in_the_output_folder(folder):
    names = ["..", "summary", "Summary", "slices", "als", "ALS", "a_b"]
    lists = [word for name in names for word in ("--recs", f"{name}=a.csv")]
    before = set(folder.iterdir())
    options = ("--truth", "truth.csv", "-m", "nDCG@2", "--out", "out", "--per-user")
    run("evaluate", *lists, *options)
    assert set(folder.iterdir()) == before | {folder / "out"}
    saved = [weft.load_result(path) for path in Path("out").glob("*.json")]
    assert sorted(result.name for result in saved) == sorted(names)
    stems = [path.stem.casefold() for path in Path("out").glob("*.json")]
    assert len(set(stems)) == len(names)
    assert not {"summary", "slices"} & set(stems)  # names of the files of all models


def test_paths_as_names_stay_in_the_output_folder(folder):
    names = ["../up", "a/b", "a_b", "/tmp/x", "..", "..\\up", "a\0b"]
    before = set(folder.iterdir())
    results = [Result((MetricValue("nDCG", 2, 0.5),), name=name) for name in names]
    paths = save_results(results, Path("out"))
    assert {path.parent for path in paths} == {Path("out")}
    assert set(folder.iterdir()) == before | {folder / "out"}
    assert [weft.load_result(path).name for path in paths[:-1]] == names


def test_links_in_the_output_folder_are_replaced(folder):
    Path("out").mkdir()
    Path("precious").write_text("precious")
    names = ("als.json", "als.per_user.parquet", "summary.csv")
    for name in names:
        (folder / "out" / name).symlink_to(folder / "precious")
    run(
        *("evaluate", "--recs", "als=a.csv", "--truth", "truth.csv", "-m", "nDCG@2"),
        *("--out", "out", "--per-user"),
    )
    assert Path("precious").read_text() == "precious"
    assert not any((folder / "out" / name).is_symlink() for name in names)
    assert weft.load_result("out/als.json").name == "als"


@pytest.mark.parametrize("target", ["precious", "missing"])
def test_failed_writing_restores_links(folder, target):
    Path("precious").write_text("precious")
    Path("a.json").symlink_to(target)
    Path("b.json").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_files({Path(f"{name}.json"): lambda file: file.write(b"new") for name in "ab"})
    assert Path("a.json").is_symlink() and Path("a.json").readlink() == Path(target)
    assert Path("precious").read_text() == "precious" and not Path("missing").exists()


class SparkTable:
    """A table that writes a folder, as Spark does."""

    @property
    def write(self):
        return self

    def parquet(self, address):
        folder = Path(address.removeprefix("file://"))
        folder.mkdir()
        pl.DataFrame({"user": ["u1"], "nDCG@2": [0.5]}).write_parquet(folder / "part-0.parquet")


def test_spark_replaces_a_link_to_a_folder(folder):
    Path("out").mkdir()
    Path("elsewhere").mkdir()
    Path("elsewhere/precious").write_text("precious")
    link = folder / "out" / "als.per_user.parquet"
    link.symlink_to(folder / "elsewhere")
    result = Result((MetricValue("nDCG", 2, 0.5),), name="als")
    object.__setattr__(result, "per_user_table", SparkTable())
    save_results([result], Path("out"))
    assert Path("elsewhere/precious").read_text() == "precious"
    assert link.is_dir() and not link.is_symlink()
    assert weft.load_result("out/als.json").per_user.height == 1


@pytest.mark.parametrize("name", ["..", ".", "", "/", "../b.parquet", "x/y", "x" * 300, "a\0b"])
def test_result_files_name_tables_of_their_own_folder_only(folder, name):
    Path("inner").mkdir()
    pl.DataFrame({"user": [1]}).write_parquet("b.parquet")
    path = Result((MetricValue("nDCG", 2, 0.5),)).save("inner/a.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"per_user": name}))
    with pytest.raises(InputError, match=r"a\.json: .*(per_user is|per_user was)"):
        weft.load_result(path)
