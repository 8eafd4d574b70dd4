"""Logs the values of a result with a LightningModule."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

import torch
import torchmetrics
from torch import Tensor

from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule


def log_result(
    result: Result,
    suffix: str,
    module: LightningModule,
    *,
    prog_bar: Collection[str],
    std_errors: bool,
    slices: bool,
) -> None:
    """Log the values of a result, and its standard errors and slices if requested."""

    def log(name: str, value: float, *, prog_bar: bool = False) -> None:
        module.log(
            f"{result.prefix}{name}{suffix}",
            _SynchronizedValue(torch.tensor(value, dtype=torch.float64)),
            prog_bar=prog_bar,
            metric_attribute="",
            add_dataloader_idx=False,
            on_epoch=True,
        )

    for value in result.entries:
        name = f"{value.name}{result.postfix}"
        log(name, value.value, prog_bar=value.plain_name in prog_bar)
        if std_errors and not math.isnan(value.std_error):
            log(f"{name}/std_error", value.std_error)
    if slices and result.slices is not None:
        for row in result.slices.iter_rows(named=True):
            value = MetricValue(row["metric"], row["k"], row["value"])
            name = f"{value.name}[{row['slice']}={row['group']}]{result.postfix}"
            log(name, value.value)


class _SynchronizedValue(torchmetrics.Metric):  # type: ignore[misc, unused-ignore]
    """A value that is already equal on all processes.

    Lightning logs a metric as it is, whereas it would reduce a plain tensor.
    """

    def __init__(self, value: Tensor) -> None:
        super().__init__(sync_on_compute=False)
        self.update(value)

    def update(self, value: Tensor) -> None:
        self.value = value

    def compute(self) -> Tensor:
        return self.value
