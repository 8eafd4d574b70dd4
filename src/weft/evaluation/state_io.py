"""Files of evaluator states, which can be resumed from or merged.

A file is one line (format, version, SHA-256 digest and length of the rest), followed by tensors and
plain values as PyTorch writes them. Reading a file does not execute code that it contains.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.data import DeviceColumn, Features, Labels, Train
from weft.data.interactions import Interactions
from weft.errors import InputError, SettingError, UnknownMetric, WeftError
from weft.evaluation.atomic_files import write_files
from weft.evaluation.evaluator import Evaluator
from weft.evaluation.result import Result
from weft.evaluation.state import EvaluationState, check_compatible, combine_states

FORMAT, VERSION = "weft-state", 3
# Settings of an evaluator, besides its metrics; the others belong to runs over a whole source.
_SETTINGS = (
    "relevance_threshold",
    "implicit",
    "mask_seen",
    "ties",
    "seed",
    "estimator",
    "gamma",
    "per_user",
    "exposure",
    "bootstrap",
    "empty_users",
    "extra_users",
    "repeated_users",
    "profile",
)
_EXPECTED = "expected a state written by weft.save_state"


def save_state(evaluator: Evaluator, path: str | Path) -> Path:
    """Write the state of an evaluator with its settings and inputs, atomically.

    >>> import tempfile, torch, weft
    >>> folder = tempfile.mkdtemp()
    >>> evaluator = weft.Evaluator(metrics=["Recall"], top_k=2)
    >>> scores, target = torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]])
    >>> evaluator.update(scores, target, user_indices=[0])
    >>> path = weft.save_state(evaluator, f"{folder}/monday.state")
    >>> weft.merge_states([path])["Recall@2"]
    0.5
    """
    path = Path(path)
    document = {
        "settings": _settings(evaluator),
        "inputs": _inputs(evaluator),
        "state": evaluator.get_extra_state(),
    }
    write_files({path: lambda file: file.write(pack_document(document))})
    return path


def load_state(path: str | Path, evaluator: Evaluator | None = None) -> Evaluator:
    """Return an evaluator with the state of a file; further batches can be added.

    `evaluator`, if given, receives the state. It is needed if metrics are of classes that are not
    registered, and must have the metrics, settings and inputs of the state.
    """
    return _restore(Path(path), _read_state(Path(path)), evaluator)


def merge_states(paths: Iterable[str | Path], evaluator: Evaluator | None = None) -> Result:
    """Return the result of several saved states, as if one evaluator had evaluated all users.

    Raises `SettingError` for states of other metrics, settings or inputs. `evaluator`: as for
    `load_state`; it is not changed.
    """
    files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
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
        state = _read_state(path)["state"]
        subject = f"cannot merge the states of {first} and {path}, which"
        check_compatible(merged.identity(), state["identity"], subject)
        states.append(EvaluationState.from_dict(state))
    merged.restore(combine_states(states, merged.stateful_metrics))
    merged.sync_on_compute = False  # the states of other processes are in their files
    return merged.compute()


# --------------------------------------------------------------------------------------------------


def pack_document(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file with tensors and plain values."""
    buffer = io.BytesIO()
    torch.save(document, buffer)
    content = buffer.getvalue()
    digest = hashlib.sha256(content).hexdigest()
    return f"{FORMAT} {VERSION} {digest} {len(content)}\n".encode() + content


def read_document(path: Path) -> dict[str, Any]:
    """Read a file of `pack_document`.

    Raises `InputError` for files that are missing, incomplete, changed, or of another format or
    version.
    """
    try:
        header, _, content = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; {_EXPECTED}.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {_EXPECTED}.") from None
    fields = (*header.decode(errors="replace").split(" "), "", "", "", "")
    name, version, digest, length = fields[:4]
    if name != FORMAT:
        raise InputError(
            f"{path}: not a state of Weft; expected a file written by weft.save_state."
        )
    if version != str(VERSION):
        raise InputError(
            f"{path}: written in version {version!r} of the format of states, but this Weft reads "
            f"version {VERSION}; evaluate again, or use the Weft that wrote it."
        )
    if str(len(content)) != length:
        raise InputError(
            f"{path}: has {len(content):,} bytes of state, but was written with {length}: it was "
            "cut short or changed. Copy it again from where it was written, or evaluate its users "
            "again."
        )
    if hashlib.sha256(content).hexdigest() != digest:
        raise InputError(
            f"{path}: was changed since it was written; copy it again, or evaluate its users again."
        )
    document: dict[str, Any] = torch.load(
        io.BytesIO(content), map_location="cpu", weights_only=True
    )
    return document


def _read_state(path: Path) -> dict[str, Any]:
    """Read a file of `save_state`; a checkpoint of `evaluate` is refused."""
    document = read_document(path)
    if not {"settings", "inputs", "state"} <= document.keys():
        raise InputError(
            f"{path}: a checkpoint of an evaluation in one call, which only this call can resume; "
            "give it to evaluate() again."
        )
    return document


def _restore(path: Path, document: Mapping[str, Any], evaluator: Evaluator | None) -> Evaluator:
    """Set the state of the evaluator, or of a new one; errors name the file."""
    try:
        evaluator = _build_evaluator(document) if evaluator is None else evaluator
        evaluator.set_extra_state(document["state"])
    except UnknownMetric as error:
        raise UnknownMetric(
            f"{path}: {error} Or give the evaluator too, made with that metric."
        ) from None
    except WeftError as error:
        raise type(error)(f"{path}: {error}") from None
    return evaluator


# --------------------------------------------------------------------------------------------------


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
    inputs = {
        name: _plain_input(value)
        for name, value in evaluator.inputs.items()
        if isinstance(value, (Train, Labels, Features))
    }
    return inputs | {
        "slices": {name: _plain_input(labels) for name, labels in evaluator.slices.items()}
    }


def _build_evaluator(document: Mapping[str, Any]) -> Evaluator:
    """Build an evaluator from its settings and inputs in a file."""
    settings, inputs = dict(document["settings"]), dict(document["inputs"])
    profile = settings.pop("profile")
    slices = {name: _read_input(labels) for name, labels in inputs.pop("slices").items()}
    read_inputs: dict[str, Any] = {name: _read_input(value) for name, value in inputs.items()}
    evaluator = Evaluator(**settings, **read_inputs, slices=slices)
    if profile is not None:  # the metrics have its parameters already
        evaluator.set_profile(profile)
    return evaluator


def _plain_input(value: Train | Labels | Features) -> dict[str, Any]:
    """Return an input as tensors and plain values."""
    if isinstance(value, Train):
        interactions = value.interactions
        ratings = interactions.values
        if (ratings == ratings[:1]).all():  # mostly all are 1
            ratings = ratings[:1]
        arrays = {
            "offsets": interactions.offsets,
            "items": interactions.items.astype(
                np.int32 if interactions.num_items < 1 << 31 else np.int64
            ),
            "ratings": ratings,
        }
        tensors = {
            name: torch.from_numpy(np.ascontiguousarray(array).copy())
            for name, array in arrays.items()
        }
        return {
            **tensors,
            "num_items": interactions.num_items,
            "num_duplicates": value.num_duplicates,
        }
    columns = {"codes": value.codes.values}
    if isinstance(value, Features):
        columns["offsets"] = value.offsets.values
    return {**columns, "names": list(value.names), "num_unknown": value.num_unknown}


def _read_input(plain: Mapping[str, Any]) -> Train | Labels | Features:
    """Build an input from what `_plain_input` returned."""
    if "ratings" in plain:
        items, ratings = plain["items"].long().numpy(), plain["ratings"].numpy()
        if len(ratings) == 1:
            ratings = np.ascontiguousarray(np.broadcast_to(ratings, items.shape))
        train = Train(Interactions(plain["offsets"].numpy(), items, ratings, plain["num_items"]))
        train.num_duplicates = plain["num_duplicates"]
        return train
    codes, names = DeviceColumn(plain["codes"]), tuple(plain["names"])
    if "offsets" in plain:
        return Features(DeviceColumn(plain["offsets"]), codes, names, plain["num_unknown"])
    return Labels(codes, names, plain["num_unknown"])
