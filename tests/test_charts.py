"""Charts show the values of the results, with any names, and are drawn without a browser."""

import itertools
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise
from textwrap import dedent

import numpy as np
import polars as pl
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.errors import MissingInput, SettingError
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result, frame_schema
from weft.report.charts import KINDS, Figure, figure, figures, model_colours
from weft.report.charts.canvas import Canvas
from weft.report.charts.label_layout import LINE_PIXELS, spread_labels
from weft.report.charts.phrases import short_number, short_percent
from weft.report.charts.short_labels import distinct_labels, text_pixels
from weft.report.charts.theme import (
    COLOURS,
    DIVERGING,
    DIVERGING_DARK,
    ON_DARK,
    ON_LIGHT,
    OTHER,
    SEQUENTIAL,
    SEQUENTIAL_DARK,
    SHAPES,
    coloured_models,
)
from weft.report.context import ReportContext

USERS = 60
CUTOFFS = (1, 5, 10, 20)
STRANGE = [
    "<script>alert(1)</script>",
    'a.b["c"]\\d',
    "",
    "naïve – 推荐 ".ljust(300, "x"),
    "datum.x + 1",
    "</svg>&amp;",
]


def result(
    name: str,
    seed: int,
    *,
    bare: bool = False,
    metrics: tuple[str, ...] = ("nDCG",),
    groups=("F", "M"),
) -> Result:
    """A model by hand; `bare` has values without intervals, and nothing else."""
    random = np.random.default_rng(seed)
    users = [f"u{number}" for number in range(USERS)]
    per_user = pl.DataFrame({"user": users})
    values = []
    for k in CUTOFFS:
        for metric in metrics:
            scores = (
                random.random(USERS) * (0.4 + 0.1 * seed) * (random.random(USERS) < 0.7)
            ).round(3)
            per_user = per_user.with_columns(pl.Series(f"{metric}@{k}", scores))
            error = math.nan if bare else float(scores.std(ddof=1) / math.sqrt(USERS))
            values.append(MetricValue(metric, k, float(scores.mean()), error, USERS, True))
        values.append(
            MetricValue("ARP", k, 100.0 + 10 * seed + k, math.nan if bare else 1.0, USERS, False)
        )
        values.append(MetricValue("Gini", k, 0.9 - 0.01 * seed, higher_is_better=False))
        cells = {
            (group, cluster): random.random() - 0.4
            for group in groups
            for cluster in ("Drama", "Comedy")
        }
        values += [
            MetricValue("BiasDisparityBD", k, cell, target=0.0, cell=labels)
            for labels, cell in cells.items()
        ]
        values += [
            MetricValue("BiasDisparityBR", k, 1 + cell, target=1.0, cell=labels)
            for labels, cell in cells.items()
        ]
    if bare:
        return Result(tuple(value for value in values if not value.cell), name)
    slices = [
        ("age", group, "nDCG", k, 0.1 * place + 0.01 * seed, 0.01, 0.0, 1.0, 7 + place)
        for k in CUTOFFS
        for place, group in enumerate(("old", "young"))
    ]
    curve = np.linspace(0, 1, 201)
    exposure = [(k, float(x), float(x ** (3 + seed))) for k in CUTOFFS for x in curve]
    popular = [
        (k, 2**n, 2 ** (n + 1) - 1, 64 >> n, 40 + n, (n + seed) * 9)
        for k in CUTOFFS
        for n in range(6)
    ]
    labels = {
        "user": users,
        "activity": [n % 40 for n in range(USERS)],
        "user_groups": [groups[n % 2] if n else None for n in range(USERS)],
    }
    return Result(
        tuple(values),
        name,
        {"evaluated_users": USERS},
        per_user=per_user,
        slices=pl.DataFrame(slices, schema=frame_schema("slices"), orient="row"),
        exposure=pl.DataFrame(exposure, schema=frame_schema("exposure"), orient="row"),
        popularity=pl.DataFrame(popular, schema=frame_schema("popularity"), orient="row"),
        user_labels=pl.DataFrame(
            labels | {"slices[age]": ["young" if n < 20 else "old" for n in range(USERS)]}
        ),
    )


def subject_of(*names: str, **how) -> ReportContext:
    return ReportContext({name: result(name, seed, **how) for seed, name in enumerate(names)})


THREE = subject_of("als", "knn", "pop")


@pytest.fixture(scope="module")
def report() -> list[Figure]:
    return figures(THREE)


def spec(subject: ReportContext, kind: str) -> dict:
    """A chart of a report."""
    return KINDS[kind](subject, Canvas(kind)).chart.to_dict(validate=False)  # validated elsewhere


def everything(node, key: str) -> list:
    """All values of this key, anywhere."""
    if isinstance(node, dict):
        return [value for name, value in node.items() if name == key] + [
            x for one in node.values() for x in everything(one, key)
        ]
    return [x for one in node for x in everything(one, key)] if isinstance(node, list) else []


def drawn(chart: dict) -> ElementTree.Element:
    return ElementTree.fromstring(vl_convert.vegalite_to_svg(chart | {"width": 340}))


def marks(svg: ElementTree.Element) -> int:
    """How many shapes stand for data."""
    groups = [
        node
        for node in svg.iter()
        if re.match(r"mark-(symbol|rect|line|area|rule) role-mark", node.get("class", ""))
    ]
    return sum(
        1
        for group in groups
        for node in group
        if (node.get("d") or node.get("x2") or node.get("y2"))
    )


# --------------------------------------------------------------------------------------------------


def channels(colour: str) -> np.ndarray:
    """Linear light of red, green and blue."""
    sent = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(sent <= 0.04045, sent / 12.92, ((sent + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(channels(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


# Complete colour blindness of each kind as matrices of linear light (Machado, Oliveira and
# Fernandes 2009).
EYES = {
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def seen(colour: str, eye: str) -> np.ndarray:
    """A colour in CIELAB, where distances are about what eyes tell apart."""
    light = np.clip(np.array(EYES[eye]) @ channels(colour), 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ light / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eye", EYES)
def test_colours_differ_for_all_kinds_of_vision(eye):
    lab = [seen(colour, eye) for colour in COLOURS]
    nearest = min(np.linalg.norm(a - b) for at, a in enumerate(lab) for b in lab[:at])
    assert nearest >= (25 if eye == "normal" else 12)


@pytest.mark.parametrize("colour", [*COLOURS, OTHER])
def test_colours_contrast_with_white_and_dark(colour):
    assert contrast(colour, "#ffffff") >= 3
    assert contrast(colour, "#16181d") >= 3


@pytest.mark.parametrize(
    ("light", "dark", "limit"),
    [
        (*SEQUENTIAL, SEQUENTIAL_DARK),
        (DIVERGING[1], DIVERGING[0], DIVERGING_DARK),
        (DIVERGING[1], DIVERGING[2], DIVERGING_DARK),
    ],
)
def test_text_contrasts_with_every_cell(light, dark, limit):
    ends = [
        np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) for colour in (light, dark)
    ]
    for shade in np.linspace(0, 1, 101):
        cell = "#" + "".join(f"{round(part):02x}" for part in ends[0] + shade * (ends[1] - ends[0]))
        assert contrast(cell, ON_DARK if shade > limit else ON_LIGHT) >= 3.5, shade


def test_every_colour_has_a_shape():
    assert len(set(SHAPES)) == len(SHAPES) == len(set(COLOURS)) == len(COLOURS) == 8


@pytest.mark.slow
def test_models_keep_their_colour_in_all_charts(report):
    wanted = model_colours(THREE)
    assert list(wanted.values()) == list(COLOURS[:3])
    for one in report:
        for scale in everything(one.chart.to_dict(), "scale"):
            if (
                isinstance(scale, dict)
                and str(scale.get("range", [""])[0]).startswith("#")
                and "als" in scale.get("domain", ())
            ):
                painted = dict(zip(scale["domain"], scale["range"]))
                assert {model: painted[model] for model in wanted} == wanted, one.kind


def test_best_of_many_models_have_colours():
    many = subject_of(*(f"m{seed}" for seed in range(11)))
    best = sorted(many.models, key=lambda model: -many.results[model]["nDCG@10"])[:8]
    assert set(coloured_models(many)) == set(best)
    assert sum(colour == OTHER for colour in model_colours(many).values()) == 3
    labels = next(data for data in spec(many, "cutoffs")["datasets"].values() if "at" in data[0])
    assert {row["model"] for row in labels} == set(best)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_labels_do_not_overlap_and_keep_their_order(places):
    found = spread_labels(places, 0.0, 1.0, 300)
    ordered = [
        place for _, place in sorted(zip(places, found), key=lambda pair: (pair[0], pair[1]))
    ]
    extent = max(1.0, *found) - min(0.0, *found)
    assert all(b - a >= LINE_PIXELS / 300 * extent * 0.99 for a, b in pairwise(ordered))


def test_labels_with_room_stay():
    assert spread_labels([0.1, 0.5, 0.9], 0.0, 1.0, 300) == pytest.approx([0.1, 0.5, 0.9])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.2291, "0.229"),
        (364.28, "364.3"),
        (1700.0, "1,700"),
        (0.00012345, "0.00012"),
        (math.nan, "undefined"),
        (0.0, "0.000"),
    ],
)
def test_numbers_in_sentences(value, text):
    assert short_number(value) == text


def test_shares_in_sentences():
    assert [short_percent(part, 1000) for part in (0, 4, 412, 999, 1000)] == [
        "0%",
        "0.4%",
        "41%",
        "99.9%",
        "100%",
    ]


# --------------------------------------------------------------------------------------------------


def test_every_choice_has_a_text(report):
    assert sum(len(one.texts) > 1 for one in report) > 6
    for one in report:
        bound = [
            parameter["bind"]["options"]
            for parameter in one.chart.to_dict(validate=False).get("params", ())
            if "bind" in parameter
        ]
        assert (
            set(one.texts) == set(itertools.product(*bound))
            and one.texts[tuple(options[0] for options in bound)] == one.text
        )
        assert len(set(one.texts.values())) == len(one.texts)
        for chosen, text in one.texts.items():
            for name in chosen:
                assert name.partition(" ")[0].partition("@")[0].removeprefix("k") in text


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_draws_marks(kind):
    one = figure(THREE, kind, width=340)
    assert marks(drawn(one.chart.to_dict())) > 2
    assert one.kind == kind and one.title and one.text.endswith(".") and len(one.table) > 2


@pytest.mark.parametrize("kind", KINDS)
def test_does_not_interpret_names(kind):
    subject = subject_of(*STRANGE, groups=('<b>"F"</b>', "a.b[0]\\"))
    chart = spec(subject, kind)
    assert chart["width"] == "container"
    svg = drawn(chart)  # is XML, so that nothing broke out
    assert marks(svg) > 2
    assert not [node for node in svg.iter() if node.tag.endswith("script")]
    code = [
        text
        for key in ("filter", "calculate", "expr", "test", "labelExpr")
        for text in everything(chart, key)
    ]
    code += [field for field in everything(chart, "field") if isinstance(field, str)]
    assert code
    for name in (*STRANGE, '<b>"F"</b>', "a.b[0]\\"):
        assert not name or not any(name in text for text in code if isinstance(text, str))
    assert all(
        re.fullmatch(r"\w+", field)
        for field in everything(chart, "field")
        if isinstance(field, str)
    )
    assert not everything(chart, "url") and not everything(chart, "signal")


LONG = "two_tower_transformer_v2_final_2026-11-01_{}_negatives"
LONG_NAMES = [LONG.format("large"), LONG.format("small")]


@pytest.mark.parametrize("width", [340, 1100])
@pytest.mark.parametrize("kind", KINDS)
def test_long_names_have_different_labels(kind, width):
    """Vega marks a text that it cuts with "…" at the end, where these names differ."""
    chart = spec(subject_of(*LONG_NAMES), kind)
    svg = ElementTree.fromstring(vl_convert.vegalite_to_svg(chart | {"width": width}))
    texts = [node.text for node in svg.iter() if node.tag.endswith("text") and node.text]
    assert not [text for text in texts if text.endswith("…")]
    for size in ("large", "small"):
        assert any(f"{size}_negatives" in text for text in texts), texts
    sizes = [float(node.get("font-size", "12").removesuffix("px")) for node in svg.iter()]
    assert min(sizes) >= 9


@given(
    st.lists(st.text("ab_-W推 ", min_size=1, max_size=60), min_size=1, max_size=6, unique=True),
    st.integers(80, 300),
)
def test_different_names_have_different_labels(names, pixels):
    labels = distinct_labels(names, pixels)
    assert len(set(labels.values())) == len(names)
    for name, label in labels.items():
        assert text_pixels(label) <= pixels + 1
        assert label == name or text_pixels(name) > pixels


def test_labels_show_the_part_in_which_names_differ():
    names = [f"run_{rate}_of_the_model_with_one_end_of_its_name" for rate in ("lr0.01", "lr0.02")]
    assert [*distinct_labels(names, 110).values()] == ["…lr0.01…", "…lr0.02…"]
    taken = distinct_labels(["A" * 90, "A" * 91], 120)
    assert len(set(taken.values())) == 2 and taken["A" * 91].endswith(" (2)")


def test_pairs_of_long_names_have_different_options():
    names = [*LONG_NAMES, LONG.format("no")]
    pairs = next(one for one in figures(subject_of(*names)) if one.kind == "differences")
    options = {pair for pair, *_ in pairs.texts}
    assert len(options) == 3 and all(len(option) < 75 for option in options)
    assert {name for name in names if any(name in text for text in pairs.texts.values())} == {
        *names
    }


def test_shows_blank_names():
    texts = "".join(
        node.text or ""
        for node in drawn(figure(subject_of("", " "), "values").chart.to_dict()).iter()
    )
    assert "''" in texts and "' '" in texts


@pytest.mark.parametrize(
    ("kind", "suffix", "start"),
    [
        ("cutoffs", "svg", b"<svg"),
        ("cutoffs", "png", b"\x89PNG"),
        ("cutoffs", "pdf", b"%PDF"),
        ("differences", "pdf", b"%PDF"),
    ],
)
def test_saves_charts_without_a_browser(tmp_path, kind, suffix, start):
    comparison = weft.compare(list(THREE.results.values()))
    path = tmp_path / f"chart.{suffix}"
    comparison.plot(kind).save(path)
    content = path.read_bytes()
    assert content.startswith(start) and len(content) > 3000


def test_charts_have_size_and_description():
    chart = figure(THREE, "cutoffs", width=500, height=200).chart.to_dict()
    assert (chart["width"], chart["height"]) == (500, 200)
    assert chart["description"] == figure(THREE, "cutoffs").text
    assert figure(THREE, "values").chart.to_dict()["height"] == 72


@pytest.mark.slow
def test_only_reports_have_selections(report):
    for kind in ("cutoffs", "differences", "bias"):
        assert "params" not in figure(THREE, kind).chart.to_dict()
    bound = {
        one.kind: [p["bind"]["options"] for p in one.chart.to_dict().get("params", ())]
        for one in report
    }
    assert bound["cutoffs"] == [
        ["nDCG (higher is better)", "ARP (lower is better)", "Gini (lower is better)"]
    ]
    assert bound["tradeoff"] == [["Gini@10 (lower is better)", "ARP@10 (lower is better)"]]
    assert bound["differences"][0] == ["knn vs. pop", "knn vs. als", "pop vs. als"]
    assert bound["exposure"] == [["k = 10", "k = 1", "k = 5", "k = 20"]]


@pytest.mark.slow
def test_many_models_and_metrics_stay_small():
    metrics = ("nDCG", "Recall", *(f"Metric{at:02d}(parameter=value)" for at in range(36)))
    subject = subject_of(*(f"a model with number {seed}" for seed in range(30)), metrics=metrics)
    found = figures(subject)
    assert [one.kind for one in found] == list(KINDS)
    sizes = {
        one.kind: len(json.dumps(one.chart.to_dict(validate=False), separators=(",", ":")))
        for one in found
    }
    assert sum(sizes.values()) < 700_000, sizes


def test_reports_a_missing_extra():
    code = """
        import sys
        sys.modules["altair"] = None
        try:
            import weft.report.charts
        except ImportError as error:
            print(type(error).__name__, error)
    """
    out = subprocess.run(
        [sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=True
    ).stdout
    assert out.startswith("MissingExtra") and "pip install 'weft[report]'" in out


# --------------------------------------------------------------------------------------------------


def test_charts_have_the_order_of_the_report(report):
    assert [one.kind for one in report] == list(KINDS)
    of_several = ("values", "tradeoff", "differences", "gains")
    assert [one.kind for one in figures(subject_of("als"))] == [
        kind for kind in KINDS if kind not in of_several
    ]
    assert [one.kind for one in figures(subject_of("als", "knn", bare=True))] == [
        "cutoffs",
        "values",
        "tradeoff",
    ]
    assert figures(ReportContext({"empty": Result((), "empty")})) == []


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("differences", "per_user=True"),
        ("gains", "per_user=True"),
        ("slices", "slices="),
        ("exposure", "exposure=True"),
        ("popularity", "exposure=True and train="),
        ("bias", "item_clusters="),
    ],
)
def test_reports_missing_inputs(kind, hint):
    with pytest.raises(MissingInput, match=re.escape(hint)):
        figure(subject_of("als", "knn", bare=True), kind)


@pytest.mark.parametrize("kind", ["tradeoff", "differences", "gains"])
def test_some_charts_need_two_models(kind):
    with pytest.raises(MissingInput, match=r"two (or more )?models.*compare"):
        result("als", 0).plot(kind)


@pytest.mark.slow
def test_gains_need_groups():
    results = {name: replace(one, user_labels=None) for name, one in THREE.results.items()}
    with pytest.raises(MissingInput, match="user_groups="):
        figure(ReportContext(results), "gains")
    assert "gains" not in [one.kind for one in figures(ReportContext(results))]


def test_without_a_kind_the_best_chart_of_the_data_is_drawn():
    assert figure(THREE).kind == "cutoffs"
    one_cutoff = {
        name: replace(one, entries=tuple(value for value in one.entries if value.k in (None, 10)))
        for name, one in THREE.results.items()
    }
    assert figure(ReportContext(one_cutoff)).kind == "values"
    alone = ReportContext({"als": one_cutoff["als"]})
    assert alone.results["als"].slices is not None and figure(alone).kind == "slices"
    unsliced = replace(one_cutoff["als"], slices=None)
    assert figure(ReportContext({"als": unsliced})).kind == "values"
    assert figure(THREE, x="Gini@10").kind == "tradeoff"  # the only one with this option
    assert figure(THREE, width=300, metric="ARP").kind == "cutoffs"
    with pytest.raises(SettingError, match=r"no kind of chart has the options metrc.*'metric'"):
        figure(THREE, metrc="Recall")
    with pytest.raises(MissingInput, match="no value to plot"):
        Result(()).plot()


def test_cutoffs_need_several_cutoffs():
    values = (MetricValue("nDCG", 10, 0.5), MetricValue("GAUC", None, 0.7))
    with pytest.raises(MissingInput, match=r"top_k=\[5, 10, 20\]"):
        Result(values).plot("cutoffs")


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("cutofs", {}, "Did you mean 'cutoffs'"),
        ("cutoffs", {"metrik": "nDCG"}, "no option 'metrik'. Did you mean 'metric'"),
        ("cutoffs", {"metric": "nDCK"}, "Did you mean 'nDCG'"),
        ("cutoffs", {"width": "wide"}, "width='wide'"),
        ("cutoffs", {"height": 1}, "height=1"),
        ("values", {"metric": "Recall@10"}, "metric='Recall@10' is not known"),
        ("tradeoff", {"x": "nDCG@10"}, "both 'nDCG@10'"),
        ("tradeoff", {"y": "MAP@10"}, "y='MAP@10'"),
        ("differences", {"pair": "als"}, "two models"),
        ("differences", {"pair": ("als", "als")}, "two different models"),
        ("differences", {"pair": ("als", "kn")}, "Did you mean 'knn'"),
        ("gains", {"metric": "Gini@10"}, "metric='Gini@10'"),
        ("slices", {"metric": "Gini@10"}, "metric='Gini@10'"),
        ("exposure", {"k": 7}, "k = 1, 5, 10, 20"),
        ("popularity", {"k": True}, "k=True"),
        ("bias", {"metric": "Gini@10"}, "metric='Gini@10'"),
        ("bias", {"model": "kn"}, "Did you mean 'knn'"),
    ],
)
def test_rejects_wrong_options(kind, options, said):
    with pytest.raises(SettingError, match=re.escape(said)):
        figure(THREE, kind, **options)


def test_accepts_any_spelling_of_metrics():
    assert figure(THREE, "cutoffs", metric="ndcg").title == "nDCG by cut-off"
    assert figure(THREE, "values", metric=" ndcg @ 5").title == "nDCG@5 by model"


def test_unregistered_metrics_and_undefined_values_are_drawn():
    values = tuple(
        MetricValue("Mine", k, value, higher_is_better=True)
        for k, value in ((5, 0.1), (10, math.nan), (20, 0.3))
    )
    subject = ReportContext(
        {
            "a": Result(values, "a"),
            "b": Result(tuple(replace(v, value=math.nan) for v in values), "b"),
        }
    )
    one = figure(subject, "cutoffs")
    assert one.table["cut-off"].to_list() == [5, 20]
    assert marks(drawn(one.chart.to_dict())) > 1
    assert figure(subject, "values", metric="Mine@5").table["model"].to_list() == ["a"]


# --------------------------------------------------------------------------------------------------


def test_cutoffs_text_names_the_leader():
    one = figure(THREE, "cutoffs")
    at10 = {model: THREE.results[model]["nDCG@10"] for model in THREE.models}
    first, second, third = sorted(at10, key=lambda model: -at10[model])
    said = (
        f"{first} leads with {short_number(at10[first])}, followed by {second} with "
        f"{short_number(at10[second])} and {third} with {short_number(at10[third])}."
    )
    opening = "nDCG at k = 1, 5, 10, 20: one line per model, with 95% intervals as bands."
    assert one.text == f"{opening} At k = 10, {said}"
    assert one.table.columns == [
        "metric",
        "cut-off",
        "model",
        "value",
        "95% from",
        "95% to",
        "users",
    ]
    assert len(one.table) == 3 * len(CUTOFFS)


def test_values_are_sorted_by_direction():
    datasets = figure(THREE, "values", metric="ARP@10").chart.to_dict()["datasets"].values()
    (rows,) = (rows for rows in datasets if "rank" in rows[0])
    assert rows[0]["metric"] == "ARP@10 (lower is better)"
    assert rows[0]["model"] == ["als", "knn", "pop"] and rows[0]["value"] == [110.0, 120.0, 130.0]


def test_rounds_numbers_and_keeps_counts():
    values = (
        MetricValue("ItemCoverage", 10, 1234567.0, higher_is_better=True),
        MetricValue("nDCG", 10, 0.123456789, 0.1, 5, True),
    )
    chart = Result(values).plot("values", metric="ItemCoverage@10").to_dict()
    assert next(iter(chart["datasets"].values()))[0]["value"] == [1234567]
    chart = Result(values).plot("values", metric="nDCG@10").to_dict()
    assert next(iter(chart["datasets"].values()))[0]["value"] == [0.12346]


def test_tradeoff_front_matches_the_comparison():
    comparison = weft.compare(list(THREE.results.values()))
    for x in ("Gini@10", "ARP@10"):
        table = figure(ReportContext.from_result(comparison), "tradeoff", x=x, y="nDCG@10").table
        assert set(table.filter(pl.col("on the Pareto front"))["model"]) == set(
            comparison.pareto(["nDCG@10", x])
        )
    text = figure(ReportContext.from_result(comparison), "tradeoff", x="ARP@10").text
    assert "nDCG@10 (higher is better) versus ARP@10 (lower is better)" in text


# --------------------------------------------------------------------------------------------------


def shuffled(one: Result, kept: int) -> Result:
    return replace(one, per_user=one.per_user.sample(fraction=1, shuffle=True, seed=3).head(kept))


@pytest.mark.slow
@pytest.mark.parametrize("kept", [USERS, 41])
def test_differences_match_the_comparison(kept):
    comparison = weft.compare([THREE.results["als"], shuffled(THREE.results["pop"], kept)])
    row = (
        comparison.to_frame()
        .filter((pl.col("metric") == "nDCG") & (pl.col("k") == 10))
        .row(0, named=True)
    )
    one = figure(
        ReportContext.from_result(comparison), "differences", pair=("als", "pop"), metric="nDCG@10"
    )
    data = next(rows for rows in one.chart.to_dict()["datasets"].values() if "less" in rows[0])[0]
    assert [data[name] / row["users"] for name in ("less", "same", "more")] == pytest.approx(
        [row["losses"], row["ties"], row["wins"]]
    )
    wanted = [row["difference"], row["ci_low"], row["ci_high"]]
    assert [data["mean"], data["low"], data["high"]] == pytest.approx(wanted, rel=1e-4)
    assert sum(data["users"]) + data["same"] == row["users"] == kept
    assert one.table["users"].sum() == kept
    assert one.table.filter((pl.col("difference from") == 0) & (pl.col("to") == 0))[
        "users"
    ].to_list() == [data["same"]]
    other = figure(
        ReportContext.from_result(comparison), "differences", pair=("pop", "als"), metric="nDCG@10"
    )
    turned = next(rows for rows in other.chart.to_dict()["datasets"].values() if "less" in rows[0])[
        0
    ]
    assert [turned["more"], turned["less"], turned["mean"]] == [
        data["less"],
        data["more"],
        -data["mean"],
    ]


def paired(
    a: list[float], b: list[float], metric: str = "nDCG", higher: bool = True
) -> ReportContext:
    def of(name: str, values: list[float]) -> Result:
        frame = pl.DataFrame({"user": range(len(values)), f"{metric}@10": values})
        return Result(
            (MetricValue(metric, 10, float(np.nanmean(values)), 0.1, len(values), higher),),
            name,
            per_user=frame,
        )

    return ReportContext({"a": of("a", a), "b": of("b", b)})


def test_bins_contain_their_differences():
    random = np.random.default_rng(0)
    a, b = random.integers(0, 11, 500) / 10, random.integers(0, 11, 500) / 10
    table = figure(paired(a.tolist(), b.tolist()), "differences", pair=("a", "b")).table
    for start, end, users in table.select("difference from", "to", "users").iter_rows():
        apart = a - b
        inside = (
            (apart == 0)
            if start == end
            else (apart > start + 1e-9) & (apart <= end + 1e-9) & (apart > 0)
            if start >= -1e-9
            else ((apart >= start - 1e-9) & (apart < end - 1e-9) & (apart < 0))
        )
        assert users == inside.sum()


def test_outer_bins_contain_far_differences():
    one = figure(
        paired([*np.linspace(0.01, 1, 999), 500.0], [0.0] * 1000), "differences", pair=("a", "b")
    )
    data = next(rows for rows in one.chart.to_dict()["datasets"].values() if "less" in rows[0])[0]
    assert (
        data["from"][-1] + data["wide"] == pytest.approx(1, abs=0.02) and sum(data["users"]) == 1000
    )
    assert one.table["to"].max() == 500.0


@pytest.mark.parametrize(
    ("higher", "said"),
    [(True, "a is better for 2"), (False, "b is better for 2"), (None, "a is higher for 2")],
)
def test_better_side_follows_the_direction(higher, said):
    assert (
        said
        in figure(
            paired([1.0, 1.0, 0.0, 0.5], [0.0, 0.0, 0.2, 0.5], higher=higher),
            "differences",
            pair=("a", "b"),
        ).text
    )


@pytest.mark.parametrize("a", [[0.5], [0.5, 0.5, math.nan]])
def test_differences_of_few_users_and_ties(a):
    one = figure(paired(a, [0.5] * len(a)), "differences")
    assert f"{sum(not math.isnan(value) for value in a)} (100%) are equal" in one.text
    assert drawn(one.chart.to_dict()) is not None


def test_no_chart_without_common_users():
    als, knn = THREE.results["als"], THREE.results["knn"]
    apart = ReportContext(
        {"als": als, "knn": replace(knn, per_user=knn.per_user.with_columns(pl.col("user") + "x"))}
    )
    with pytest.raises(MissingInput, match="share no user"):
        figure(apart, "differences")
    assert "differences" not in [one.kind for one in figures(apart)]


def test_gains_match_the_means_of_groups():
    table = figure(THREE, "gains", pair=("als", "pop"), metric="nDCG@10").table
    frames = [THREE.results[model].per_user["nDCG@10"].to_numpy() for model in ("als", "pop")]
    apart, labels = frames[0] - frames[1], THREE.results["als"].user_labels
    assert table["by"].unique(maintain_order=True).to_list() == [
        "train interactions",
        "user group",
        "age",
    ]
    for by, column in (("user group", "user_groups"), ("age", "slices[age]")):
        for row in table.filter(pl.col("by") == by).iter_rows(named=True):
            inside = apart[(labels[column] == row["group"]).fill_null(False).to_numpy()]
            assert row["mean difference"] == pytest.approx(inside.mean()) and row["users"] == len(
                inside
            )
    activity = labels["activity"].to_numpy()
    quarters = table.filter(pl.col("by") == "train interactions")
    assert quarters["users"].sum() == USERS and len(quarters) == 4
    for row in quarters.iter_rows(named=True):
        low, high = map(int, row["group"].split(" to "))
        assert row["mean difference"] == pytest.approx(
            apart[(activity >= low) & (activity <= high)].mean()
        )
        assert row["users"] >= USERS // 5
    assert (table["95% from"] < table["mean difference"]).all() and (
        table["95% to"] > table["mean difference"]
    ).all()


def test_gains_show_each_grouping_once():
    of_slices = pl.DataFrame(
        [
            (name, group, "nDCG", 10, 0.1, 0.01, 0.0, 1.0, 9)
            for name, groups in GROUPED.items()
            for group in groups
        ],
        schema=frame_schema("slices"),
        orient="row",
    )
    labels = THREE.results["als"].user_labels.with_columns(
        pl.Series("slices[activity]", [GROUPED["activity"][n % 3] for n in range(USERS)]),
        pl.col("user_groups").alias("slices[sex]"),
    )
    results = {
        name: replace(one, user_labels=labels, slices=of_slices)
        for name, one in THREE.results.items()
    }
    table = figure(ReportContext(results), "gains", metric="nDCG@10").table
    assert table["by"].unique(maintain_order=True).to_list() == ["age", "activity", "sex"]
    assert table.filter(pl.col("by") == "activity")["group"].to_list() == GROUPED["activity"]


GROUPED = {"activity": ["up to 9", "10 to 19", "20 and more"], "sex": ["F", "M"]}


def test_shortens_many_groups_and_notes_it():
    labels = pl.DataFrame(
        {
            "user": [f"u{n}" for n in range(USERS)],
            "user_groups": [f"g{n // 2}" for n in range(USERS)],
            "town": [f"t{n % 50}" for n in range(USERS)],
        }
    )
    subject = ReportContext(
        {name: replace(one, user_labels=labels) for name, one in THREE.results.items()}
    )
    one = figure(subject, "gains")
    assert (
        "12 smaller groups in 'user group' are not shown. 32 smaller groups in 'town' are not "
        "shown." in one.text
    )
    assert one.table["group"].n_unique() == 36


# --------------------------------------------------------------------------------------------------


def test_exposure_shows_the_gini_of_the_result_or_curve():
    evaluated = figure(THREE, "exposure", k=5).table
    assert dict(evaluated.select("model", "Gini").unique().iter_rows()) == pytest.approx(
        {"als": 0.9, "knn": 0.89, "pop": 0.88}
    )
    als = replace(THREE.results["als"], entries=())
    table = figure(ReportContext({"als": als}), "exposure").table
    assert table["Gini"][0] == pytest.approx(1 - 2 / 4, abs=1e-4)  # the curve is x³
    half = table.filter(pl.col("least recommended share of items") == 0.5)[
        "share of recommendations"
    ]
    assert half[0] == pytest.approx(0.125, abs=1e-3)


def test_popularity_has_shares():
    table = figure(THREE, "popularity").table
    sums = table.group_by("of").agg(pl.col("share").sum())
    assert set(sums["of"]) == {"als", "knn", "pop", "all items", "train data"}
    assert sums["share"].to_list() == pytest.approx([1.0] * 5)
    assert table["train interactions"].unique(maintain_order=True).to_list() == [
        "1",
        "2–3",
        "4–7",
        "8–15",
        "16–31",
        "32–63",
    ]


def test_model_names_may_equal_reference_names():
    table = figure(subject_of("all items", "train data"), "popularity").table
    assert set(table["of"]) == {"all items", "train data", "all items*", "train data*"}


def test_slices_have_their_users_and_values():
    one = figure(THREE, "slices", metric="nDCG@5")
    assert one.table.filter((pl.col("model") == "knn") & (pl.col("group") == "young"))[
        "value"
    ].to_list() == pytest.approx([0.11])
    assert (
        "Highest: 0.120 (age: young, model: pop); lowest: 0.000 (age: old, model: als)." in one.text
    )
    texts = {node.text for node in drawn(one.chart.to_dict()).iter()}
    assert {"7 users", "8 users", "0.110"} <= texts


def test_bias_colours_are_centred_on_neutral():
    values = [
        ("F", "Drama", -0.5),
        ("F", "Comedy", 0.0),
        ("M", "Drama", 0.5),
        ("M", "Comedy", math.nan),
    ]
    disparity = tuple(
        MetricValue("BiasDisparityBD", 10, value, target=0.0, cell=(group, cluster))
        for group, cluster, value in values
    )
    ratios = (1.0, 0.5, 2.0, 0.0)
    ratio = tuple(
        MetricValue("BiasDisparityBR", 10, value, target=1.0, cell=of.cell)
        for of, value in zip(disparity, ratios)
    )

    def fills(metric: str) -> dict[str, str]:
        svg = drawn(Result(disparity + ratio).plot("bias", metric=metric).to_dict())
        rects = [
            node
            for node in svg.iter()
            if "F;" in node.get("aria-label", "") or "M;" in node.get("aria-label", "")
        ]
        found = {}
        for node in rects:
            said = node.get("aria-label", "")
            if node.get("fill") and node.get("aria-roledescription") == "rect mark":
                found[re.search(r"value: (\S+?);|value: (\S+)$", said).group(0)] = node.get("fill")
        return found

    one, other = fills("BiasDisparityBD@10"), fills("BiasDisparityBR@10")
    assert "rgb(244, 244, 244)" in one.values() and "rgb(244, 244, 244)" in other.values()
    assert len(set(one.values())) >= 3 and len(set(other.values())) >= 3
    # By doublings: to lose half (-0.5) is further from neutral than to gain half (+0.5), and
    # nothing left is the furthest.
    blue, orange = "rgb(23, 72, 140)", "rgb(154, 69, 0)"
    assert blue in one.values() and orange not in one.values() and blue in other.values()


def test_bias_of_many_models_has_a_selection():
    many = subject_of(*(f"m{seed}" for seed in range(12)))
    bound = [p["bind"]["options"] for p in spec(many, "bias")["params"]]
    assert bound[1] == many.models and bound[0][0] == "BiasDisparityBD@10 (0 is neutral)"
    assert set(figure(many, "bias", model="m3").table["model"]) == {"m3"}
