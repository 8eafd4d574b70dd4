"""Profiles that are compared on the embedded data: everything that they declare is compared, and
nothing that they declare is superfluous.

`test_golden_embedded.py` compares the values. Here each parameter and each setting of a profile is
replaced by Weft's default in its turn: the tool's values must then not come out."""

from functools import cache

import pytest

import test_golden_embedded as embedded
import weft
from test_profiles import PROFILED, SETTING_DEFAULTS, spoil
from weft.metrics.names import parse_name
from weft.metrics.profiles import PROFILES

TOOLS = [tool for tool in PROFILES if tool not in PROFILED]

# Parameters and settings that no stored value can tell from Weft's defaults, and why.
ALIKE = "relevance is binary in all stored cases, so that gains are alike"
SEEN = "all candidates of the table are in the list"
INVISIBLE = {
    **{
        (tool, metric, "gain"): ALIKE
        for tool, metric in (
            *(("replay", "nDCG"), ("recommenders", "nDCG"), ("cornac", "nDCG"), ("pyg", "nDCG")),
            *(("recpack", "nDCG"), ("recpack", "DCG"), ("lenskit", "nDCG"), ("lenskit", "DCG")),
        )
    },
    ("evidently", "Precision", "denominator"): SEEN,
    ("cornac", "MAP", "normalizer"): "both are alike where nothing is cut",
    ("cornac", "", "relevance_threshold"): "test_ratings_below_one_are_not_relevant",
    ("ir_measures", "", "relevance_threshold"): "test_ratings_below_one_are_not_relevant",
}


def compared(tool):
    """Pairs (case, call) of the tool's means, with Weft's name and the row."""
    for case, kinds in embedded.stored(tool)["cases"].items():
        for call in kinds.get("means", {}):
            yield case, call, *embedded.find_row(tool, case, call)


def is_plain(name, tool, parameter):
    """True if the name leaves a parameter of the metric to the profile."""
    spec = parse_name(name)
    return parameter in PROFILES[tool].covers[spec.name] and parameter not in dict(spec.params)


@pytest.mark.parametrize("tool", TOOLS)
def test_compares_every_covered_metric(tool):
    names = {parse_name(name).name for _, _, name, row in compared(tool)}
    assert names == PROFILES[tool].covers.keys()
    assert all(row.settings["profile"] == tool for row in embedded.TOOLS[tool])
    assert embedded.stored(tool)["version"] == PROFILES[tool].version


@cache
def evaluate(tool, case, names, settings):
    given, inputs = next(iter(embedded.sources(tool, case).values()))
    truth = embedded.truth(case.split("/")[1])
    return weft.evaluate(given, truth, metrics=list(names), **inputs, **dict(settings))


def differs(tool, case, names, settings):
    """True if one of `{call: Weft's name}` does not give the tool's value."""
    expected = embedded.stored(tool)["cases"][case]["means"]
    result = evaluate(tool, case, tuple(dict.fromkeys(names.values())), tuple(settings.items()))
    found = {call: result[name] for call, name in names.items()}
    wanted = {call: expected[call] for call in names}
    return bool(
        embedded.differences(found, wanted, lambda call: embedded.tolerance_of(tool, case, call))
    )


@pytest.mark.parametrize(
    ("tool", "metric", "parameter"),
    [
        (tool, metric, parameter)
        for tool in TOOLS
        for metric, given in PROFILES[tool].covers.items()
        for parameter in given
        if (metric, parameter) != ("ERR", "max_grade")  # which has no default
    ],
)
def test_every_parameter_is_needed(tool, metric, parameter):
    groups = {}
    for case, call, name, row in compared(tool):
        if parse_name(name).name == metric and is_plain(name, tool, parameter):
            if (metric, parameter) == ("ILD", "distance"):
                return  # the default, cosine, needs vectors that are not given
            group = groups.setdefault((case, tuple(row.settings.items())), {})
            group[call] = spoil(name, parameter)
    assert groups
    needed = any(
        differs(tool, case, names, dict(settings)) for (case, settings), names in groups.items()
    )
    assert needed == ((tool, metric, parameter) not in INVISIBLE)


@pytest.mark.parametrize(
    ("tool", "setting"), [(tool, name) for tool in TOOLS for name in PROFILES[tool].settings]
)
def test_every_setting_is_needed(tool, setting):
    groups = {}
    for case, call, name, row in compared(tool):
        if setting not in row.settings:
            settings = {**row.settings, setting: SETTING_DEFAULTS[setting] or "count"}
            if setting == "relevance_threshold":
                settings[setting] = 1e-9
            groups.setdefault((case, tuple(settings.items())), {})[call] = name
    needed = any(
        differs(tool, case, names, dict(settings)) for (case, settings), names in groups.items()
    )
    assert needed == ((tool, "", setting) not in INVISIBLE)


def test_exceptions_are_needed():
    declared = {
        (tool, metric, name)
        for tool in TOOLS
        for metric, given in (*PROFILES[tool].covers.items(), ("", PROFILES[tool].settings))
        for name in given
    }
    assert declared >= INVISIBLE.keys()


@pytest.mark.parametrize("tool", ["cornac", "ir_measures"])
def test_ratings_below_one_are_not_relevant(tool):
    """ir_measures takes whole numbers, of which 1 and more are relevant; Cornac's
    rating_threshold is 1 by default."""
    truth = {"a": {"x": 0.5, "y": 1, "z": 2}}
    given = {"metrics": ["Precision@2", "Recall@2"], "profile": tool}
    result = weft.evaluate({"a": ["x", "y"]}, truth, **given)
    assert (result["Precision@2"], result["Recall@2"]) == (0.5, 0.5)


@pytest.mark.parametrize("tool", ["replay", "evidently", "recommenders"])
def test_unseen_items_count_in_the_train_universe(tool):
    """RePlay 0.22.0 and evidently 0.7.23 print 2/3: items 1 and 2 of 1, 2 and 4, which train has.

    recommenders 1.2.1 prints 3/3, as it counts item 3, which train does not have."""
    lists, train = {"a": [1, 2], "b": [2, 3]}, {"a": [4], "b": [1], "c": [2]}
    result = weft.evaluate(
        lists, {"a": [1], "b": [2]}, train=train, metrics="ItemCoverage@2", profile=tool
    )
    assert result["ItemCoverage@2"] == pytest.approx(2 / 3)
