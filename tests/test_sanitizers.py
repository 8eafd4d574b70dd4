"""The tests of the native loops with a library that checks memory and undefined behaviour."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMPILER = shutil.which("g++")
TESTS = ("test_native.py", "test_native_edges.py", "test_kernels.py")
FLAGS = (
    *("-std=c++17", "-shared", "-fPIC", "-g", "-O1", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)
# The library of Weft is replaced before anything loads it.
RUN = """
import sys
from pathlib import Path
import weft._native
weft._native._PATH = Path(sys.argv[1])
{body}
"""
# Reads the first cell behind an array, if the index is its length.
OUT_OF_BOUNDS = """
#include <cstdint>
extern "C" int64_t read_cell(const int64_t* cells, int64_t index) { return cells[index]; }
extern "C" int64_t add(int64_t number, int64_t other) { return number + other; }
"""
READ = "import numpy as np; print(weft._native.call('read_cell', np.arange(5), {index}))"
ADD = "print(weft._native.call('add', 2**63 - 1, {other}))"


def sanitizer_libraries():
    """The run-time libraries, which must be loaded before Python's own."""
    if COMPILER is None:
        return None
    names = ("libasan.so", "libubsan.so")
    command = [COMPILER, "-print-file-name={}"]
    paths = [
        subprocess.run(
            [part.format(name) for part in command], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in names
    ]
    return [os.path.realpath(path) for path in paths] if all(map(os.path.isabs, paths)) else None


LIBRARIES = sanitizer_libraries()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(LIBRARIES is None, reason="g++ with its sanitizers is not installed"),
]


def compile_library(folder, *sources):
    library = folder / "_native.so"
    command = [COMPILER, *FLAGS, "-o", str(library), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return library


def run(library, body):
    environment = os.environ | {
        "LD_PRELOAD": ":".join(LIBRARIES),
        # Python keeps memory until it ends. Its own allocator would hide overruns.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", RUN.format(body=body), str(library)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
    )


def test_native_loops_pass_their_tests_under_the_sanitizers(tmp_path):
    library = compile_library(tmp_path, *sorted((ROOT / "src/weft/_native").glob("*.cpp")))
    # Reports of the sanitizers, which end the process, must not be captured.
    # Of the many tests of kernels: those of the native one, with all kinds of rows in one matrix.
    few = "mixed or nothing or layout or empty or offered or nan"
    chosen = ["-k", f"test_native or (({few}) and not (kernel0 or kernel1))"]
    options = [
        *chosen,
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        "--capture=sys",
    ]
    arguments = [*options, *(f"tests/{name}" for name in TESTS)]
    done = run(library, f"import pytest; sys.exit(pytest.main({arguments!r}))")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        (READ.format(index=4), READ.format(index=5), "heap-buffer-overflow"),
        (ADD.format(other=0), ADD.format(other=1), "signed integer overflow"),
    ],
    ids=["address", "undefined"],
)
def test_sanitizers_find_what_they_are_for(right, wrong, says, tmp_path):
    source = tmp_path / "wrong.cpp"
    source.write_text(OUT_OF_BOUNDS)
    library = compile_library(tmp_path, source)
    assert run(library, right).returncode == 0
    done = run(library, wrong)
    assert done.returncode != 0 and says in done.stderr, done.stderr[-3000:]
