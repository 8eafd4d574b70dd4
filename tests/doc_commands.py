"""Shell commands of the documentation: how tests find them, prepare their files and run them.

In a `console` block a line after `$ ` is a command, and the lines below it are its output, of which
`...` leaves some out. In a `bash` block every line is a command.
"""

import io
import re
import shlex
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl

from weft.cli import main

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    *(
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if path.parent.name not in ("metrics", "gallery", "decisions")
    ),
)


@dataclass(frozen=True)
class Command:
    """A command of a page and the lines of its output that the page shows."""

    page: str
    text: str
    output: tuple[str, ...] = ()

    @property
    def words(self):
        """The words of the command, without comments and without a redirection."""
        return shlex.split(self.text.partition(" > ")[0], comments=True)

    @property
    def target(self):
        """The file to which standard output is redirected, None without one."""
        return self.text.partition(" > ")[2].strip() or None

    @property
    def is_for_engine(self):
        """True if the command starts Ray or Spark."""
        return "--engine" in self.words


@dataclass(frozen=True)
class Completed:
    """The exit code and the output of a command: standard output, and everything together."""

    code: int
    stdout: str
    output: str


def find_blocks(page):
    """Return the language and the text of each code block of a page; "" is no language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def find_commands(page):
    """Return the commands of a page in order."""
    commands = []
    for language, block in find_blocks(page):
        if language == "console":
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, *lines = part.replace("\\\n", " ").splitlines()
                commands.append(Command(page, command, tuple(lines)))
        elif language == "bash":
            lines = block.replace("\\\n", " ").splitlines()
            commands += [Command(page, line) for line in lines if line.strip()]
    return commands


def run_weft(words):
    """Run the entry point of the command in this process, in the current folder."""
    together = io.StringIO()

    class Stream(io.StringIO):
        def write(self, text):
            together.write(text)
            return super().write(text)

    stdout = Stream()
    with (
        mock.patch.object(sys, "argv", ["weft", *words]),
        redirect_stdout(stdout),
        redirect_stderr(Stream()),
        warnings.catch_warnings(),
    ):
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code or 0
    return Completed(code, stdout.getvalue(), together.getvalue())


# --------------------------------------------------------------------------------------------------


def write_data(folder):
    """Write the files that the pages name: 60 users, 40 items, and the lists of three models."""
    users, items = range(60), range(40)
    seen = {(user, item) for user in users for item in items if _draw(1, user, item) < 0.2}
    liked = {(user, item) for user in users for item in items if _draw(2, user, item) < 0.12} - seen
    for file, pairs in (("train.csv", seen), ("test.csv", liked)):
        rows = [(*_names(*pair), 1 + int(5 * _draw(3, *pair))) for pair in sorted(pairs)]
        _write_csv(folder / file, ("user", "item", "rating"), rows)
    # The greater the weight, the better the model knows the truth.
    for number, (model, weight) in enumerate({"als": 0.45, "knn": 0.3, "pop": 0.05}.items()):
        rows = []
        for user in users:
            scores = {
                item: _draw(4, number, user, item) + weight * ((user, item) in liked)
                for item in items
                if (user, item) not in seen
            }
            best = sorted(scores, key=lambda item: -scores[item])[:20]
            rows += [(*_names(user, item), f"{scores[item]:.4f}") for item in best]
        _write_csv(folder / f"{model}.csv", ("user", "item", "score"), rows)
    _write_csv(folder / "catalogue.csv", ("item",), [_names(0, item)[1:] for item in items])
    _write_csv(folder / "rows.csv", ("user",), [_names(user, 0)[:1] for user in users])
    scores = [[_draw(4, 0, user, item) for item in items] for user in users]
    np.save(folder / "scores.npy", np.array(scores))
    (folder / "config.yaml").write_text(
        "evaluation:\n  metrics: [nDCG, Recall]\n  top_k: [10]\n"
        "data:\n  truth: {path: test.csv}\n  train: {path: train.csv}\n"
        "models:\n  als: {path: als.csv}\n  pop: {path: pop.csv}\n"
    )


def write_parquet(folder, files):
    """Write CSV files of `write_data` as Parquet; `files` maps new paths to CSV files."""
    for target, source in files.items():
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        pl.read_csv(folder / source).write_parquet(folder / target)


def _draw(*numbers):
    """Return a number from 0 to 1 that depends on the arguments alone."""
    mixed = 1
    for number in numbers:
        mixed = ((mixed ^ number) * 0x9E3779B97F4A7C15 + 0x7F4A7C15) % 2**64
        mixed ^= mixed >> 29
    return mixed / 2**64


def _names(user, item):
    return f"u{user:02}", f"i{item:02}"


def _write_csv(path, header, rows):
    path.write_text("".join(f"{','.join(map(str, row))}\n" for row in (header, *rows)))
