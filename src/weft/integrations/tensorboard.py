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
    """Log a result or a comparison to TensorBoard.

    A result is stored as

    - scalars: the values (`nDCG_at_10`) and the ends of their 95% intervals (`nDCG_at_10_ci_low`),
      without undefined ones;
    - texts: settings, notes, counts and provenance (`weft/notes`);
    - files in the same folder: `result.json`, which `weft.load_result` reads, and the report
      `report.html`, if `weft[report]` is installed.

    A comparison is stored as the text `weft/comparison`, `comparison.csv` and the report.

    Parameters
    ----------
    subject
        Result or comparison.
    to
        Folder, or a `SummaryWriter` of torch, which stays open. Default: the folder `runs/NAME` of
        the model.
    step
        Step, such as an epoch, at which values are logged. The files are then left out, unless
        `report` is True. Default: 0, with the files.
    prefix
        Text before the names of scalars.
    report
        With False, the report is not stored.

    Returns
    -------
    pathlib.Path
        Folder of the event file.

    Raises
    ------
    MissingExtra
        If TensorBoard is not installed.
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
