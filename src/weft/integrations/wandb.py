"""Results in Weights & Biases: `pip install 'weft[wandb]'`."""

from __future__ import annotations

import re
from typing import Any

from weft.evaluation.result import Result
from weft.integrations.tracking import (
    artifact_files,
    check_subject,
    describe,
    import_tracker,
    metric_values,
)
from weft.statistics.comparison import Comparison

__all__ = ["log"]


def log(
    subject: Result | Comparison,
    *,
    step: int | None = None,
    prefix: str = "",
    report: bool | None = None,
    run_name: str | None = None,
) -> str:
    """Log a result or a comparison to Weights & Biases.

    It is logged to the active run, or to a new one, which is finished afterwards. wandb decides
    where it is stored (`WANDB_PROJECT`, `WANDB_MODE=offline`, `WANDB_DIR`).

    A result is stored as

    - metrics: the values (`nDCG_at_10`) and the ends of their 95% intervals (`nDCG_at_10_ci_low`),
      without undefined ones;
    - `config["weft"]`: the settings;
    - summary: model, notes, counts and provenance (`weft_notes`);
    - an artifact of the type `evaluation` with `result.json`, which `weft.load_result` reads, and
      the report `report.html`, if `weft[report]` is installed.

    A comparison is stored as an artifact with `comparison.csv` and the report.

    Parameters
    ----------
    subject
        Result or comparison.
    step
        Step, such as an epoch, at which metrics are logged. There is then no artifact, unless
        `report` is True.
    prefix
        Text before the names of metrics.
    report
        With False, the report is not stored.
    run_name
        Name of a new run. Default: the name of the model.

    Returns
    -------
    str
        Id of the run.

    Raises
    ------
    MissingExtra
        If wandb is not installed.
    """
    wandb = import_tracker("wandb", "wandb")
    check_subject("wandb", subject)
    name = run_name or (subject.name if isinstance(subject, Result) else "comparison")
    run = wandb.run
    is_own = run is None
    if run is None:
        run = wandb.init(name=name)
    try:
        if isinstance(subject, Result):
            _log_values(run, subject, step=step, prefix=prefix)
        if step is None or report:
            artifact = wandb.Artifact(_artifact_name(name), type="evaluation")
            with artifact_files(subject, report=report is not False) as files:
                for file in files:
                    artifact.add_file(str(file))
            run.log_artifact(artifact)
        return str(run.id)
    finally:
        if is_own:
            run.finish()


def _artifact_name(name: str) -> str:
    """Return a name in the characters that W&B allows for artifacts."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:128] or "model"


def _log_values(run: Any, result: Result, *, step: int | None, prefix: str) -> None:
    """Log metrics, settings and remarks."""
    run.log(metric_values(result, prefix), step=step)
    run.config.update({"weft": dict(result.settings)}, allow_val_change=True)
    run.summary.update({f"weft_{key}": text for key, text in describe(result).items()})
