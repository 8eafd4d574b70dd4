"""The exact top k against a stable sort, and counting against counting."""

import numpy as np
import pytest
import torch

from weft.ranking import top_k

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
CPU_TILE, ANY_TILE = topk._numpy_tile, topk._torch_tile
ROWS = 9


def zeros_but_few(rng, shape):
    return np.where(rng.random(shape) < 0.99, 0.0, rng.normal(size=shape))


def mixed(rng, shape):
    """Rows of every kind beside each other: rows with and without many ties take different ways."""
    rows = [make(rng, shape)[row] for row, make in enumerate([make for name, make in KINDS.items() if name != "mixed"][: shape[0]])]
    return np.stack(rows + [np.zeros(shape[1])] * (shape[0] - len(rows)))


KINDS = {
    "random": lambda rng, shape: rng.normal(size=shape),
    "integers": lambda rng, shape: rng.integers(-3, 4, shape).astype(float),
    "constant": lambda rng, shape: np.full(shape, -2.5),
    "zeros but few": zeros_but_few,
    "ascending": lambda rng, shape: np.tile(np.arange(shape[1]) / 4, (shape[0], 1)),
    "descending": lambda rng, shape: np.tile(-np.arange(shape[1]) / 4, (shape[0], 1)),
    "signed zeros": lambda rng, shape: rng.choice([0.0, -0.0, 1e-45, -1e-45], shape, p=[0.49, 0.49, 0.01, 0.01]),
    "half not offered": lambda rng, shape: np.where(rng.random(shape) < 0.5, -np.inf, rng.normal(size=shape)),
    "few offered": lambda rng, shape: np.where(rng.random(shape) < 0.98, -np.inf, rng.integers(0, 2, shape)),
    "nothing offered": lambda rng, shape: np.full(shape, -np.inf),
    "close together": lambda rng, shape: 1 + rng.integers(0, 5, shape) * 2.0**-50,
    "huge and tiny": lambda rng, shape: rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.integers(-300, 300, shape),
    "mixed": mixed,
}


def draw(kind, shape, dtype):
    """Scores of a kind, never NaN or +inf, as they come out of the type."""
    with np.errstate(over="ignore"):
        scores = torch.from_numpy(KINDS[kind](np.random.default_rng(shape[1]), shape)).to(dtype)
    return scores.clamp(max=torch.finfo(dtype).max)


def stable_sort(scores, k):
    """Score descending, item ascending; float64 holds every narrower type exactly."""
    return torch.from_numpy(np.argsort(-scores.double().numpy(), axis=1, kind="stable")[:, :k])


def sizes_around_block_borders():
    """(items, k): blocks hold isqrt(items / k) items, so that items = k size², or a full last block, are the borders."""
    borders = {(k * size**2 + more, k) for k in (1, 3, 10) for size in (1, 2, 3, 7, 10) for more in (-1, 0, 1)}
    return sorted({(items, k) for items, k in borders if items >= k} | {(1, 1), (500, 100), (500, 499), (500, 500), (9000, 1)})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_both_ways_equal_a_stable_sort(dtype, kind):
    for items, k in sizes_around_block_borders():
        scores = draw(kind, (ROWS, items), dtype)
        wanted = stable_sort(scores, k)
        for tile in (CPU_TILE, ANY_TILE):
            assert torch.equal(tile(scores, k), wanted), f"{tile.__name__}, {items} items, k = {k}"


@pytest.mark.parametrize("tile", [CPU_TILE, ANY_TILE])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_top_k_joins_tiles_and_gives_values(monkeypatch, dtype, kind, tile):
    monkeypatch.setattr(topk, "_numpy_tile", tile)  # what another device would run
    monkeypatch.setattr(topk, "_TILE_BYTES", 2 * 333 * dtype.itemsize)
    scores = draw(kind, (ROWS, 333), dtype)
    for k in (1, 7, 332, 333, 1000):
        values, items = top_k(scores, k)
        wanted = stable_sort(scores, k)
        assert torch.equal(items, wanted) and torch.equal(values, scores.gather(1, wanted))
        assert values.dtype == dtype and items.dtype == torch.int64 and items.shape == (ROWS, min(k, 333))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_top_k_of_nothing(shape, dtype):
    values, items = top_k(torch.empty(shape, dtype=dtype), 4)
    assert values.shape == items.shape == (shape[0], min(4, shape[1])) and items.dtype == torch.int64


@pytest.mark.parametrize("transform", [lambda scores: scores.t().contiguous().t(), lambda scores: scores.repeat(1, 2)[:, :200]])
def test_top_k_of_any_layout(transform):
    scores = transform(draw("integers", (ROWS, 200), torch.float32))
    assert not scores.is_contiguous()
    for k in (3, 150):
        assert torch.equal(top_k(scores, k)[1], stable_sort(scores, k))


class Elsewhere(torch.Tensor):
    """A tensor that says it is not on the CPU, so that counting goes the way of other devices."""

    @property
    def device(self):
        return torch.device("meta")


@pytest.mark.parametrize("tile", [1, 1 << 22])
@pytest.mark.parametrize("where", [torch.Tensor, Elsewhere])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_counts_above_and_equal(monkeypatch, dtype, kind, where, tile):
    monkeypatch.setattr(counting, "_TILE", tile)
    if where is Elsewhere:
        monkeypatch.setattr(counting, "_count_numpy", None)
    scores = draw(kind, (ROWS, 101), dtype)
    rows = torch.tensor([0, 0, 0, 2, 3, 3, 5, 8])
    own = scores[rows, torch.tensor([0, 1, 100, 7, 7, 8, 50, 99])]
    for values in (own, -own.clamp(min=-1), torch.full_like(own, -torch.inf)):
        above, equal = count_above(scores.as_subclass(where), rows, values)
        naive = [
            (sum(x > value for x in scores[row].tolist()), sum(x == value for x in scores[row].tolist()))
            for row, value in zip(rows.tolist(), values.tolist())
        ]
        assert list(zip(above.tolist(), equal.tolist())) == naive
        assert above.dtype == equal.dtype == torch.int64


@pytest.mark.parametrize("dtype", DTYPES)
def test_counts_of_what_is_offered(dtype):
    scores = draw("mixed", (ROWS + 5, 101), dtype)
    assert count_offered(scores).tolist() == [sum(x != -np.inf for x in row) for row in scores.tolist()]


def test_counts_of_no_values():
    none = torch.empty(0, dtype=torch.int64)
    assert [len(counts) for counts in count_above(torch.rand(2, 3), none, torch.empty(0))] == [0, 0]
