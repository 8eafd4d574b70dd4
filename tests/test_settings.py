"""`EvaluationSettings` is the one declaration of every option: signatures, rules, errors."""

import inspect
import subprocess
import sys
from typing import Literal

import numpy as np
import pytest

import weft
from weft._choices import ProfileName, choices
from weft.errors import MissingInput, SettingError, UnknownParameter
from weft.evaluation.setting_rules import split_candidates
from weft.evaluation.settings import EvaluationSettings
from weft.metrics.profiles import PROFILES

DATA = {"inputs", "source", "truth", "train", "users", "items", "user_groups", "item_clusters"}
DATA |= {"item_features"}


def test_importing_settings_is_light():
    code = "import weft.evaluation.settings, sys; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(out.stdout.split()) & {"torch", "polars", "pandas", "scipy", "numpy"}


def test_every_field_is_described():
    for field in EvaluationSettings.fields():
        assert field.description.endswith("."), field.name
        assert EvaluationSettings().model_dump()[field.name] == field.default


def test_profiles_have_the_declared_names():
    assert tuple(PROFILES) == choices(ProfileName)


def test_choices_ignore_case():
    settings = EvaluationSettings.from_options(ties="Random", strategy="SAMPLED", mask_seen="AUTO")
    assert (settings.ties, settings.strategy, settings.mask_seen) == ("random", "sampled", "auto")


def test_accepts_numpy_numbers():
    settings = EvaluationSettings.from_options(
        top_k=np.array([1, 5]), seed=np.int64(3), per_user=np.True_, neg_alpha=np.float32(0.5)
    )
    assert settings.top_k == (1, 5)
    assert (settings.seed, settings.per_user, settings.neg_alpha) == (3, True, 0.5)


@pytest.mark.parametrize(
    "options",
    [
        {"ties": "rndom"},
        {"top_k": 0},
        {"top_k": True},
        {"top_k": [10, "20"]},
        {"seed": -1},
        {"seed": True},
        {"seed": 1.5},
        {"bootstrap": 1},
        {"num_negatives": 0},
        {"neg_alpha": -1},
        {"gamma": 0},
        {"gamma": 1.5},
        {"relevance_threshold": 0},
        {"mask_seen": "yes"},
        {"per_user": 1},
        {"exposure": "yes"},
        {"batch_size": "4"},
        {"slices": ["activity"]},
        {"metrics": 3},
        {"strategy": None},
        {"duplicates": None},
        {"profile": "trec"},
        {"estimator": "holm"},
        {"device": None, "name": 3},
    ],
    ids=str,
)
def test_errors_name_the_setting(options):
    with pytest.raises(SettingError) as caught:
        EvaluationSettings.from_options(**options)
    assert caught.value.setting == list(options)[-1]
    assert f"{list(options)[-1]}" in str(caught.value)


def test_rejects_unknown_options():
    with pytest.raises(UnknownParameter, match="Did you mean 'num_negatives'"):
        EvaluationSettings.from_options(num_negative=3)


SAMPLED = {"strategy": "sampled"}


@pytest.mark.parametrize(
    ("options", "available", "error", "setting"),
    [
        ({"num_negatives": 5}, {"train"}, SettingError, "num_negatives"),
        ({"negative_sampling": "uniform"}, {"train"}, SettingError, "negative_sampling"),
        ({"neg_alpha": 1}, {"train"}, SettingError, "neg_alpha"),
        ({**SAMPLED, "neg_alpha": 1}, {"train"}, SettingError, "neg_alpha"),
        (
            {**SAMPLED, "candidates": "given", "num_negatives": 3},
            {"candidates"},
            SettingError,
            "num_negatives",
        ),
        ({**SAMPLED, "candidates": "listed"}, {"lists"}, SettingError, "candidates"),
        ({"gamma": 0.1}, {"train"}, SettingError, "gamma"),
        (
            {**SAMPLED, "gamma": 0.1, "estimator": "rank_estimate"},
            {"train"},
            SettingError,
            "gamma",
        ),
        ({"estimator": "rank_estimate"}, {"train"}, SettingError, "estimator"),
        (
            {**SAMPLED, "estimator": "rank_estimate", "candidates": "given"},
            {"candidates"},
            SettingError,
            "estimator",
        ),
        (
            {**SAMPLED, "estimator": "rank_estimate", "negative_sampling": "popularity"},
            {"train"},
            SettingError,
            "estimator",
        ),
        ({"candidates": "listed"}, set(), SettingError, "candidates"),
        ({"candidates": "cold"}, set(), MissingInput, "candidates"),
        ({"candidates": "given"}, set(), MissingInput, "candidates"),
        (
            {**SAMPLED, "negative_sampling": "popularity"},
            set(),
            MissingInput,
            "negative_sampling",
        ),
        ({"mask_seen": True}, set(), MissingInput, "mask_seen"),
        ({"duplicates": "keep-best"}, set(), SettingError, "duplicates"),
        ({"duplicates": "miss"}, set(), SettingError, "duplicates"),
        ({"unknown_items": "miss"}, set(), SettingError, "unknown_items"),
        (
            {"unknown_items": "miss", "candidates": "listed"},
            {"lists"},
            SettingError,
            "unknown_items",
        ),
        ({"duplicates": "miss", **SAMPLED}, {"lists"}, SettingError, "duplicates"),
    ],
    ids=str,
)
def test_rejects_conflicting_options(options, available, error, setting):
    settings = EvaluationSettings.from_options(**options)
    assert len(list(settings.conflicts(available))) == 1
    with pytest.raises(error) as caught:
        settings.resolve(available)
    assert caught.value.setting == setting


def test_resolving_fills_the_defaults():
    settings = EvaluationSettings.from_options().resolve({"train"})
    assert (settings.ties, settings.empty_users, settings.missing_lists) == (
        "index",
        "skip",
        "zero",
    )
    assert settings.mask_seen is True and settings.num_negatives is None
    assert EvaluationSettings.from_options().resolve({"train", "lists"}).mask_seen == "auto"
    assert EvaluationSettings.from_options().resolve({"lists"}).mask_seen is False
    sampled = EvaluationSettings.from_options(strategy="sampled").resolve(())
    assert (sampled.ties, sampled.num_negatives) == ("random", 99)
    assert (sampled.negative_sampling, sampled.neg_alpha) == ("uniform", None)
    assert sampled.resolve(()) == sampled


def test_resolving_applies_a_profile():
    settings = EvaluationSettings.from_options(profile="trec_eval", metrics=["nDCG"])
    resolved = settings.resolve(())
    assert (resolved.ties, resolved.empty_users, resolved.missing_lists) == (
        "index",
        "zero",
        "skip",
    )
    assert str(resolved.metrics[0]) == "nDCG(gain=linear)" and resolved.orders_ties_by_id
    given = EvaluationSettings.from_options(profile="trec_eval", ties="index", empty_users="skip")
    assert given.resolve(()).empty_users == "skip" and not given.resolve(()).orders_ties_by_id


def test_candidates_are_a_pool_or_data():
    assert split_candidates("Cold") == ("cold", None)
    assert split_candidates({0: [1]}) == ("given", {0: [1]})
    assert split_candidates("cands.csv") == ("given", "cands.csv")
    for unknown in ("cool", "given", None):
        with pytest.raises(SettingError, match="is not known"):
            split_candidates(unknown)


def test_json_schema_has_choices_and_bounds():
    schema = EvaluationSettings.model_json_schema()["properties"]
    assert schema["ties"]["anyOf"][0]["enum"] == list(choices(weft._choices.TieRuleName))
    assert schema["num_negatives"]["anyOf"][0]["minimum"] == 1
    assert schema["seed"]["minimum"] == 0


@pytest.mark.parametrize(
    ("function", "data"),
    [(weft.evaluate, DATA), (weft.Evaluator, {"train", "num_users", "num_items", *DATA})],
)
def test_signatures_follow_the_settings(function, data):
    """Every setting is a parameter with the same default, and there are no others."""
    parameters = inspect.signature(function).parameters
    fields = {field.name: field for field in EvaluationSettings.fields()}
    of_evaluator = {"sync_on_compute", "prefix", "postfix"} if function is weft.Evaluator else set()
    assert parameters.keys() - fields.keys() <= data | of_evaluator
    if function is weft.evaluate:
        named = {name for name, field in fields.items() if field.option.in_evaluate}
        assert parameters.keys() - data == named
    for name in parameters.keys() & fields.keys() - {"metrics"}:
        assert parameters[name].default == fields[name].default, name


@pytest.mark.parametrize("function", [weft.evaluate, weft.Evaluator])
def test_signatures_have_the_choices_of_the_settings(function):
    """Editors and type checkers know the values of an option."""
    parameters = inspect.signature(function).parameters
    fields = EvaluationSettings.model_fields
    named = [name for name in parameters.keys() & fields.keys() if choices(fields[name].annotation)]
    for name in set(named) - {"candidates"}:  # may be data
        text = parameters[name].annotation
        written = choices(eval(text, {**vars(weft._choices), "Literal": Literal}))
        assert written == choices(fields[name].annotation), name
    assert len(named) >= 8


def test_a_dict_of_metrics_is_refused():
    """Its keys would be read as names, whatever the values are."""
    with pytest.raises(SettingError, match="metrics= is a dict; expected a list of names"):
        EvaluationSettings.from_options(metrics={"MAP@3": weft.metrics.nDCG(k=3)})
