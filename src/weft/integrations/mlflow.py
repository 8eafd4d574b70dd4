"""Results in MLflow: `pip install 'weft[mlflow]'`."""

from __future__ import annotations

from contextlib import nullcontext

from weft.evaluation.result import Result
from weft.integrations.tracking import (
    artifact_files,
    check_subject,
    describe,
    import_tracker,
    metric_values,
    setting_texts,
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
    """Log a result or a comparison to the active run of MLflow, and return the id of the run.

    Without an active run it starts and ends one, named `run_name` or like the model. Where MLflow
    stores it, MLflow decides: `mlflow.set_tracking_uri`, `MLFLOW_TRACKING_URI`,
    `MLFLOW_EXPERIMENT_NAME`.

    Values are metrics (`nDCG_at_10`, with `prefix` before it), as are the ends of their 95%
    intervals (`nDCG_at_10_ci_low`); undefined ones are left out. Settings are parameters
    (`weft.ties`), and model, notes, counts and provenance are tags (`weft.notes`). The result is
    the artifact `weft/result.json`, which `weft.load_result` reads, and its report
    `weft/report.html`, if `weft[report]` is installed. Of a comparison, `weft/comparison.csv` and
    the report are stored.

    With `step`, such as an epoch, metrics are logged at that step, and there are no artifacts
    unless `report` is True; `report=False` leaves out the report alone. Raises `MissingExtra` if
    MLflow is not installed.
    """
    mlflow = import_tracker("mlflow", "mlflow")
    check_subject("mlflow", subject)
    name = run_name or (subject.name if isinstance(subject, Result) else "comparison")
    active = mlflow.active_run()
    with nullcontext(active) if active is not None else mlflow.start_run(run_name=name) as run:
        if isinstance(subject, Result):
            mlflow.log_metrics(metric_values(subject, prefix), step=step)
            parameters = {f"weft.{key}": text for key, text in setting_texts(subject).items()}
            mlflow.log_params(parameters)
            mlflow.set_tags({f"weft.{key}": text for key, text in describe(subject).items()})
        if step is None or report:
            with artifact_files(subject, report=report is not False) as files:
                for file in files:
                    mlflow.log_artifact(str(file), "weft")
        run_id: str = run.info.run_id
    return run_id
