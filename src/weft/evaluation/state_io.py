"""Files of evaluator states, which can be resumed from or merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft._choices import ProfileName, choices
from weft._input_kinds import UserLabels
from weft.data import Train
from weft.errors import (
    InputError,
    SettingError,
    UnknownMetric,
    WeftError,
    check_choice,
    check_path,
    check_type,
    read_list,
)
from weft.evaluation.atomic_files import write_files
from weft.evaluation.document_fields import (
    check_flag,
    check_list,
    check_mapping,
    check_text,
    describe,
    reject,
)
from weft.evaluation.documents import pack_document, read_document
from weft.evaluation.evaluator import Evaluator
from weft.evaluation.input_fields import (
    pack_groups,
    pack_input,
    unpack_groups,
    unpack_input,
)
from weft.evaluation.result import Result
from weft.evaluation.state import combine_states
from weft.evaluation.tensor_fields import check_plain
from weft.metrics.registry import find_input_kinds

_AFFIXES = ("prefix", "postfix")
# Settings of an evaluator, besides its metrics; the others belong to runs over a whole source.
_SETTINGS = (
    "relevance_threshold",
    "implicit",
    "mask_seen",
    "targets",
    "ties",
    "seed",
    "estimator",
    "gamma",
    "per_user",
    "keep_lists",
    "exposure",
    "skill",
    "bootstrap",
    "empty_users",
    "extra_users",
    "repeated_users",
    "nan_scores",
    "profile",
)


def save_state(evaluator: Evaluator, path: str | Path) -> Path:
    """Write the state of an evaluator to a file, with its settings and inputs, and return the path.

    The file is written completely or not at all.

    >>> import tempfile, torch, weft
    >>> folder = tempfile.mkdtemp()
    >>> evaluator = weft.Evaluator(metrics=["Recall"], top_k=2)
    >>> scores, target = torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]])
    >>> evaluator.update(scores, target, user_indices=[0])
    >>> path = weft.save_state(evaluator, f"{folder}/monday.state")
    >>> weft.merge_states([path])["Recall@2"]
    0.5
    """
    path = check_path("path", path)
    _check_evaluator(evaluator)
    document = {
        "settings": _settings(evaluator),
        "inputs": _inputs(evaluator),
        "state": evaluator.get_extra_state(),
    }
    write_files({path: lambda file: file.write(pack_document(document))})
    return path


def load_state(path: str | Path, evaluator: Evaluator | None = None) -> Evaluator:
    """Read the state of an evaluator from a file; further batches can be added to it.

    Parameters
    ----------
    path
        File that `save_state` wrote.
    evaluator
        Evaluator that receives the state. It is needed if classes of metrics are not registered,
        and must have the metrics, settings and inputs of the state. By default a new evaluator is
        built from the settings and inputs in the file.

    Returns
    -------
    Evaluator
        `evaluator`, or the new one.

    Raises
    ------
    InputError
        If the file is not a state, is damaged, or has another version of the format.
    SettingError
        If `evaluator` has other metrics, settings or inputs.

    Examples
    --------
    >>> import tempfile, torch, weft
    >>> evaluator = weft.Evaluator(metrics="Recall@1")
    >>> evaluator.update(torch.tensor([[0.9, 0.1]]), torch.tensor([[1, 0]]), user_indices=[0])
    >>> path = weft.save_state(evaluator, f"{tempfile.mkdtemp()}/monday.state")
    >>> resumed = weft.load_state(path)
    >>> resumed.update(torch.tensor([[0.9, 0.1]]), torch.tensor([[0, 1]]), user_indices=[1])
    >>> resumed.compute()["Recall@1"]
    0.5
    """
    path = check_path("path", path)
    if evaluator is not None:
        _check_evaluator(evaluator)
    return _restore(path, _read_state(path), evaluator)


def merge_states(paths: Iterable[str | Path], evaluator: Evaluator | None = None) -> Result:
    """Return the result of several saved states, as if one evaluator had evaluated all users.

    Parameters
    ----------
    paths
        Files that `save_state` wrote.
    evaluator
        Evaluator with the metrics, settings and inputs of the states, needed if classes of metrics
        are not registered. It is not changed.

    Returns
    -------
    Result
        The result over the batches of all states.

    Raises
    ------
    InputError
        If a file is not a state, is damaged, or has another version of the format.
    SettingError
        If states have other metrics, settings or inputs, or a file occurs twice.

    Examples
    --------
    >>> import tempfile, torch, weft
    >>> folder, paths = tempfile.mkdtemp(), []
    >>> for user, target in enumerate([[1, 0], [0, 1]]):
    ...     evaluator = weft.Evaluator(metrics="Recall@1")
    ...     scores = torch.tensor([[0.9, 0.1]])
    ...     evaluator.update(scores, torch.tensor([target]), user_indices=[user])
    ...     paths.append(weft.save_state(evaluator, f"{folder}/{user}.state"))
    >>> weft.merge_states(paths)["Recall@1"]
    0.5
    """
    single = isinstance(paths, (str, Path))
    listed = [paths] if single else read_list("paths", paths, "a list of paths")
    files = [check_path("paths", path) for path in listed]
    if evaluator is not None:
        _check_evaluator(evaluator)
    if not files:
        raise SettingError(
            "merge_states got no files; expected the paths of states that save_state wrote."
        )
    if repeated := {str(path) for path in files if files.count(path) > 1}:
        raise SettingError(
            f"merge_states got {', '.join(sorted(repeated))} more than once; give each file once."
        )
    first, *others = files
    merged = _restore(first, _read_state(first), None if evaluator is None else evaluator.clone())
    states = [merged.state]
    for path in others:
        document = _read_state(path)
        subject = f"cannot merge the states of {first} and {path}, which"
        with _naming_file(path):
            states.append(merged.read_state(document["state"], subject))
    merged.restore(combine_states(states, merged.stateful_metrics))
    merged.sync_on_compute = False  # the states of other processes are in their files
    return merged.compute()


# --------------------------------------------------------------------------------------------------


def _read_state(path: Path) -> dict[str, Any]:
    """Read a file of `save_state`; a checkpoint of `evaluate` is refused."""
    document = read_document(path)
    if not {"settings", "inputs", "state"} <= document.keys():
        raise InputError(
            f"{path}: this is a checkpoint of evaluate(), which only the same call can resume; "
            "give it as checkpoint= again."
        )
    return document


def _restore(path: Path, document: Mapping[str, Any], evaluator: Evaluator | None) -> Evaluator:
    """Set the state of the evaluator, or of a new one; errors name the file."""
    with _naming_file(path):
        evaluator = _build_evaluator(document) if evaluator is None else evaluator
        evaluator.set_extra_state(document["state"])
    return evaluator


@contextmanager
def _naming_file(path: Path) -> Iterator[None]:
    """Put the name of the file before the messages of errors."""
    try:
        yield
    except UnknownMetric as error:
        raise UnknownMetric(
            f"{path}: {error} Or give the evaluator too, made with that metric."
        ) from None
    except WeftError as error:
        raise type(error)(f"{path}: {error.message}", setting=error.setting) from None


# --------------------------------------------------------------------------------------------------


def _check_evaluator(evaluator: object) -> None:
    check_type("evaluator", evaluator, Evaluator, "a weft.Evaluator")


def _settings(evaluator: Evaluator) -> dict[str, Any]:
    """Return the arguments of an evaluator that are not inputs, as plain values."""
    return {
        "metrics": [str(spec) for spec in evaluator.specs],
        "num_users": evaluator.inputs.get("num_users"),
        "num_items": evaluator.num_items,
        **{name: getattr(evaluator.settings, name) for name in _SETTINGS},
        "sync_on_compute": evaluator.sync_on_compute,
        "prefix": evaluator.prefix,
        "postfix": evaluator.postfix,
    }


def _inputs(evaluator: Evaluator) -> dict[str, Any]:
    """Return the inputs of an evaluator as tensors and plain values."""
    inputs = {name: pack_input(evaluator.inputs[name]) for name in evaluator.kinds}
    return inputs | {
        "slices": {name: pack_input(labels) for name, labels in evaluator.slices.items()},
        "item_slices": {name: pack_groups(one) for name, one in evaluator.item_slices.items()},
    }


def _build_evaluator(document: Mapping[str, Any]) -> Evaluator:
    """Build an evaluator from its settings and inputs in a file, which are validated."""
    names = ("metrics", "num_users", "num_items", *_SETTINGS, "sync_on_compute", *_AFFIXES)
    settings = check_plain(document["settings"], "settings", names)
    for number, name in enumerate(check_list(settings["metrics"], "metrics")):
        check_text(name, f"metrics[{number}]")
    check_flag(settings["sync_on_compute"], "sync_on_compute")
    for name in _AFFIXES:
        check_text(settings[name], name)
    profile = settings.pop("profile")
    inputs = _read_inputs(document["inputs"], settings["metrics"], settings["num_items"])
    try:
        evaluator = Evaluator(**settings, **inputs)
    except MemoryError:
        reject("num_items", describe(settings["num_items"]), "a number that fits into memory")
    if profile is not None:  # the metrics have its parameters already
        evaluator.set_profile(check_choice("profile", profile, choices(ProfileName)))
    return evaluator


def _read_inputs(plain: object, metrics: Sequence[str], num_items: object) -> dict[str, Any]:
    """Build the inputs and the slices of an evaluator; inputs by item have `num_items`."""
    inputs = check_mapping(plain, "inputs")
    slices = {
        name: unpack_input(UserLabels(), labels, f"slices[{name!r}]")
        for name, labels in check_mapping(inputs.pop("slices", None), "inputs['slices']").items()
    }
    given = check_mapping(inputs.pop("item_slices", None), "inputs['item_slices']")
    item_slices = {
        name: unpack_groups(groups, f"item_slices[{name!r}]") for name, groups in given.items()
    }
    for name in inputs:
        check_text(name, "inputs")
    kinds = find_input_kinds(inputs, metrics)
    read_inputs = {name: unpack_input(kinds[name], value, name) for name, value in inputs.items()}
    for name, value in read_inputs.items():
        size = value.num_items if isinstance(value, Train) else value.size
        if kinds[name].axis != "user" and size != num_items:
            reject(name, f"for {size} items", f"{num_items} items, as in num_items")
    return {"inputs": read_inputs, "slices": slices, "item_slices": item_slices}
