"""Every combination of legal options gives a result or a `WeftError`, never another error."""

import json
import typing
import warnings

import numpy as np
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import weft
from metric_cases import BUILT_IN, VARIANTS, by_position, make_labels
from weft._choices import CandidatePool
from weft.errors import InputWarning, WeftError
from weft.evaluation.settings import EvaluationSettings

USERS, ITEMS = 7, 9
generator = np.random.default_rng(3)
SCORES = generator.integers(0, 6, (USERS, ITEMS)) / 5
SCORES[2, 3:] = -np.inf
LISTS = {user: generator.permutation(ITEMS)[: 1 + user % 5].tolist() for user in range(USERS - 1)}
SCORED_LISTS = {
    user: {item: float(SCORES[0, item]) for item in items} for user, items in LISTS.items()
}
SOURCES = {
    "scores": SCORES,
    "factors": weft.Factors(SCORES[:, :2].clip(0), generator.normal(size=(ITEMS, 2))),
    "lists": LISTS,
    "scored lists": SCORED_LISTS,
    "empty list": {**LISTS, 0: []},
}
TRUTHS = {
    "clicks": {user: [user, (user + 4) % ITEMS] for user in range(USERS)},
    "ratings": {user: {user: 1, (user + 4) % ITEMS: 5, (user + 2) % ITEMS: 3} for user in range(6)},
    "one user": {1: [2]},
    "zeros": {0: {1: 2, 2: 0}, 3: {0: 0}},
}
LABELS = {
    name: {number: label for number, label in enumerate(labels) if label is not None}
    for name, labels in make_labels(USERS, ITEMS).items()
}
TRAIN = {user: [(user + step) % ITEMS for step in range(2, 3 + user % 3)] for user in range(USERS)}
GIVEN_CANDIDATES = {user: [user, *range(4)] for user in range(USERS)}
# Options whose values the model does not list. None leaves the option out.
VALUES = {
    "metrics": st.lists(st.sampled_from([*BUILT_IN, *VARIANTS]), min_size=1, max_size=3),
    "top_k": st.sampled_from([[1], [2, 5], [20]]),
    "relevance_threshold": st.sampled_from([None, 0.5, 3, 10]),
    "mask_seen": st.sampled_from(["auto", True, False]),
    "seed": st.sampled_from([0, 2**63 - 1]),
    "candidates": st.sampled_from([*typing.get_args(CandidatePool)[:-1], GIVEN_CANDIDATES]),
    "strategy": st.just("sampled"),
    "num_negatives": st.sampled_from([None, 1, 4, 50]),
    "neg_alpha": st.sampled_from([None, 0, 0.75, 40]),
    "gamma": st.sampled_from([None, 0.1, 1]),
    "bootstrap": st.sampled_from([None, 2, 5]),
    "slices": st.sampled_from(
        [
            None,
            {"half": {user: "ab"[user % 2] for user in range(1, USERS)}},
            {"activity": "quantiles(3)"},
            {"nobody": {}, "all": dict.fromkeys(range(USERS), 1.5)},
        ]
    ),
    "item_slices": st.sampled_from(
        [
            None,
            {"half": {item: "ab"[item % 2] for item in range(1, ITEMS)}},
            {"popularity": "quantiles(3)", "tail": "head_tail"},
            {"again": "targets"},
        ]
    ),
    "feature_separator": st.sampled_from([None, "|"]),
    "name": st.sampled_from([None, "a model"]),
    "batch_size": st.sampled_from([None, 1, 3]),
    "device": st.sampled_from([None, "cpu"]),
    "threads": st.sampled_from([None, 1, 2]),
    "memory": st.sampled_from([None, "1KiB", "1GiB"]),
}
# Not of evaluate, or about files.
NOT_DRAWN = {"repeated_users", "nan_scores", "checkpoint", "progress"}


def values_of(field):
    """Return a strategy for the values of an option, in half of the cases its default."""
    if field.name in VALUES:
        others = VALUES[field.name]
    elif field.choices:
        others = st.sampled_from(field.choices)
    else:
        assert field.annotation is bool, f"say in VALUES which values of {field.name} to draw"
        others = st.booleans()
    return (
        others if field.name in ("metrics", "top_k") else st.one_of(st.just(field.default), others)
    )


OPTIONS = st.fixed_dictionaries(
    {
        field.name: values_of(field)
        for field in EvaluationSettings.fields()
        if field.name not in NOT_DRAWN
    }
)


def evaluate_legal_part(source, truth, options):
    """Return the result without the options that errors name, one after another; None if the error
    is about something else.
    """
    options = dict(options)
    while True:
        try:
            return weft.evaluate(source, truth, **by_position(source), **options)
        except WeftError as error:
            if error.setting not in options or error.setting == "metrics":
                return None
            del options[error.setting]


@seed(22)
@settings(max_examples=300, database=None)
@given(
    OPTIONS,
    st.sampled_from(list(SOURCES)),
    st.sampled_from(list(TRUTHS)),
    st.sampled_from([True, True, False]),
    st.sampled_from([True, True, False]),
)
def test_every_combination_gives_a_result_or_a_weft_error(
    options, source, truth, has_train, has_labels
):
    data = {"train": TRAIN} if has_train else {}
    if has_labels:
        data |= LABELS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)
        result = evaluate_legal_part(SOURCES[source], TRUTHS[truth], {**data, **options})
    if result is not None:
        assert json.loads(json.dumps(result.to_dict()))["name"] == result.name
        assert str(result)
