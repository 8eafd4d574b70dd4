"""Commands that are killed or interrupted leave complete files, and resume with the same numbers.

Processes are forked from one that has imported everything and used nothing, so that it has no
threads: a command starts in milliseconds.
"""

import gzip
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import weft
from engines import require_ray
from stopping import signal_before_change, stop_at
from test_caller_data import KERNELS
from weft.evaluation.atomic_files import HIDDEN_FOLDER
from weft.ranking.kernels import using

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork"),
]
MOMENTS = 20  # of each signal
NUM_CHANGES = 1000  # of files, by one command
USERS, ITEMS, LENGTH = 2000, 200, 20
COMMANDS = {
    name: [
        *("evaluate", "--truth", "truth.csv.gz", "--recs", f"als={name}.csv.gz"),
        *("--recs", "pop=pop.csv.gz", "-m", "nDCG,Gini", "-k", "10", "--out", "out", "--per-user"),
        *("--batch-size", "150", "--checkpoint", f"{name}.state"),
    ]
    for name in "ab"
}


def write_inputs(folder):
    draw = np.random.default_rng(25)
    for name, columns in (("a", 3), ("b", 3), ("pop", 3), ("truth", 2)):
        rows = [",".join(("user", "item", "score")[:columns])]
        for user in range(USERS):
            items = draw.permutation(ITEMS)[:LENGTH]
            rows += [f"u{user},i{item}" + f",{-n}" * (columns - 2) for n, item in enumerate(items)]
        with gzip.open(folder / f"{name}.csv.gz", "wt", compresslevel=1) as file:
            file.write("\n".join(rows) + "\n")


def run_command(arguments):
    """Run a command in this process, and end it with the exit code."""
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["weft", *arguments]
    code = 99
    try:
        weft.cli.main()
    except SystemExit as exit_:
        code = exit_.code
    except KeyboardInterrupt:  # before the command began
        code = 128 + signal.SIGINT
    finally:
        os._exit(code)


def fork(arguments, prepare=lambda: None):
    """Start a command in a child process, which first calls `prepare`."""
    child = os.fork()
    if child == 0:
        prepare()
        run_command(arguments)
    return child


def wait(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def signature(folder):
    """Return all numbers of a result folder, and the names of its files."""
    results = []
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text())
        for table, digest in document["digests"].items():
            content = (folder / document[table]).read_bytes()
            assert digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
        results.append([document[key] for key in ("name", "values", "counts", "digests")])
    names = sorted(path.name for path in folder.iterdir() if path.name != HIDDEN_FOLDER)
    return results, (folder / "summary.csv").read_text(), names


class Interruptions:
    """Commands that are stopped by one signal, one after another, in the current folder."""

    def __init__(self, signal_number):
        self.signal_number = signal_number
        self.draw = random.Random(int(signal_number))
        self.signatures, self.num_stopped, self.num_resumed = {}, 0, 0

    def run(self):
        for name, arguments in COMMANDS.items():
            start = time.monotonic()
            assert wait(fork(arguments)) == 0, Path("log").read_text()
            self.signatures[name] = signature(Path("out"))
        self.seconds = time.monotonic() - start
        assert self.signatures["a"] != self.signatures["b"]
        for moment in range(MOMENTS):
            self.stop("ab"[moment % 2], by_time=moment % 4 < 2)
        for name, arguments in COMMANDS.items():
            self.num_resumed += any(Path().glob(f"{name}.state*"))
            assert wait(fork(arguments)) == 0, Path("log").read_text()
            assert signature(Path("out")) == self.signatures[name]
        assert not list(Path().glob("*.state*")) and not list(Path().rglob(HIDDEN_FOLDER))
        assert self.num_stopped > MOMENTS / 2 and self.num_resumed

    def stop(self, name, *, by_time):
        """Start a command, and send it the signal at a random time or before a random change."""
        resumes = any(Path().glob(f"{name}.state*"))
        number = 0 if by_time else self.draw.randrange(1, NUM_CHANGES)
        child = fork(
            COMMANDS[name], lambda: number and signal_before_change(number, self.signal_number)
        )
        if by_time:
            time.sleep(self.draw.random() * self.seconds)
            os.kill(child, self.signal_number)
        code = wait(child)
        is_killed = self.signal_number == signal.SIGKILL
        stopped = -signal.SIGKILL if is_killed else 128 + self.signal_number
        assert code in (0, stopped, -self.signal_number), (code, Path("log").read_text())
        self.num_stopped += code != 0
        self.num_resumed += code == 0 and resumes
        found = signature(Path("out"))
        assert found in self.signatures.values()
        if code == 0:
            assert found == self.signatures[name]
        if not is_killed:
            left = [*Path().rglob(HIDDEN_FOLDER), *Path("temporary").iterdir()]
            assert not left, (left, code, Path("log").read_text())


def interrupt_commands():
    """Run in a process without threads."""
    weft.evaluation.checkpoint._SAVE_SECONDS = 0.0
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        Interruptions(signal_number).run()
        print(signal_number.name)


IMPORTS = (
    "torch, polars, weft.cli, weft.config.run, weft.evaluation.api, weft.report.result_folder, "
    "weft.report.terminal, weft.evaluation.checkpoint, weft.metrics.registry"
)


def run_without_threads(function, folder):
    """Run a function of this module in a process that only has imported; return its output."""
    (folder / "temporary").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", f"import {IMPORTS}, test_kills; test_kills.{function.__name__}()"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent),
            "TMPDIR": str(folder / "temporary"),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


def test_stopped_commands_leave_complete_files_and_resume(tmp_path):
    write_inputs(tmp_path)
    assert run_without_threads(interrupt_commands, tmp_path) == ["SIGINT", "SIGTERM", "SIGKILL"]


def test_sigterm_ends_a_command_on_ray(tmp_path):
    """Ray itself aborts at some moments of its start; the signal is then sent a little later."""
    require_ray()
    write_inputs(tmp_path)
    command = [*COMMANDS["a"][: COMMANDS["a"].index("--batch-size")], "--engine", "ray"]
    for seconds in (7, 9, 11):
        process = subprocess.Popen(
            [sys.executable, "-m", "weft", *command],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(seconds)  # Ray starts
        process.send_signal(signal.SIGTERM)
        printed = process.communicate(timeout=60)[1]
        assert not (tmp_path / "out").exists() and not list(tmp_path.rglob(HIDDEN_FOLDER))
        if process.returncode != -signal.SIGABRT:
            break
    assert process.returncode == 143 and printed == "interrupted by SIGTERM\n"


# ------------------------------------------------------------------------- memory-mapped scores

MATRIX = (40, 3000)  # users, items
PACKAGE = (str(Path(weft.__file__).parent),)


class Writer(weft.UserAverageTopKMetric):
    """Does what masking must not do: writes to the scores of the caller, and is killed."""

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        np.memmap("scores", np.float32, "r+", shape=MATRIX)[0, 0] = -np.inf
        os.kill(os.getpid(), signal.SIGKILL)


def evaluate_map(kernel, *metrics):
    scores = np.memmap("scores", np.float32, "r+", shape=MATRIX)
    draw = np.random.default_rng(11)
    truth, train = ((draw.random(MATRIX) < share).astype(np.int8) for share in (0.01, 0.3))
    with using(kernel):
        weft.evaluate(
            scores, truth, train=train, metrics=["nDCG@5", "AUC", "Gini@10", *metrics], batch_size=5
        )


def kill(action, line=0):
    """Run an action in a child process, killed before a line of the package; return its code."""
    child = os.fork()
    if child == 0:
        stop_at(line, action, files=PACKAGE, stop=lambda: os.kill(os.getpid(), signal.SIGKILL))
        os._exit(0)
    return wait(child)


def kill_evaluations_of_a_map():
    """Run in a process without threads."""
    content = np.random.default_rng(1).random(MATRIX, np.float32).tobytes()
    Path("scores").write_bytes(content)
    for kernel in KERNELS:
        codes = []
        for line in random.Random(11).sample(range(4000, 12_000), 8):
            codes.append(kill(partial(evaluate_map, kernel), line))
            assert Path("scores").read_bytes() == content, (kernel, line)
        assert codes.count(-signal.SIGKILL) >= 4, (kernel, codes)
    assert kill(partial(evaluate_map, KERNELS[0], Writer(5))) == -signal.SIGKILL
    assert Path("scores").read_bytes() != content  # a write is found
    print("unchanged")


def test_a_map_of_scores_stays_equal_when_an_evaluation_is_killed(tmp_path):
    assert run_without_threads(kill_evaluations_of_a_map, tmp_path) == ["unchanged"]
