"""The commands of README.md and docs/command-line.md run, and print what the pages show.

In a `console` block a line after `$ ` is a command; the lines below it are what it prints, of which
`...` leaves some out. `$ echo $?` shows the exit code of the command before it."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weft import cli

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/command-line.md")


def draw(*numbers):
    """A number from 0 to 1 that depends on the given ones alone."""
    mixed = 1
    for number in numbers:
        mixed = ((mixed ^ number) * 0x9E3779B97F4A7C15 + 0x7F4A7C15) % 2**64
        mixed ^= mixed >> 29
    return mixed / 2**64


def write_files(folder):
    """Train, truth and the lists of three models that know the truth more or less well: 60 users,
    40 items.
    """
    users, items = range(60), range(40)
    seen = {(user, item) for user in users for item in items if draw(1, user, item) < 0.2}
    liked = {(user, item) for user in users for item in items if draw(2, user, item) < 0.12} - seen

    def write(name, head, rows):
        folder.joinpath(name).write_text(
            "".join(f"{','.join(map(str, row))}\n" for row in (head, *rows))
        )

    names = {
        "user": [f"u{number:02}" for number in users],
        "item": [f"i{number:02}" for number in items],
    }
    for file, cells in (("train.csv", seen), ("test.csv", liked)):
        rows = [
            (names["user"][user], names["item"][item], 1 + int(5 * draw(3, user, item)))
            for user, item in sorted(cells)
        ]
        write(file, ("user", "item", "rating"), rows)
    for number, (file, wit) in enumerate(
        {"als.csv": 0.45, "knn.csv": 0.3, "pop.csv": 0.05}.items()
    ):
        rows = []
        for user in users:
            free = [item for item in items if (user, item) not in seen]
            scores = {
                item: draw(4, number, user, item) + wit * ((user, item) in liked) for item in free
            }
            best = sorted(free, key=lambda item: -scores[item])[:20]
            rows += [
                (names["user"][user], names["item"][item], f"{scores[item]:.4f}") for item in best
            ]
        write(file, ("user", "item", "score"), rows)
    write("catalogue.csv", ("item",), [(item,) for item in names["item"]])
    folder.joinpath("config.yaml").write_text(
        "evaluation:\n  metrics: [nDCG, Recall]\n  top_k: [10]\ndata:\n  truth: {path: test.csv}\n "
        " train: {path: train.csv}\n"
        "models:\n  als: {path: als.csv}\n  pop: {path: pop.csv}\n"
    )


def commands(page):
    """Each command of a page and the lines that it is to print."""
    found = []
    for block in re.findall(
        r"^```console\n(.*?)^```",
        (ROOT / page).read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    ):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.replace("\\\n", " ").splitlines()
            found.append((command, lines))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_print_what_it_shows(page, tmp_path, monkeypatch):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    code = 0
    for command, lines in commands(page):
        if command == "echo $?":
            assert lines == [str(code)], command
            continue
        words = shlex.split(command)
        words, place = (words[:-2], words[-1]) if ">" in words else (words, None)
        assert words[0] == "weft", command
        done = CliRunner().invoke(cli.app, words[1:], prog_name="weft")
        code = done.exit_code
        assert code in (0, 1), f"{command}\n{done.output}"
        if place is not None:
            Path(place).write_text(done.stdout)
        printed = [line.rstrip() for line in done.output.splitlines()]
        at = 0
        for line in lines:
            if line.strip() != "...":
                assert line in printed[at:], (
                    f"{command} does not print {line!r} (or not there):\n{done.output}"
                )
                at += printed[at:].index(line) + 1


def test_every_command_is_on_the_page():
    shown = {
        command.split()[1]
        for command, _ in commands("docs/command-line.md")
        if command.startswith("weft ")
    }
    assert shown >= {"evaluate", "compare", "metrics", "schema"}
    assert len(commands("README.md")) >= 2
