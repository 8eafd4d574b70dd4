"""Results in TensorBoard: `pip install 'weft[tensorboard]'`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.evaluation.result import Result
from weft.integrations.tracking import (
    check_subject,
    describe,
    import_tracker,
    metric_values,
    setting_texts,
    write_artifacts,
)
from weft.report.result_folder import file_names
from weft.statistics.comparison import Comparison

__all__ = ["log"]


def log(
    subject: Result | Comparison,
    to: Any = None,
    *,
    step: int | None = None,
    prefix: str = "",
    report: bool | None = None,
) -> Path:
    """Log a result or a comparison to TensorBoard, and return the folder of its event file.

    `to` is a folder, or a `SummaryWriter` of torch, which stays open; by default the folder
    `runs/NAME` of the model.

    Values are scalars (`nDCG_at_10`, with `prefix` before it), as are the ends of their 95%
    intervals (`nDCG_at_10_ci_low`), at `step`, by default 0; undefined ones are left out. Settings,
    notes, counts and provenance are texts (`weft/notes`). The result is written to the same folder
    as `result.json`, which `weft.load_result` reads, and its report as `report.html`, if
    `weft[report]` is installed. Of a comparison, the text `weft/comparison`, `comparison.csv` and
    the report are written.

    With `step`, such as an epoch, these files are left out unless `report` is True; `report=False`
    leaves out the report alone. Raises `MissingExtra` if TensorBoard is not installed.
    """
    import_tracker("tensorboard", "tensorboard")
    writers = import_tracker("tensorboard", "torch.utils.tensorboard")
    check_subject("tensorboard", subject)
    is_writer = hasattr(to, "add_scalar")
    name = subject.name if isinstance(subject, Result) else "comparison"
    writer = to
    if not is_writer:
        writer = writers.SummaryWriter(str(to or Path("runs") / file_names([name])[0]))
    folder = Path(writer.log_dir)
    try:
        if isinstance(subject, Result):
            _write_values(writer, subject, step=step or 0, prefix=prefix)
        else:
            writer.add_text("weft/comparison", subject.to_markdown(), step or 0)
        if step is None or report:
            write_artifacts(subject, folder, report=report is not False)
    finally:
        if not is_writer:
            writer.close()
    return folder


def _write_values(writer: Any, result: Result, *, step: int, prefix: str) -> None:
    """Write values as scalars, and everything else as texts."""
    for name, value in metric_values(result, prefix).items():
        writer.add_scalar(name, value, step)
    rows = [f"| {key} | {text} |" for key, text in setting_texts(result).items()]
    table = "\n".join(["| setting | value |", "|---|---|", *rows])
    for key, text in {"settings": table, **describe(result)}.items():
        writer.add_text(f"weft/{key}", text.replace("\n", "  \n") if key == "notes" else text, step)
