"""Validation of batch inputs: at once where the host can read values, else deferred.

Reading a value of another device forces a synchronization. There, invalid values are counted on the
device, and `compute` raises (see `DEFERRED_ERRORS`)."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.data import BatchLists
from weft.data.devices import DEFERRED_ERRORS, is_host_readable
from weft.data.tensors import SparseRows
from weft.errors import InputError, agree, setting_ref


class _ValidationCounts:
    """Counts of invalid values by the names of `DEFERRED_ERRORS`."""

    def __init__(self) -> None:
        self._counts: list[tuple[str, Tensor]] = []

    @property
    def has_counts(self) -> bool:
        """True if invalid values were counted, perhaps none of them."""
        return bool(self._counts)

    def add(self, name: str, count: Tensor) -> None:
        """Add a count of invalid values of a kind."""
        self._counts.append((name, count))

    def counts(self, device: torch.device) -> Tensor:
        """Return the number of invalid values by kind, `[len(DEFERRED_ERRORS)]`."""
        if not self._counts:
            return torch.zeros(len(DEFERRED_ERRORS), dtype=torch.int64, device=device)
        sums = dict.fromkeys(DEFERRED_ERRORS, torch.zeros((), dtype=torch.int64, device=device))
        for name, count in self._counts:
            sums[name] = sums[name] + count
        return torch.stack(list(sums.values()))


class ImmediateValidation(_ValidationCounts):
    """Raises `InputError` for the first invalid value."""

    def check_ratings(self, truth: SparseRows, threshold: float | None) -> None:
        """Check that ratings are finite, and not negative without a relevance threshold."""
        if len(truth.values) == 0:
            return
        low, high = torch.aminmax(truth.values)
        if not (torch.isfinite(low) and torch.isfinite(high)):
            raise InputError(
                "the truth has ratings that are not finite numbers; remove or repair them."
            )
        if low < 0 and threshold is None:
            raise InputError(
                f"the truth has the negative rating {float(low):g}; give "
                f"{setting_ref('relevance_threshold')} (the lowest rating of a relevant item), or "
                "remove negative ratings."
            )

    def check_max_grade(self, relevant: SparseRows, max_grade: float) -> None:
        """Check that no rating of a relevant item is above the highest one of a metric's scale."""
        if len(relevant.values) and (highest := float(relevant.values.max())) > max_grade:
            raise InputError(
                f"the truth has the rating {highest:g}, but a metric has max_grade={max_grade:g}; "
                "give the highest rating of the scale as max_grade, or rescale the ratings."
            )

    def check_scores(self, scores: Tensor, users: Tensor, items: Tensor | None = None) -> None:
        """Check that scores `[batch, n]` are neither NaN nor +inf.

        `items [batch, n]` are the items of the scores; without it, they are the columns.
        """
        if scores.numel() == 0:
            return
        highest = scores.amax(1)
        invalid_rows = (~(highest < torch.inf)).nonzero().flatten()
        if len(invalid_rows) == 0:
            return
        row = int(invalid_rows[0])
        is_nan = bool(torch.isnan(highest[row]))
        is_invalid = torch.isnan(scores[row]) if is_nan else scores[row] == torch.inf
        column = int(is_invalid.nonzero()[0])
        if items is not None:
            column = int(items[row, column])
        affected = agree(
            len(invalid_rows), "{n} of {total:,} rows of this batch {have}", total=len(scores)
        )
        raise InputError(
            f"the scores contain {'NaN' if is_nan else '+inf'}, first in row {int(users[row])}, "
            f"column {column} ({affected} such scores); scores must be finite, or -inf "
            "for items that are not candidates."
        )

    def has_invalid(self, scores: Tensor) -> bool:
        """Return True if scores contain NaN or +inf. Such scores must then be refused."""
        return scores.numel() > 0 and not bool(scores.amax() < torch.inf)

    def read_candidates(
        self, scores: Tensor, items: Tensor, *, users: Tensor, num_items: int
    ) -> BatchLists:
        """Return valid candidates as complete lists. `items [batch, n]`; -1 fills short rows."""
        is_unknown = (items < -1) | (items >= num_items)
        if len(unknown := items[is_unknown]):
            raise InputError(
                f"items has {int(unknown[0])}; item numbers range from 0 to {num_items - 1}, and "
                "-1 pads short rows."
            )
        items, order = items.sort(dim=1)
        if bool(((items[:, 1:] == items[:, :-1]) & (items[:, 1:] >= 0)).any()):
            raise InputError(
                "a row of items has the same item twice; each candidate may occur once per row."
            )
        scores = torch.where(items >= 0, scores.gather(1, order), -torch.inf)
        self.check_scores(scores, users, items)
        return BatchLists.from_candidates(scores, items, num_items)


class DeferredValidation(_ValidationCounts):
    """Counts invalid values on the device, so that nothing waits for it."""

    def check_ratings(self, truth: SparseRows, threshold: float | None) -> None:
        """Count ratings that are not finite, or negative without a relevance threshold."""
        ratings = truth.values
        is_invalid = ~torch.isfinite(ratings) | ((ratings < 0) & (threshold is None))
        self.add("bad_ratings", truth.fill_invalid(is_invalid, False).sum())

    def check_max_grade(self, relevant: SparseRows, max_grade: float) -> None:
        """Count ratings above the highest one of a metric's scale."""
        self.add("bad_ratings", relevant.fill_invalid(relevant.values > max_grade, False).sum())

    def check_scores(self, scores: Tensor, users: Tensor, items: Tensor | None = None) -> None:
        """Count scores that are NaN or +inf."""
        self.add("bad_scores", (~(scores < torch.inf)).sum())

    def has_invalid(self, scores: Tensor) -> bool:
        """Count scores that are NaN or +inf; return False, since the host does not know."""
        self.add("bad_scores", (~(scores < torch.inf)).sum())
        return False

    def read_candidates(
        self, scores: Tensor, items: Tensor, *, users: Tensor, num_items: int
    ) -> BatchLists:
        """Return candidates as complete lists of fixed length, with the counts of invalid values.

        `items [batch, n]`; -1 fills short rows."""
        is_unknown = (items < -1) | (items >= num_items)
        items, order = torch.where(is_unknown | (items < 0), num_items, items).sort(dim=1)
        scores = torch.where(items < num_items, scores.gather(1, order), -torch.inf)
        is_repeated = (items[:, 1:] == items[:, :-1]) & (items[:, 1:] < num_items)
        error_counts = {
            "bad_candidates": is_unknown.sum() + is_repeated.sum(),
            "bad_scores": (~(scores < torch.inf)).sum(),
        }
        return BatchLists.from_masked_candidates(scores, items, num_items, error_counts)


InputValidation = ImmediateValidation | DeferredValidation


def validation_for(device: torch.device) -> InputValidation:
    """Return the validation of one batch on a device."""
    return ImmediateValidation() if is_host_readable(device) else DeferredValidation()


def check_readable_scores(scores: Tensor, users: Tensor, items: Tensor | None = None) -> None:
    """Check scores as `ImmediateValidation` does, if the host can read them; else do nothing."""
    if is_host_readable(scores.device):
        ImmediateValidation().check_scores(scores, users, items)
