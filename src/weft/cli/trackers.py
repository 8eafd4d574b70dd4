"""`weft evaluate --log`: results in experiment trackers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft._choices import TrackerName, choices
from weft.errors import TrackerError, WeftError, check_choice

if TYPE_CHECKING:
    from weft.evaluation.result import Result

# The package that each tracker needs.
_PACKAGES = {"mlflow": "mlflow", "wandb": "wandb", "tensorboard": "tensorboard"}


def check_trackers(names: Sequence[str]) -> list[str]:
    """Return the trackers, each once. Raises an error for unknown ones and for missing extras."""
    chosen = [check_choice("log", name, choices(TrackerName)) for name in names]
    if chosen:
        from weft.integrations.tracking import import_tracker

        for name in chosen:
            import_tracker(name, _PACKAGES[name])
    return list(dict.fromkeys(chosen))


def log_results(trackers: Sequence[str], results: Sequence[Result]) -> Iterator[str]:
    """Log each result as a run of its own, and yield a line about each run.

    Raises `TrackerError` if a tracker fails.
    """
    for name in trackers:
        module: Any = import_module(f"weft.integrations.{name}")
        for result in results:
            try:
                run = module.log(result)
            except WeftError:
                raise
            except Exception as error:
                raise TrackerError(
                    f"--log {name}: {result.name} was evaluated, but {name} cannot store it "
                    f"({type(error).__name__}: {error}). Check the settings of {name}."
                ) from error
            yield f"{name}: {result.name}, {run}"
