"""The native loops at the edges of their input: odd memory, nothing, and more than 2^31 cells.

`test_sanitizers` runs these tests with a library that checks every access."""

import mmap

import numpy as np
import pytest
import torch

import weft
from weft._native import call, is_built
from weft.data.tensors import SparseRows
from weft.ranking import MaskedScores
from weft.ranking.kernels import native_cpu

pytestmark = pytest.mark.skipif(
    not is_built(), reason="there was no C++ compiler when Weft was installed"
)
RNG = np.random.default_rng(6)
SCORES = RNG.normal(size=(5, 37))
DTYPES = [np.float32, np.float64]
_MAP_NORESERVE = 0x4000  # of Linux, in `mmap` from Python 3.13 on


def misaligned(array):
    """The same numbers, one byte beside where numbers of their type begin."""
    memory = np.empty(array.nbytes + 1, dtype=np.uint8)
    odd = memory[1:].view(array.dtype).reshape(array.shape)
    odd[...] = array
    assert not odd.flags.aligned
    return odd


LAYOUTS = {
    "misaligned": misaligned,
    "transposed": lambda array: np.asfortranarray(array),
    "every second row": lambda array: np.repeat(array, 2, axis=0)[::2],
    "every second column": lambda array: np.repeat(array, 2, axis=1)[:, ::2],
    "backwards": lambda array: array[:, ::-1].copy()[:, ::-1],
    "read-only": lambda array: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_of_the_memory(layout, dtype):
    scores = SCORES.astype(dtype)
    truth = (RNG.random(scores.shape) < 0.2).astype(int)
    odd = LAYOUTS[layout](scores)
    assert np.array_equal(odd, scores)
    options = {"metrics": ["nDCG", "Recall", "AUC", "Gini"], "top_k": [3, 50]}
    found, expected = (weft.evaluate(one, truth, **options) for one in (odd, scores))
    assert repr(found.entries) == repr(expected.entries)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0), (1, 1), (2, 64), (3, 65)])
@pytest.mark.parametrize("k", [0, 1, 5, 100])
def test_no_rows_no_items_and_any_cutoff(shape, k, dtype):
    scores = RNG.normal(size=shape).astype(dtype)
    k = min(k, shape[1])
    items = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    values, found = native_cpu.top_k(MaskedScores(torch.from_numpy(scores)), k)
    assert found.tolist() == items.tolist()
    assert values.tolist() == np.take_along_axis(scores, items, axis=1).tolist()


# --------------------------------------------------------------------------------------------------
# More than 2^31 cells, in memory of which only the pages that are used exist


def reserve(cells, dtype):
    """Return an array of zeros whose pages take no memory until they are used."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    try:
        region = mmap.mmap(-1, cells * np.dtype(dtype).itemsize, flags=flags)
    except OSError as error:
        pytest.skip(f"the system does not reserve {cells:,} cells without memory ({error})")
    return np.frombuffer(region, dtype=dtype)


def test_reads_scores_beyond_2_31_cells():
    rows, items = 5, (1 << 29) + 7
    scores = reserve(rows * items, np.float32).reshape(rows, items)
    cells = np.array([0, items - 1])
    scores[-1, cells] = 1.5, 2.5
    offsets = torch.tensor([0] * rows + [2])
    interactions = SparseRows(offsets, torch.from_numpy(cells), torch.ones(2), items)
    found = native_cpu.read(MaskedScores(torch.from_numpy(scores)), interactions)
    assert rows * items > 1 << 31 and found.tolist() == [1.5, 2.5]


def test_groups_rows_beyond_2_31_entries():
    end = (1 << 31) + 9
    grouped, following = reserve(end, np.int32), np.array([0, end - 2])
    values = np.array([3, 4, 5], dtype=np.int32)
    call("scatter_by_owner", np.array([1, 0, 1], dtype=np.int32), 3, following, 4, values, grouped)
    assert grouped[0] == 4 and grouped[-2:].tolist() == [3, 5]
    assert following.tolist() == [1, end]


def test_copies_runs_beyond_2_31_bytes():
    size = (1 << 28) + 100
    values, copied = reserve(size, np.int64), np.empty(3, dtype=np.int64)
    values[-3:] = 7, 8, 9
    call("copy_runs", np.array([size - 3]), np.array([3]), 1, 8, values, copied)
    assert copied.tolist() == [7, 8, 9]
