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
    """Log a result or a comparison to MLflow.

    It is logged to the active run, or to a new one, which is ended afterwards. MLflow decides where
    it is stored (`mlflow.set_tracking_uri`, `MLFLOW_TRACKING_URI`, `MLFLOW_EXPERIMENT_NAME`).

    A result is stored as

    - metrics: the values (`nDCG_at_10`) and the ends of their 95% intervals (`nDCG_at_10_ci_low`),
      without undefined ones;
    - parameters: the settings (`weft.ties`);
    - tags: model, notes, counts and provenance (`weft.notes`);
    - artifacts: `weft/result.json`, which `weft.load_result` reads, and the report
      `weft/report.html`, if `weft[report]` is installed.

    A comparison is stored as the artifacts `weft/comparison.csv` and the report.

    Parameters
    ----------
    subject
        Result or comparison.
    step
        Step, such as an epoch, at which metrics are logged. There are then no artifacts, unless
        `report` is True.
    prefix
        Text before the names of metrics, and after `weft.` in those of parameters and tags
        (`weft.val_ties`): a run can then contain results with different settings.
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
        If MLflow is not installed.
    """
    mlflow = import_tracker("mlflow", "mlflow")
    check_subject("mlflow", subject)
    name = run_name or (subject.name if isinstance(subject, Result) else "comparison")
    active = mlflow.active_run()
    with nullcontext(active) if active is not None else mlflow.start_run(run_name=name) as run:
        if isinstance(subject, Result):
            start = f"weft.{prefix}"
            # Parameters come first: MLflow refuses to change them, and then nothing is logged.
            mlflow.log_params({start + key: text for key, text in setting_texts(subject).items()})
            mlflow.log_metrics(metric_values(subject, prefix), step=step)
            mlflow.set_tags({start + key: text for key, text in describe(subject).items()})
        if step is None or report:
            with artifact_files(subject, report=report is not False) as files:
                for file in files:
                    mlflow.log_artifact(str(file), "weft")
        run_id: str = run.info.run_id
    return run_id
