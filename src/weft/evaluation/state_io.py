"""States that travel: what an evaluator has gathered, as a file that others can go on from or put
together.

A file is one line (format, version, digest and length of the rest), and what PyTorch writes of
tensors and plain values. Reading it runs no code that it brings."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.data import DeviceColumn, Features, Labels, Train
from weft.data.interactions import Interactions
from weft.errors import InputError, SettingError, UnknownMetric, WeftError
from weft.evaluation.atomic_files import write_files
from weft.evaluation.evaluator import Evaluator
from weft.evaluation.result import Result
from weft.evaluation.state import EvaluationState, check_compatible, combine_states
from weft.metrics.profiles import find_profile
from weft.ranking.positions import RankEstimator

FORMAT, VERSION = "weft-state", 2


def save_state(evaluator: Evaluator, path: str | Path) -> Path:
    """Write what an evaluator has gathered so far, with its settings and inputs. Whole or not at
    all.

    >>> import tempfile, torch, weft
    >>> folder = tempfile.mkdtemp()
    >>> evaluator = weft.Evaluator(metrics=["Recall"], top_k=2)
    >>> evaluator.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]), user_indices=[0])
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
    """An evaluator as it was when its state was saved: it goes on from there.

    Or the given evaluator, with that state. It is needed where metrics are of classes that are not
    registered, and must have the same metrics, settings and inputs."""
    document = _read(Path(path))
    return _restored(Path(path), document, evaluator)


def merge_states(paths: Iterable[str | Path], evaluator: Evaluator | None = None) -> Result:
    """The result of several saved states together, as if one evaluator had met all their users.

    States of other metrics, settings or inputs are refused. `evaluator`: as for `load_state`; it is
    left as it is."""
    files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    if not files:
        raise SettingError(
            "merge_states got no files; expected the paths of states that save_state wrote."
        )
    if len(twice := {str(path) for path in files if files.count(path) > 1}):
        raise SettingError(
            f"merge_states got {', '.join(sorted(twice))} more than once; give each file once."
        )
    first, *others = files
    whole = _restored(first, _read(first), None if evaluator is None else evaluator.clone())
    parts = [whole.gathered()]
    for path in others:
        state = _read(path)["state"]
        check_compatible(
            whole.identity(),
            state["identity"],
            f"cannot merge the states of {first} and {path}, which",
        )
        parts.append(EvaluationState.from_dict(state))
    whole.take(combine_states(parts, whole.own))
    whole.sync_on_compute = False  # what other processes have met is in their files
    return whole.compute()


# --------------------------------------------------------------------------------------------------


def pack_document(document: Mapping[str, Any]) -> bytes:
    """The bytes of a file."""
    buffer = io.BytesIO()
    torch.save(document, buffer)
    content = buffer.getvalue()
    return (
        f"{FORMAT} {VERSION} {hashlib.sha256(content).hexdigest()} {len(content)}\n".encode()
        + content
    )


def _read(path: Path) -> dict[str, Any]:
    document = read_document(path)
    if not {"settings", "inputs", "state"} <= document.keys():
        raise InputError(
            f"{path}: the state of an evaluation in one call, which only this goes on from; give "
            "it to evaluate() again."
        )
    return document


def read_document(path: Path) -> dict[str, Any]:
    """What a file holds. A file that was cut short, changed, or is none of ours is refused."""
    try:
        head, _, content = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such file; expected a state written by weft.save_state."
        ) from None
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); expected a state written by "
            "weft.save_state."
        ) from None
    name, version, digest, length = (*head.decode(errors="replace").split(" "), "", "", "", "")[:4]
    if name != FORMAT:
        raise InputError(
            f"{path}: not a state of Weft; expected a file written by weft.save_state."
        )
    if version != str(VERSION):
        raise InputError(
            f"{path}: written in version {version!r} of the format of states, but this Weft reads "
            f"version {VERSION}; "
            "evaluate again, or use the Weft that wrote it."
        )
    if str(len(content)) != length:
        raise InputError(
            f"{path}: has {len(content):,} bytes of state, but was written with {length}: it was "
            "cut short or changed. "
            "Copy it again from where it was written, or evaluate its users again."
        )
    if hashlib.sha256(content).hexdigest() != digest:
        raise InputError(
            f"{path}: was changed since it was written; copy it again, or evaluate its users again."
        )
    document: dict[str, Any] = torch.load(
        io.BytesIO(content), map_location="cpu", weights_only=True
    )
    return document


def _restored(path: Path, document: Mapping[str, Any], evaluator: Evaluator | None) -> Evaluator:
    try:
        evaluator = _built(document) if evaluator is None else evaluator
        evaluator.set_extra_state(document["state"])
    except UnknownMetric as error:
        raise UnknownMetric(
            f"{path}: {error} Or give the evaluator too, made with that metric."
        ) from None
    except WeftError as error:
        raise type(error)(f"{path}: {error}") from None
    return evaluator


# --------------------------------------------------------------------------------------- an evaluat


def _settings(evaluator: Evaluator) -> dict[str, Any]:
    """What an evaluator is made with, but for its inputs."""
    return {
        "metrics": [str(spec) for spec in evaluator.specs],
        "num_users": evaluator.num_users,
        "num_items": evaluator.num_items,
        "relevance_threshold": evaluator.relevance_threshold,
        "mask_seen": evaluator.masks_seen,
        "ties": evaluator.rule.name,
        "seed": evaluator.rule.seed,
        "per_user": evaluator.keeps_per_user,
        "exposure": evaluator.keeps_exposure,
        "bootstrap": evaluator.bootstrap,
        "empty_users": evaluator.empty_users,
        "repeated_users": evaluator.repeated_users,
        "sync_on_compute": evaluator.sync_on_compute,
        "prefix": evaluator.prefix,
        "postfix": evaluator.postfix,
        "correction": None if evaluator.correction is None else evaluator.correction.settings(),
        "profile": None if evaluator.profile is None else evaluator.profile.tool,
    }


def _inputs(evaluator: Evaluator) -> dict[str, Any]:
    """Its inputs as tensors and labels."""
    given = {
        name: _plain(value)
        for name, value in evaluator.inputs.items()
        if isinstance(value, (Train, Labels, Features))
    }
    return given | {"slices": {name: _plain(labels) for name, labels in evaluator.slices.items()}}


def _built(document: Mapping[str, Any]) -> Evaluator:
    """An evaluator of such settings and inputs."""
    settings, inputs = dict(document["settings"]), dict(document["inputs"])
    correction, profile, slices = (
        settings.pop("correction"),
        settings.pop("profile"),
        inputs.pop("slices"),
    )
    given: dict[str, Any] = {name: _read_input(value) for name, value in inputs.items()}
    if correction is not None:
        settings["correction"] = RankEstimator(
            correction["correction"],
            **{"gamma": correction["gamma"]} if "gamma" in correction else {},
        )
    made = Evaluator(
        **settings, **given, slices={name: _read_input(labels) for name, labels in slices.items()}
    )
    # The metrics have the profile's parameters already.
    made.profile = None if profile is None else find_profile(profile)
    return made


def _plain(value: Train | Labels | Features) -> dict[str, Any]:
    if isinstance(value, Train):
        cells = value.interactions
        narrow = np.int32 if cells.num_items < 1 << 31 else np.int64
        ratings = (
            cells.values[:1] if (cells.values == cells.values[:1]).all() else cells.values
        )  # mostly all are 1
        tensors = {
            "offsets": cells.offsets,
            "items": cells.items.astype(narrow),
            "ratings": ratings,
        }
        found = {
            name: torch.from_numpy(np.ascontiguousarray(array).copy())
            for name, array in tensors.items()
        }
        return {**found, "num_items": cells.num_items, "repetitions": value.num_duplicates}
    columns = {"codes": value.codes.values} | (
        {"offsets": value.offsets.values} if isinstance(value, Features) else {}
    )
    return {**columns, "names": list(value.names), "unknown": value.num_unknown}


def _read_input(plain: Mapping[str, Any]) -> Train | Labels | Features:
    if "ratings" in plain:
        items = plain["items"].long().numpy()
        ratings = (
            np.broadcast_to(plain["ratings"].numpy(), items.shape)
            if len(plain["ratings"]) == 1
            else plain["ratings"].numpy()
        )
        train = Train(
            Interactions(
                plain["offsets"].numpy(), items, np.ascontiguousarray(ratings), plain["num_items"]
            )
        )
        train.num_duplicates = plain["repetitions"]
        return train
    codes: Tensor = plain["codes"]
    names = tuple(plain["names"])
    if "offsets" in plain:
        return Features(
            DeviceColumn(plain["offsets"]), DeviceColumn(codes), names, plain["unknown"]
        )
    return Labels(DeviceColumn(codes), names, plain["unknown"])
