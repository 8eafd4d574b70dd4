"""Sets of files are all old or all new, wherever writing is interrupted or its process killed."""

import os
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from stopping import signal_before_change, stop_at
from weft.errors import InputError
from weft.evaluation import atomic_files
from weft.evaluation.atomic_files import HIDDEN_FOLDER, text_writer, write_files

FILES = (atomic_files.__file__,)
NAMES = ("a.json", "a.parquet", "b.json")
OLD = {"a.json": "old a", "b.json": "old b", "foreign": "foreign", "foreign folder": {"x": "y"}}


def write(folder, names=NAMES, text="new", table=None):
    files = {folder / name: text_writer(f"{text} {name}") for name in names}
    write_files(files, {} if table is None else {folder / table: partial(write_table, text)})


def write_table(text, folder):
    folder.mkdir()
    (folder / "part").write_text(f"{text} part")


def content(path):
    """Return what is visible of a folder: the texts of files by name, through links."""
    if path.is_dir():
        entries = [entry for entry in path.iterdir() if entry.name != HIDDEN_FOLDER]
        return {entry.name: content(entry) for entry in entries if entry.exists()}
    return path.read_text() if path.exists() else None


def fill(path, entries):
    """Write files and folders as `content` returns them."""
    if isinstance(entries, str):
        path.write_text(entries)
        return
    path.mkdir(parents=True)
    for name, entry in entries.items():
        fill(path / name, entry)


def link_files(folder):
    """Turn visible files into links, one of them relative."""
    for name in ("a.json", "foreign"):
        (folder / name).rename(folder.parent / name)
        (folder / name).symlink_to(os.path.join("..", name))
    (folder / "b.json").rename(folder.parent / "b.json")
    (folder / "b.json").symlink_to(folder.absolute().parent / "b.json")


def refuse(*_):
    raise OSError(1, "Operation not permitted")


def without_links(action, *names):
    """Return the action on a system that refuses these functions of `os`."""

    def act(*arguments, **keywords):
        with pytest.MonkeyPatch.context() as patch:
            for name in names:
                patch.setattr(os, name, refuse)
            action(*arguments, **keywords)

    return act


# Old content, a preparation of its folder, and the writing.
CASES = {
    "new folder": (None, None, write),
    "set": (OLD, None, write),
    "file": (OLD, None, partial(write, names=["b.json"])),
    "links": (OLD, link_files, write),
    "table": ({**OLD, "t": {"part": "old"}}, None, partial(write, table="t")),
    "copies": (OLD, None, without_links(write, "link")),
}
ONE_BY_ONE = {"no links": (OLD, None, without_links(write, "symlink"))}


def stop_everywhere(case, stop, check):
    """Write, stopped before each line, and check what is visible after each."""
    old, prepare, action = case
    outcomes, line, place, after = set(), 0, "", visible_after(case)
    while place is not None:
        line += 1
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary, "deep", "out")
            if old is not None:
                fill(folder, old)
            if prepare is not None:
                prepare(folder)
            before, links = content(folder), linked(folder)
            place = stop(line, partial(action, folder))
            found = content(folder)
            outcomes |= {name for name, set_ in (("old", before), ("new", after)) if found == set_}
            check(Path(temporary), before, after, links, place)
    assert outcomes == {"old", "new"} and line > 20


def visible_after(case):
    """Return the content of the folder after writing."""
    old, _, action = case
    with tempfile.TemporaryDirectory() as temporary:
        fill(Path(temporary, "out"), old or {})
        action(Path(temporary, "out"))
        return content(Path(temporary, "out"))


def linked(folder):
    """Return the text of every link in a folder by name."""
    entries = list(folder.iterdir()) if folder.exists() else []
    return {entry.name: os.readlink(entry) for entry in entries if entry.is_symlink()}


def kept_links(links):
    """Return the links that writing does not replace."""
    return {name: text for name, text in links.items() if name not in NAMES}


def check_settled(place, before, after, links, where):
    """Check that all is old or all is new, that nothing is left over, and that links are kept."""
    folder = place / "deep" / "out"
    found = content(folder)
    assert found in (before, after), where
    assert linked(folder) == (links if found == before else kept_links(links)), where
    assert not list(place.rglob(HIDDEN_FOLDER)), where


# An interrupt between the end of a block and the closing of its file leaves that to Python.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] if name in ("copies", "table") else [], id=name)
        for name, case in {**CASES, **ONE_BY_ONE}.items()
    ],
)
def test_interrupts_leave_all_old_or_all_new(case):
    stop_everywhere(case, partial(stop_at, files=FILES), check_settled)


# -------------------------------------------------------------------------------- killed processes


def kill_at(number, action):
    """Run the action in a child process that is killed before the given change of a file."""
    child = os.fork()
    if child == 0:
        signal_before_change(number, signal.SIGKILL)
        action()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return f"change {number}" if status else None


def check_next_run(place, before, after, links, where):
    """Check that all is old or all is new, and that the next process settles what was left.

    No system call replaces a folder: for a moment, the folder of a table is missing.
    """
    folder = place / "deep" / "out"
    found = content(folder)
    sets = [one if found is None or "t" in found else without_table(one) for one in (before, after)]
    assert found in sets, where
    if before is None:
        write(place, ["other"])
    else:
        write(folder, ["other"])
        folder.joinpath("other").unlink()
    check_settled(place, before, after, links, where)


def without_table(entries):
    return entries and {name: entry for name, entry in entries.items() if name != "t"}


def kill_everywhere():
    """Kill processes in every case; this process must not have threads."""
    for name, case in CASES.items():
        stop_everywhere(case, kill_at, check_next_run)
        print(name)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_killed_processes_leave_all_old_or_all_new():
    program = "import test_atomic_files; test_atomic_files.kill_everywhere()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == list(CASES)


# ------------------------------------------------------------------------------------- other rules


def test_stages_of_living_processes_stay(tmp_path):
    """A process that writes to a folder does not disturb another one."""

    def write_both(file):
        write(tmp_path, ["inner", "other"])
        file.write(b"outer")

    write_files({tmp_path / "outer": write_both, tmp_path / "last": text_writer("last")})
    assert content(tmp_path) == {
        "inner": "new inner",
        "other": "new other",
        "outer": "outer",
        "last": "last",
    }
    assert not (tmp_path / HIDDEN_FOLDER).exists()


def test_another_process_may_create_the_folder(tmp_path):
    folder = tmp_path / "deep" / "out"
    times = []

    def create_folder(file):
        times.append(1)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "b.json").write_text("other")
        file.write(b"mine")

    write_files({folder / "a.json": create_folder, folder / "b.json": text_writer("mine")})
    assert content(folder) == {"a.json": "mine", "b.json": "mine"} and len(times) == 2


def test_files_of_several_folders(tmp_path):
    write_files({tmp_path / name: text_writer(name) for name in ("a/x", "b/c/x", "a/../a/y")})
    assert content(tmp_path) == {"a": {"x": "a/x", "y": "a/../a/y"}, "b": {"c": {"x": "b/c/x"}}}


def test_the_folder_of_stages_is_never_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / HIDDEN_FOLDER).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"a\.json: cannot be written \(.*is a link; remove it\)"):
        write(tmp_path, ["a.json"])
    assert content(tmp_path) == {"elsewhere": {}}


@pytest.mark.parametrize("side", ["/", "..", "elsewhere"])
def test_settling_moves_nothing_from_elsewhere(tmp_path, side):
    """A folder from a stranger may bring a stage that leads out of it."""
    stage = tmp_path / "out" / HIDDEN_FOLDER / "0"
    fill(stage, {"old": {"precious": "x"}, "new": {}, "elsewhere": {"precious": "y"}})
    (stage / "current").symlink_to(side)
    (tmp_path / "out" / "precious").symlink_to(f"{HIDDEN_FOLDER}/0/current/precious")
    write(tmp_path / "out", ["a"])
    assert content(tmp_path / "out") == {"a": "new a"} and not stage.exists()


def test_an_error_of_the_disk_names_the_file(tmp_path):
    def fill_disk(file):
        raise OSError(28, os.strerror(28))

    files = {tmp_path / "out" / "a": text_writer("a"), tmp_path / "out" / "b": fill_disk}
    with pytest.raises(InputError, match=r"out/b: cannot be written \(No space left on device\)"):
        write_files(files)
    assert list(tmp_path.iterdir()) == []
