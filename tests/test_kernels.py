"""All kernels against a stable sort and plain counting."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from weft._native import is_built
from weft.data.devices import treat_cpu_as_device
from weft.data.tensors import SparseRows
from weft.ranking import MaskedScores, count_offered, top_k
from weft.ranking.kernels import any_device as anywhere
from weft.ranking.kernels import get_kernel, using
from weft.ranking.kernels import native_cpu as native
from weft.ranking.kernels import numpy_cpu as cpu

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
KERNELS = [
    cpu,
    anywhere,
    *([native] if is_built() else []),
]  # without a compiler there is no native one to test
ROWS = 9


def zeros_but_few(rng, shape):
    return np.where(rng.random(shape) < 0.99, 0.0, rng.normal(size=shape))


def mixed(rng, shape):
    """Rows of every kind beside each other: rows with and without many ties take different ways."""
    rows = [
        make(rng, shape)[row]
        for row, make in enumerate(
            [make for name, make in KINDS.items() if name != "mixed"][: shape[0]]
        )
    ]
    return np.stack(rows + [np.zeros(shape[1])] * (shape[0] - len(rows)))


KINDS = {
    "random": lambda rng, shape: rng.normal(size=shape),
    "integers": lambda rng, shape: rng.integers(-3, 4, shape).astype(float),
    "constant": lambda rng, shape: np.full(shape, -2.5),
    "zeros but few": zeros_but_few,
    "ascending": lambda rng, shape: np.tile(np.arange(shape[1]) / 4, (shape[0], 1)),
    "descending": lambda rng, shape: np.tile(-np.arange(shape[1]) / 4, (shape[0], 1)),
    "signed zeros": lambda rng, shape: rng.choice(
        [0.0, -0.0, 1e-45, -1e-45], shape, p=[0.49, 0.49, 0.01, 0.01]
    ),
    "half not offered": lambda rng, shape: np.where(
        rng.random(shape) < 0.5, -np.inf, rng.normal(size=shape)
    ),
    "few offered": lambda rng, shape: np.where(
        rng.random(shape) < 0.98, -np.inf, rng.integers(0, 2, shape)
    ),
    "nothing offered": lambda rng, shape: np.full(shape, -np.inf),
    "close together": lambda rng, shape: 1 + rng.integers(0, 5, shape) * 2.0**-50,
    "huge and tiny": lambda rng, shape: (
        rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.integers(-300, 300, shape)
    ),
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
    """(items, k): blocks hold isqrt(items / k) items, so that items = k size², or a full last
    block, are the borders.
    """
    borders = {
        (k * size**2 + more, k)
        for k in (1, 3, 10)
        for size in (1, 2, 3, 7, 10)
        for more in (-1, 0, 1)
    }
    return sorted(
        {(items, k) for items, k in borders if items >= k}
        | {(1, 1), (500, 100), (500, 499), (500, 500), (9000, 1)}
    )


@pytest.mark.parametrize("short_row", [0, 1 << 16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_top_k_matches_a_stable_sort(monkeypatch, dtype, kind, short_row):
    monkeypatch.setattr(
        cpu, "_SHORT_ROW_SCORES", short_row
    )  # 0: every row is looked into by blocks, as long ones are
    for items, k in sizes_around_block_borders():
        scores = draw(kind, (ROWS, items), dtype)
        wanted = stable_sort(scores, k)
        for kernel in KERNELS:
            assert torch.equal(kernel.top_k(MaskedScores(scores), k)[1], wanted), (
                f"{kernel.__name__}, {items} items, k = {k}"
            )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_top_k_matches_a_stable_sort_in_a_large_catalogue(dtype, kind):
    scores = draw(kind, (ROWS, 70_001), dtype)
    wanted = stable_sort(scores, 101)
    for kernel in KERNELS:
        assert torch.equal(kernel.top_k(MaskedScores(scores), 101)[1], wanted), kernel.__name__


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_top_k_joins_tiles_and_gives_values(monkeypatch, dtype, kind, kernel):
    monkeypatch.setattr(kernel, "_TILE_SCORES", 2 * 333)
    monkeypatch.setattr(cpu, "_MIN_TILE_ROWS", 1)
    scores = draw(kind, (ROWS, 333), dtype)
    for k in (1, 7, 332, 333, 1000):
        with using(kernel):
            values, items = top_k(scores, k)
        wanted = stable_sort(scores, k)
        assert torch.equal(items, wanted) and torch.equal(values, scores.gather(1, wanted))
        assert (
            values.dtype == dtype
            and items.dtype == torch.int64
            and items.shape == (ROWS, min(k, 333))
        )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("items", "k"), [(5, 2), (500, 3), (70_001, 7), (70_001, 101)])
def test_rows_with_nan_or_inf_start_with_it(kernel, dtype, items, k):
    for bad in (torch.nan, -torch.tensor(torch.nan), torch.inf):
        scores = draw("random", (ROWS, items), dtype)
        scores[4, items // 2] = bad
        first = kernel.top_k(MaskedScores(scores), k)[0][:, 0]
        assert (first < torch.inf).tolist() == [row != 4 for row in range(ROWS)]


def test_selects_the_kernel_of_the_device():
    there, elsewhere = torch.device("cpu"), torch.device("meta")
    assert (
        get_kernel(there) is (native if is_built() else cpu) and get_kernel(elsewhere) is anywhere
    )
    with using(anywhere):
        assert get_kernel(there) is anywhere
    assert get_kernel(there) is not anywhere


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_top_k_of_nothing(shape, dtype):
    values, items = top_k(torch.empty(shape, dtype=dtype), 4)
    assert (
        values.shape == items.shape == (shape[0], min(4, shape[1])) and items.dtype == torch.int64
    )


@pytest.mark.parametrize(
    "transform",
    [lambda scores: scores.t().contiguous().t(), lambda scores: scores.repeat(1, 2)[:, :200]],
)
def test_top_k_of_any_layout(transform):
    scores = transform(draw("integers", (ROWS, 200), torch.float32))
    assert not scores.is_contiguous()
    for k in (3, 150):
        assert torch.equal(top_k(scores, k)[1], stable_sort(scores, k))


def cells_of(rows, items, num_items):
    """Cells in rows 0 to ROWS - 1; a row may have many or none."""
    offsets = torch.searchsorted(rows.contiguous(), torch.arange(ROWS + 1))
    return SparseRows(offsets, items, torch.ones(len(items), dtype=torch.float64), num_items)


def count_offered_by(kernel, scores):
    with using(kernel):
        return count_offered(scores)


def draw_masks(rows, items, share):
    """Masked cells: none, all and one of the first rows, a share of the others."""
    is_masked = torch.rand((rows, items), generator=torch.Generator().manual_seed(items)) < share
    is_masked[0], is_masked[1], is_masked[2] = False, True, torch.arange(items) == items - 1
    number, item = is_masked.nonzero(as_tuple=True)
    offsets = torch.searchsorted(number.contiguous(), torch.arange(rows + 1))
    ones = torch.ones(len(item), dtype=torch.float64)
    return SparseRows(offsets, item, ones, items), is_masked


@pytest.mark.parametrize("share", [0.03, 0.5, 0.97])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_scores_count_as_minus_infinity(monkeypatch, dtype, kind, kernel, share):
    """Every operation gives what it gives for a masked copy, and the scores stay as they are."""
    monkeypatch.setattr(kernel, "_TILE_SCORES", 3 * 333)
    monkeypatch.setattr(cpu, "_MIN_TILE_ROWS", 1)
    for items, ks in ((50, (1, 7, 50)), (333, (3, 40, 333)), (5_000, (1, 20, 101))):
        scores = draw(kind, (ROWS, items), dtype)
        before = scores.clone()
        masked, is_masked = draw_masks(ROWS, items, share)
        expected = scores.masked_fill(is_masked, -torch.inf)
        given = MaskedScores(scores, masked)
        for k in ks:
            values, best = kernel.top_k(given, k)
            wanted = stable_sort(expected, k)
            assert torch.equal(values, expected.gather(1, wanted)) and values.dtype == dtype
            is_offered = values > -torch.inf
            assert torch.equal(best[is_offered], wanted[is_offered]), f"{items} items, k = {k}"
            assert best.min() >= 0 and best.max() < items
        cells = cells_of(torch.arange(ROWS), torch.arange(ROWS) * 5, items)
        own = expected[cells.rows, cells.items]
        assert torch.equal(kernel.read(given, cells), own)
        for values in (own, own.clamp(min=-1)):
            counts = kernel.double_ranks(MaskedScores(expected), cells, values)
            for got, wanted in zip(kernel.double_ranks(given, cells, values), counts):
                assert got.tolist() == wanted.tolist()
        offered = (expected > -torch.inf).sum(1).tolist()
        assert count_offered_by(kernel, given).tolist() == offered
        assert scores.view(torch.uint8).equal(before.view(torch.uint8))


@pytest.mark.parametrize("on_host", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_masked_scores(dtype, on_host):
    scores = draw("mixed", (ROWS, 40), dtype)
    masked, is_masked = draw_masks(ROWS, 40, 0.3)
    others, is_other = draw_masks(ROWS, 40, 0.1)
    is_valid = None
    if not on_host:  # padding may have the item of a valid interaction
        is_valid = torch.ones(len(others.items), dtype=torch.bool)
        is_valid[-1] = False
    expected = scores.masked_fill(is_masked, -torch.inf)
    with nullcontext() if on_host else treat_cpu_as_device():
        given = MaskedScores(scores, masked)
        rows = torch.tensor([8, 1, 1, 0, 5])
        assert torch.equal(given.select(rows), expected[rows])
        for step in (1, 4, 99):
            tiles = [tile.clone() for _, tile in given.tiles(step)]
            assert torch.equal(torch.cat(tiles), expected) and len(tiles) == -(-ROWS // step)
        assert torch.equal(given.to_dense(), expected)
        both = given.mask(replace(others, is_valid=is_valid)).to_dense()
        assert torch.equal(both, expected.masked_fill(is_other, -torch.inf))
        assert torch.equal(MaskedScores(scores).mask(masked).to_dense(), expected)
        untouched = MaskedScores(scores)
        assert torch.equal(untouched.select(rows), scores[rows])
        assert untouched.to_dense().data_ptr() != scores.data_ptr()


@pytest.mark.parametrize("tile", [1, 256, 1 << 22])
@pytest.mark.parametrize("span", [7, 1 << 16])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_counts_scores_above_and_equal(monkeypatch, dtype, kind, kernel, span, tile):
    monkeypatch.setattr(kernel, "_TILE_SCORES", tile)
    monkeypatch.setattr(cpu, "_SPAN_SCORES", span)
    monkeypatch.setattr(cpu, "_SPAN_VALUES", 2 if span == 7 else 32)
    scores = draw(kind, (ROWS, 101), dtype)
    cells = cells_of(
        torch.tensor([0, 0, 0, 2, 3, 3, 5, 8]), torch.tensor([0, 1, 100, 7, 7, 8, 50, 99]), 101
    )
    own = scores[cells.rows, cells.items]
    for values in (own, -own.clamp(min=-1), torch.full_like(own, -torch.inf)):
        ranks, offered = kernel.double_ranks(MaskedScores(scores), cells, values)
        pairs = list(zip(cells.rows.tolist(), values.tolist()))
        naive = [
            sum(
                (x > value) + (x >= value)
                for row, value in pairs
                for x in scores[row].tolist()
                if row == wanted and value > -np.inf
            )
            for wanted in range(ROWS)
        ]
        assert ranks.tolist() == naive
        assert offered.tolist() == [sum(x != -np.inf for x in row) for row in scores.tolist()]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("items", [13, 2_100])
def test_counts_in_rows_of_different_lengths(items, dtype, kind, kernel):
    """Values that differ and values that do not, among the scores and between them, in rows of all
    kinds of lengths.
    """
    scores = draw(kind, (ROWS, items), dtype)
    numbers = [0, 1, 4, 5, 6, 9, 10, 13, 2]
    rows = torch.arange(len(numbers)).repeat_interleave(torch.tensor(numbers))
    cells = cells_of(rows, torch.cat([torch.arange(number) for number in numbers]), items)
    own = scores[cells.rows, cells.items]
    halves = torch.where(own > -torch.inf, own / 2, own)
    for values in (own, halves, torch.cat([own[::2], halves[1::2]])):
        above = [
            (scores[row] > value).sum() + (scores[row] >= value).sum()
            for row, value in zip(rows, values)
        ]
        naive = torch.zeros(ROWS, dtype=torch.int64).index_add_(
            0, rows, torch.stack(above).masked_fill(values == -torch.inf, 0)
        )
        assert (
            kernel.double_ranks(MaskedScores(scores), cells, values)[0].tolist() == naive.tolist()
        )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_counts_offered_items(dtype, kernel):
    scores = draw("mixed", (ROWS + 5, 101), dtype)
    assert count_offered_by(kernel, MaskedScores(scores)).tolist() == [
        sum(x != -np.inf for x in row) for row in scores.tolist()
    ]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(0, 3), (0, 0), (2, 0)])
def test_counts_in_empty_scores(kernel, shape):
    cells = SparseRows(
        torch.zeros(shape[0] + 1, dtype=torch.int64),
        *(torch.empty(0, dtype=torch.int64),) * 2,
        shape[1],
    )
    assert count_offered_by(kernel, MaskedScores(torch.empty(shape))).tolist() == [0] * shape[0]
    assert [
        counts.tolist()
        for counts in kernel.double_ranks(MaskedScores(torch.empty(shape)), cells, torch.empty(0))
    ] == [[0] * shape[0]] * 2


@pytest.mark.parametrize("kernel", KERNELS)
def test_counts_of_no_values(kernel):
    none = torch.empty(0, dtype=torch.int64)
    ranks, offered = kernel.double_ranks(
        MaskedScores(torch.zeros(ROWS, 3)), cells_of(none, none, 3), torch.empty(0)
    )
    assert ranks.tolist() == [0] * ROWS and offered.tolist() == [3] * ROWS


@pytest.mark.parametrize("table", [0, 1 << 23])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("depth", [1, 5, 100, 150])
@pytest.mark.parametrize("kind", KINDS)
def test_finds_hits_in_lists(monkeypatch, kind, depth, kernel, table):
    monkeypatch.setattr(cpu, "_SPAN_SCORES", 3 * depth)
    monkeypatch.setattr(anywhere, "_TABLE_SCORES", table)
    monkeypatch.setattr(anywhere, "_TILE_SCORES", 4 * 120)  # some rows, and fewer in the end
    scores = draw(kind, (ROWS, 120), torch.float32)
    rng = np.random.default_rng(depth)
    rows, items = map(torch.from_numpy, np.nonzero(rng.random((ROWS, 120)) < 0.1))
    cells = cells_of(rows, items, 120)
    own = scores[rows, items]
    values, ranked = top_k(scores, depth)
    values = torch.nn.functional.pad(values, (0, depth - values.shape[1]), value=-torch.inf)
    ranked = torch.nn.functional.pad(ranked, (0, depth - ranked.shape[1]), value=-1)
    ranked = torch.where(values > -torch.inf, ranked, -1)
    lists = ranked.tolist()
    naive = [
        lists[row].index(item) if item in lists[row] else depth
        for row, item in zip(rows.tolist(), items.tolist())
    ]
    assert kernel.find_positions(ranked, values, cells, own).tolist() == naive
    if kernel is anywhere:  # which may be given cells that do not count
        counted = torch.from_numpy(rng.random(len(items)) < 0.5)
        some = [position if counts else depth for position, counts in zip(naive, counted.tolist())]
        assert (
            kernel.find_positions(ranked, values, replace(cells, is_valid=counted), own).tolist()
            == some
        )


@pytest.mark.parametrize("table", [0, 1 << 23])
def test_finds_no_hits_in_empty_lists(monkeypatch, table):
    monkeypatch.setattr(anywhere, "_TABLE_SCORES", table)
    none = torch.empty(0, dtype=torch.int64)
    for items in (torch.full((ROWS, 4), -1), torch.empty((ROWS, 0), dtype=torch.int64)):
        for cells in (
            cells_of(none, none, 3),
            cells_of(torch.tensor([1, 8]), torch.tensor([2, 0]), 3),
        ):
            scores = torch.zeros(len(cells.items))
            found = [
                kernel.find_positions(items, items.float(), cells, scores).tolist()
                for kernel in KERNELS
            ]
            assert found == [[items.shape[1]] * len(cells.items)] * len(KERNELS)


def test_counts_many_values_in_a_long_row():
    scores = torch.ones(1, 70_001)
    cells = SparseRows(
        torch.tensor([0, 300]), torch.arange(300), torch.ones(300, dtype=torch.float64), 70_001
    )
    for kernel in KERNELS:
        ranks, offered = kernel.double_ranks(
            MaskedScores(scores), cells, torch.zeros(300)
        )  # every score is above every value
        assert ranks.tolist() == [300 * 2 * 70_001] and offered.tolist() == [70_001]


SCANS = {
    "numpy": (cpu, None),
    "torch": (anywhere, None),
    # The processor may have fewer instruction sets: then the highest is tested again.
    **({f"native, {number}": (native, number) for number in (0, 1, 2)} if is_built() else {}),
}


def scanning_kernels(monkeypatch):
    """Every kernel, the native one with each instruction set."""
    for kernel, instruction_set in SCANS.values():
        monkeypatch.setattr(native, "_INSTRUCTION_SET", instruction_set)
        yield kernel


def expect_scan(scores, k, cells):
    """Plain Python over masked scores: values and items of each list, and (score, position) of each
    cell; and doubled ranks and offered items of each row.
    """
    table = scores.double().tolist()
    lists, cells_found, ranks = [], [], [0] * len(table)
    for row in table:
        order = sorted(range(len(row)), key=lambda item, row=row: (-row[item], item))
        lists.append([(row[item], item) for item in order if row[item] > -np.inf][:k])
    for row, item in zip(cells.rows.tolist(), cells.items.tolist()):
        score, items = table[row][item], [item for _, item in lists[row]][: k - 1]
        cells_found.append((score, items.index(item) if item in items else k - 1))
        if score > -np.inf:
            ranks[row] += sum((x > score) + (x >= score) for x in table[row])
    return lists, cells_found, ranks, [sum(x > -np.inf for x in row) for row in table]


def check_scan(kernel, given, k, cells, expected):
    lists, found, ranks, offered = expected
    for counts_ranks in (False, True):
        scan = kernel.scan(given, k, cells, counts_ranks)
        assert scan.values.shape == scan.items.shape == (len(lists), k)
        assert scan.values.dtype == scan.scores.dtype == given.data.dtype
        for values, items, wanted in zip(scan.values.tolist(), scan.items.tolist(), lists):
            assert list(zip(values, items))[: len(wanted)] == wanted
            assert values[len(wanted) :] == [-np.inf] * (k - len(wanted))
        assert list(zip(scan.scores.tolist(), scan.positions.tolist())) == found
        if counts_ranks:
            assert (scan.double_ranks.tolist(), scan.offered.tolist()) == (ranks, offered)
        else:
            assert scan.double_ranks is None and scan.offered is None


def draw_cells(num_items, numbers=(0, 1, 2, 4, 7, 8, 15, 16, 40)):
    """So many cells in each row, as far as there are items: groups of values of all sizes."""
    rng = np.random.default_rng(num_items)
    chosen = [np.sort(rng.permutation(num_items)[:number]) for number in numbers]
    rows = torch.arange(ROWS).repeat_interleave(torch.tensor([len(some) for some in chosen]))
    return cells_of(rows, torch.from_numpy(np.concatenate(chosen)), num_items)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scan_matches_plain_python(monkeypatch, dtype, kind, share):
    """Also for cells that are masked, and for lists longer than the catalogue."""
    for items, ks in ((1, (2, 5)), (63, (9, 64)), (64, (30,)), (333, (2, 101))):
        scores = draw(kind, (ROWS, items), dtype)
        before = scores.clone()
        masked, is_masked = draw_masks(ROWS, items, share)
        given = MaskedScores(scores, masked) if share else MaskedScores(scores)
        expected = scores.masked_fill(is_masked, -torch.inf) if share else scores
        cells = draw_cells(items)
        for k in ks:
            wanted = expect_scan(expected, k, cells)
            for kernel in scanning_kernels(monkeypatch):
                check_scan(kernel, given, k, cells, wanted)
        assert scores.view(torch.uint8).equal(before.view(torch.uint8))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scan_of_long_rows(monkeypatch, dtype, kind):
    """Rows of several blocks, of which only the first ones give the bound."""
    scores, cells = draw(kind, (ROWS, 20_011), dtype), draw_cells(20_011)
    masked, is_masked = draw_masks(ROWS, 20_011, 0.01)
    expected = scores.masked_fill(is_masked, -torch.inf)
    own = expected[cells.rows, cells.items]
    ranks, offered = cpu.double_ranks(MaskedScores(expected), cells, own)
    for k in (11, 300):
        wanted = stable_sort(expected, k)
        values = expected.gather(1, wanted)
        is_offered = values > -torch.inf
        is_place = (wanted[cells.rows] == cells.items[:, None]) & is_offered[cells.rows]
        places = torch.where(is_place[:, :-1].any(1), is_place.int().argmax(1), k - 1)
        for kernel in scanning_kernels(monkeypatch):
            scan = kernel.scan(MaskedScores(scores, masked), k, cells, True)
            assert torch.equal(scan.values, values)
            assert torch.equal(scan.items[is_offered], wanted[is_offered])
            assert torch.equal(scan.scores, own) and torch.equal(scan.positions, places)
            assert torch.equal(scan.double_ranks, ranks) and torch.equal(scan.offered, offered)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize(("items", "k"), [(5, 3), (700, 8), (9_000, 101)])
def test_scan_reveals_nan_and_inf(monkeypatch, items, k, is_masked, dtype):
    for bad in (torch.nan, -torch.tensor(torch.nan), torch.inf):
        for column in (0, items // 2, items - 1):
            scores = draw("random", (ROWS, items), dtype)
            scores[4, column] = bad
            row = torch.tensor([4])
            masked = cells_of(row, torch.tensor([column]), items) if is_masked else None
            given = MaskedScores(scores, masked)
            for kernel in scanning_kernels(monkeypatch):
                first = kernel.scan(given, k, draw_cells(items), True).values[:, 0]
                assert (first < torch.inf).tolist() == [number != 4 for number in range(ROWS)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_scan_counts_zeros_where_the_processor_flushes_small_numbers(kernel):
    """As `torch.set_flush_denormal(True)` lets it: the number after 0 then counts as 0."""
    scores = torch.tensor([[0.0, -0.0, 1.0, -1.0, 2.0, 3.0]]).repeat(ROWS, 20)
    offsets = torch.arange(ROWS + 1) * 3
    cells = SparseRows(offsets, torch.tensor([0, 2, 4]).repeat(ROWS), torch.ones(3 * ROWS), 120)
    expected = expect_scan(scores, 5, cells)[2]
    is_supported = torch.set_flush_denormal(True)
    try:
        found = kernel.scan(MaskedScores(scores), 5, cells, True).double_ranks.tolist()
    finally:
        torch.set_flush_denormal(False)
    assert found == expected or not is_supported
