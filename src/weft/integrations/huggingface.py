"""Metrics for the Trainer of Hugging Face transformers; that package is not imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.errors import InputError, SettingError, describe_type
from weft.evaluation.evaluator import Evaluator
from weft.evaluation.metric_value import nan_to_none
from weft.evaluation.result import Result

__all__ = ["ComputeMetrics"]

Inputs = Callable[[Any], Mapping[str, Any]]


class ComputeMetrics:
    """A function for `Trainer(compute_metrics=...)` with the metrics of an `Evaluator`.

    With `batch_eval_metrics=True` the Trainer calls it for each batch, and with
    `compute_result=True` for the last one; otherwise once, with all rows. In a training with
    several processes, the Trainer gathers the rows of all of them, so states are not merged again.

    Parameters
    ----------
    evaluator
        Evaluator with the metrics. It is copied and not changed.
    inputs
        Function of the `EvalPrediction` that returns the arguments of `Evaluator.update` by name.
        By default the first output of the model is read as scores `[batch, items]`, and the labels
        as the truth: the item of each row `[batch]`, items `[batch, n]` padded with -100, or a
        dense matrix.

    Attributes
    ----------
    result
        The latest `Result`, None before the first.

    Examples
    --------
    >>> import numpy as np, weft
    >>> from types import SimpleNamespace
    >>> from weft.integrations.huggingface import ComputeMetrics
    >>> compute = ComputeMetrics(weft.Evaluator("HitRate@1"))
    >>> scores = np.array([[0.1, 0.9], [0.8, 0.2]])
    >>> compute(SimpleNamespace(predictions=scores, label_ids=np.array([1, 1])))
    {'HitRate@1': 0.5}
    """

    def __init__(self, evaluator: Evaluator, *, inputs: Inputs | None = None) -> None:
        if not isinstance(evaluator, Evaluator):
            raise SettingError(
                f"ComputeMetrics takes a weft.Evaluator; got {describe_type(evaluator)}."
            )
        self._evaluator = evaluator.clone()
        self._evaluator.reset()
        # The Trainer gathers the rows of all processes in each of them.
        self._evaluator.sync_on_compute = False
        self._inputs = _read_prediction if inputs is None else inputs
        self.result: Result | None = None

    def __call__(self, prediction: Any, compute_result: bool = True) -> dict[str, float | None]:
        """Add a batch, and return the values by name.

        With `compute_result=False`, for all batches but the last one, the dict is empty. Undefined
        values are None.
        """
        self._evaluator.update(**self._inputs(prediction))
        if not compute_result:
            return {}
        self.result = result = self._evaluator.compute()
        self._evaluator.reset()
        return {
            f"{result.prefix}{name}{result.postfix}": value
            for name, value in nan_to_none(result).items()
        }


def _read_prediction(prediction: Any) -> dict[str, Any]:
    """Return the arguments of `Evaluator.update` from an `EvalPrediction`."""
    scores, labels = (getattr(prediction, name, None) for name in ("predictions", "label_ids"))
    scores = scores[0] if isinstance(scores, (tuple, list)) and scores else scores
    for name, value in {"predictions": scores, "label_ids": labels}.items():
        if value is None:
            raise InputError(
                f"the prediction has no {name}; expected scores as the first output of the model, "
                "and labels. Set label_names of the Trainer, or give inputs=."
            )
    if isinstance(labels, tuple):  # the Trainer has several label_names
        raise InputError(
            f"label_ids of the prediction is a tuple of {len(labels)}; expected one array of item "
            "numbers. Give inputs=, such as lambda prediction: {'preds': prediction.predictions, "
            "'target': prediction.label_ids[0]}."
        )
    return {"preds": scores, "target": labels}
