"""An engine in one process: partitions of the users, with functions and results pickled."""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from weft.engines.partitioned.driver import evaluate_partitions, take_user_inputs
from weft.engines.partitioned.local_inputs import check_id_types, read_local
from weft.engines.partitioned.partition_results import collect_user_tables
from weft.engines.partitioned.partitions import Partition
from weft.evaluation.api import bind_arguments


def make_lists(generator, users, items):
    """Return scores with ties, lists and truth.

    The lists are those of most users and of six others; the truth has a rating of 0 of each user.
    """
    scores = np.round(generator.normal(size=(users + 6, items)), 1)
    lists = [
        (user, int(item), float(scores[user, item]))
        for user in range(3, users + 6)
        for item in generator.choice(items, int(generator.integers(1, 15)), False)
    ]
    truth = [
        (user, int(item), float(rating))
        for user in range(users)
        for item, rating in zip(generator.choice(items, 4, False), (0, 1, 2, 4))
    ]
    return (
        scores,
        pl.DataFrame(lists, schema=["user", "item", "score"], orient="row"),
        pl.DataFrame(truth, schema=["user", "item", "rating"], orient="row"),
    )


@dataclass
class PickledPartitions:
    """Pickled partitions, combined as a binary tree."""

    parts: list

    def map(self, function):
        work = pickle.dumps(function)
        return PickledPartitions(
            [pickle.dumps(pickle.loads(work)(pickle.loads(part))) for part in self.parts]
        )

    def map_reduce(self, function, combine):
        found = self.map(function).parts
        while len(found) > 1:
            pairs = [found[place : place + 2] for place in range(0, len(found), 2)]
            found = [
                pickle.dumps(
                    pickle.loads(pickle.dumps(combine))([pickle.loads(one) for one in pair])
                )
                for pair in pairs
            ]
        return pickle.loads(found[0])

    def release(self):
        self.parts = []


def split(frames, number, source=None):
    """Split rows by user into partitions."""
    codes = {name: _part_of(frame["user"], number) for name, frame in frames.items()}
    parts = []
    for index in range(number):
        rows = {name: frame.filter(codes[name] == index) for name, frame in frames.items()}
        parts.append(pickle.dumps(Partition(rows, source)))
    return PickledPartitions(parts)


def _part_of(users, number):
    return (users.hash(7) % number).fill_null(0)


def evaluate(source, truth, *, parts=3, shuffle=True, collect=True, **settings):
    """Evaluate partitions of the users, as `weft.evaluate` evaluates all of them."""
    is_model = callable(source) or hasattr(source, "score")
    given, arguments, positions = take_user_inputs(
        bind_arguments(source, truth, settings), has_lists=not is_model, engine="the test"
    )
    frames, origins = {}, {}
    for name, data in given.items():
        found, origins[name] = read_local(data, name)
        frames |= found
    check_id_types({name: frames[name].head(3) for name in origins}, origins)
    if shuffle:  # the rows of a user come in any order
        frames = {
            name: frame.sample(fraction=1, shuffle=True, seed=1) for name, frame in frames.items()
        }
    partitions = split(frames, parts, source if is_model else None)
    result, answers = evaluate_partitions(
        partitions, origins, arguments, positions, engine="the test"
    )
    if collect and arguments["per_user"]:
        per_user, labels = collect_user_tables(answers)
        result = replace(result, per_user=per_user, user_labels=labels)
    return result


def assert_same(found, expected, *, but=()):
    """Check that two results have equal values, intervals, counts, notes, settings and tables."""
    assert [value.name for value in found.entries] == [value.name for value in expected.entries]
    for one, other in zip(found.entries, expected.entries):
        for field in (
            "value",
            "std_error",
            "users",
            "boot_low",
            "boot_high",
            "bca_low",
            "bca_high",
            "boot_std_error",
        ):
            mine, theirs = getattr(one, field), getattr(other, field)
            assert (mine is None) == (theirs is None), (one.name, field, mine, theirs)
            if mine is not None:
                np.testing.assert_allclose(
                    mine, theirs, rtol=1e-9, atol=1e-9, err_msg=f"{one.name} {field}"
                )
    assert found.counts == expected.counts
    assert [note for note in found.notes if note not in but] == [
        note for note in expected.notes if note not in but
    ]
    assert found.settings == expected.settings
    assert found.name == expected.name
    for name in ("slices", "exposure", "popularity", "per_user", "user_labels"):
        mine, theirs = getattr(found, name), getattr(expected, name)
        assert (mine is None) == (theirs is None), name
        if mine is not None:
            assert_frame_equal(mine, theirs, abs_tol=1e-9, rel_tol=1e-9)
    assert_same_resamples(found.resamples, expected.resamples)
    assert found.provenance["ids"] == expected.provenance["ids"]
    ours, others = (result.provenance["fingerprint"] for result in (found, expected))
    assert ours["truth"] == others["truth"] and ours["source_kind"] == others["source_kind"]
    assert ours.get("candidates") == others.get("candidates")
    # Those of train and source depend on the order of users in one process.
    of_inputs = [{**one, "train": None, "source": None} for one in (ours, others)]
    assert of_inputs[0] == of_inputs[1]


def assert_same_resamples(found, expected):
    """Check that models of two evaluations are resampled alike, and can be compared."""
    assert (found is None) == (expected is None)
    if found is None:
        return
    assert found.to_dict() == expected.to_dict() and found.names == expected.names
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.left_out, expected.left_out, rtol=1e-9, atol=1e-9)
    assert (found.parts is None) == (expected.parts is None)
    if found.parts is not None:
        keys = ["quantity", "k", "part", "item"]
        mine, theirs = (one.parts.to_frame().sort(keys) for one in (found, expected))
        assert_frame_equal(mine, theirs, abs_tol=1e-9, rel_tol=1e-9)
