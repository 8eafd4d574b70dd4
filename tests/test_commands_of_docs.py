"""The commands of README.md, docs/ and examples/ run as written, and print what the pages show."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from ruamel.yaml import YAML

from doc_commands import (
    PAGES,
    ROOT,
    find_blocks,
    find_commands,
    run_weft,
    write_data,
    write_parquet,
)
from weft import cli

# Pages of which the first Python block writes the files that the commands read.
EXECUTED_PAGES = (
    "docs/guide/check.md",
    "docs/guide/command-line.md",
    "docs/guide/migrate/trec-eval.md",
    "docs/guide/splitting.md",
)
WEFT_COMMANDS = {
    page: [
        command
        for command in find_commands(page)
        if command.words[0] in ("weft", "echo", "cd") and not command.is_for_engine
    ]
    for page in PAGES
}


def first_block(page, language):
    return next(block for found, block in find_blocks(page) if found == language)


def write_files(page):
    """Write the files that a page describes into the current folder."""
    if page == "docs/guide/configuration.md":
        Path("run.yaml").write_text(first_block(page, "yaml"), encoding="utf-8")
    elif page in EXECUTED_PAGES:
        exec(compile(first_block(page, "python"), page, "exec"), {})


def expect_lines(command, output):
    """Check that the lines of the page are printed in this order; `...` leaves lines out."""
    printed = [line.rstrip() for line in output.splitlines()]
    for line in command.output:
        if line.strip() != "...":
            assert line in printed, f"{command.text} does not print {line!r} there:\n{output}"
            printed = printed[printed.index(line) + 1 :]


@pytest.mark.parametrize("page", [page for page, commands in WEFT_COMMANDS.items() if commands])
def test_commands_print_what_the_page_shows(page, tmp_path, monkeypatch, demo_folder):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    commands = WEFT_COMMANDS[page]
    if page == "README.md":  # its commands run on the files of the demo
        shutil.copytree(demo_folder / "weft-demo", tmp_path / "weft-demo")
        monkeypatch.chdir(tmp_path / "weft-demo")
    elif [command.text for command in commands[:2]] == ["weft demo", "cd weft-demo"]:
        shutil.copytree(demo_folder / "weft-demo", tmp_path / "weft-demo")
        expect_lines(commands[0], (demo_folder / "output.txt").read_text(encoding="utf-8"))
        monkeypatch.chdir(tmp_path / "weft-demo")
        commands = commands[2:]
    else:
        write_data(tmp_path)
    write_files(page)
    code = 0
    for command, following in zip(commands, [*commands[1:], None]):
        if command.words[0] == "echo":
            assert command.text == "echo $?" and command.output == (str(code),), page
            continue
        completed = run_weft(command.words[1:])
        code = completed.code
        has_finding = command.words[1] == "check" and code == 1
        shows_code = following is not None and following.words[0] == "echo"
        assert code == 0 or has_finding or shows_code, f"{command.text}\n{completed.output}"
        if command.target is not None:
            Path(command.target).write_text(completed.stdout)
        expect_lines(command, completed.output)


def test_every_command_is_in_a_block_that_is_run():
    """Commands in blocks without a language would not be run."""
    for page in PAGES:
        for language, block in find_blocks(page):
            if language not in ("console", "bash", "text"):  # "text" is output
                assert not re.search(r"^\s*(weft|torchrun) ", block, re.MULTILINE) or (
                    "runs-on:" in block  # test_the_workflow_of_the_page_runs
                ), f"{page}: a command in a block of {language!r}:\n{block}"
    programs = {command.words[0] for page in PAGES for command in find_commands(page)}
    assert programs == {"weft", "echo", "cd", "torchrun", "pip", "python3", "."}


def test_the_pages_show_every_command():
    shown = {command.words[1] for commands in WEFT_COMMANDS.values() for command in commands}
    assert shown >= set(cli_options())


def cli_options():
    """Return the flags of each command of the command line."""
    group = typer.main.get_command(cli.app)
    return {
        name: {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
        for name, command in group.commands.items()
    }


# Flags of other programs that the pages name.
OTHER_FLAGS = {
    *("--no-deps", "--outdated", "--nproc-per-node", "--devices", "--durations", "--index-url"),
    *("--rounds", "--sizes", "--tools"),  # of python -m benchmarks
    *("--install-completion", "--show-completion", "--version", "--help", "--debug"),
}


@pytest.mark.parametrize("page", PAGES)
def test_every_flag_that_a_page_names_exists(page):
    known = set().union(*cli_options().values()) | OTHER_FLAGS
    text = (ROOT / page).read_text(encoding="utf-8")
    inline = " ".join(re.findall(r"`[^`]*`", text))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", inline))
    assert named <= known, f"{page} names {sorted(named - known)}"


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md"])
def test_every_extra_that_a_page_names_exists(page):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"(?:weft|'\.)\[([a-z,]+)\]", text)
    extras = {extra for names in named for extra in names.split(",")}
    assert extras <= project["optional-dependencies"].keys()
    for file in re.findall(r"pip install -c (\S+)", text):
        assert (ROOT / file).exists(), f"{page} names {file}"
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    for pin in re.findall(r"pip install (torch==\S+)", text):
        assert pin in pins, f"{page} names {pin}"


def test_the_errors_of_the_configuration_page(tmp_path, monkeypatch):
    """The page shows a file with mistakes, and the message for it."""
    page = "docs/guide/configuration.md"
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    blocks = find_blocks(page)
    (position,) = (n for n, (_, block) in enumerate(blocks) if "mistakes.yaml:" in block)
    (tmp_path / "mistakes.yaml").write_text(blocks[position - 1][1])
    completed = run_weft(["evaluate", "mistakes.yaml"])
    expected = blocks[position][1].splitlines()
    printed = completed.output.splitlines()
    assert completed.code == 2 and len(printed) == len(expected)
    for line, shown in zip(printed, expected):
        start, dots, _ = shown.partition("...")
        assert line.startswith(start) and (dots or line == shown), line


def test_the_errors_of_the_get_started_page(tmp_path, monkeypatch):
    """Each message of its table, with a command that prints it."""
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    lists = "user,item,score\n{},i01,0.9\n{},{},0.8\n"
    Path("columns.csv").write_text("person,item,score\nu01,i01,0.9\n")
    Path("integers.csv").write_text(lists.format(1, 2, "i02"))
    Path("users.csv").write_text(lists.format("x1", "x2", "i02"))
    Path("repeated.csv").write_text(lists.format("u01", "u01", "i01"))
    assert run_weft(["evaluate", "config.yaml", "--out", "results"]).code == 0
    evaluate = ["evaluate", "--truth", "test.csv", "-k", "10", "--recs"]
    commands = [
        *([*evaluate, f"{name}.csv"] for name in ("columns", "integers", "users", "repeated")),
        [*evaluate, "als.csv", "-m", "AUC"],
        [*evaluate, "als.csv", "-m", "EPC"],
        ["compare", "results/als.json", "results/pop.json"],
    ]
    page = (ROOT / "docs/get-started.md").read_text(encoding="utf-8")
    table = page.partition("## If a command fails")[2].partition("\n## ")[0]
    messages = re.findall(r"^\| `(.*?)` \|", table, re.MULTILINE)
    assert len(messages) == len(commands)
    for message, command in zip(messages, commands):
        completed = run_weft(command)
        pattern = ".*".join(re.escape(part.strip()) for part in message.split("..."))
        assert completed.code == 2, command
        assert re.search(pattern, completed.output), completed.output


# --------------------------------------------------------------------------------------------------


def run_process(words, folder, **environment):
    """Run a program in a new process; it must succeed."""
    completed = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "COLUMNS": "80", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert completed.returncode == 0, completed.stderr + completed.stdout
    return completed


def test_the_example_configuration_runs(tmp_path):
    """As its first line says, in a copy of the repository's folder."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    first = (ROOT / "examples" / "evaluate.yaml").read_text().splitlines()[0]
    assert first == "# weft evaluate examples/evaluate.yaml"
    words = first.removeprefix("# weft ").split()
    completed = run_process([sys.executable, "-m", "weft", *words], tmp_path)
    assert "nDCG@10" in completed.stdout and "taste" in completed.stdout
    assert "Paired t-test" in completed.stdout and completed.stderr == ""


@pytest.mark.slow
def test_the_lightning_example_runs(tmp_path):
    pytest.importorskip("lightning")
    script = ROOT / "examples" / "sasrec_lightning.py"
    completed = run_process([sys.executable, script, "--epochs", "1"], tmp_path)
    assert "HR@10" in completed.stdout and "ItemCoverage" in completed.stdout
    assert (tmp_path / "sasrec" / "best.ckpt").exists()


def test_every_example_is_run():
    names = {path.name for path in (ROOT / "examples").iterdir() if path.is_file()}
    assert names == {"evaluate.yaml", "sasrec_lightning.py", "tune_optuna.py"}


@pytest.mark.slow
def test_commands_with_torchrun_run(tmp_path):
    commands = [
        command
        for page in PAGES
        for command in find_commands(page)
        if command.words[0] == "torchrun"
    ]
    write_data(tmp_path)
    for command in commands:
        words = [sys.executable, "-m", "torch.distributed.run", *command.words[1:]]
        completed = run_process(words, tmp_path, OMP_NUM_THREADS="1")
        assert completed.stdout.count("nDCG@10") == 1
    assert commands and (tmp_path / "results" / "als.json").exists()


@pytest.mark.slow
def test_the_workflow_of_the_page_runs(tmp_path):
    """The steps of the GitHub workflow that evaluate, in a shell."""
    page = "docs/guide/gate-a-release.md"
    (workflow,) = (block for _, block in find_blocks(page) if "runs-on:" in block)
    steps = YAML(typ="safe").load(workflow)["jobs"]["quality"]["steps"]
    (script,) = (step["run"] for step in steps if "weft evaluate" in step.get("run", ""))
    write_data(tmp_path)
    write_parquet(tmp_path, {"recs.parquet": "als.csv"})
    (tmp_path / "data").mkdir()
    for name in ("test.csv", "train.csv"):
        (tmp_path / name).rename(tmp_path / "data" / name)
    weft = f'weft() {{ "{sys.executable}" -m weft "$@"; }}\n'
    baseline = (
        "weft evaluate --recs live=recs.parquet --truth data/test.csv -m nDCG,Recall -k 10 "
        "--out baseline --per-user > last.txt\n"
    )
    completed = run_process(
        ["bash", "-ec", weft + baseline + script], tmp_path, GITHUB_STEP_SUMMARY="summary.md"
    )
    assert "2 of 2 gates passed" in completed.stdout
    assert "| nDCG@10" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "results" / "gates.xml").exists()
    assert (tmp_path / "results" / "new.json").exists()
