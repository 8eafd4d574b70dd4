"""Names of metrics parse, print back, and have one canonical spelling."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from metric_cases import BUILT_IN
from weft.errors import SettingError
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import canonical_name

LETTERS = string.ascii_letters + "_"
words = st.builds(
    str.__add__, st.sampled_from(LETTERS), st.text(LETTERS + string.digits + "-é", max_size=8)
)
names = words.filter(
    lambda word: word.casefold() not in ("true", "false", "none")
)  # a nested name that reads as a constant
cutoffs = st.none() | st.integers(1, 10**6)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
plain = (
    st.none()
    | st.booleans()
    | numbers
    | st.text(max_size=12)
    | words
    | st.sampled_from(["True", "none", "None", "false", "null", "1", ""])
)


def specs(values, least=0):
    params = st.lists(
        st.tuples(words, values), min_size=least, max_size=3, unique_by=lambda pair: pair[0]
    )
    return st.builds(MetricSpec, names, params.map(tuple), cutoffs)


values = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | specs(inner, least=1)
        | st.builds(MetricSpec, names, st.just(()), st.integers(1, 99))
    ),
    max_leaves=8,
)


def exact(value):
    """1, 1.0 and True are equal; here they are not, and -0.0 is not 0.0."""
    if isinstance(value, MetricSpec):
        return value.name, [(key, exact(inner)) for key, inner in value.params], value.k
    return (
        [exact(inner) for inner in value]
        if isinstance(value, tuple)
        else (type(value), repr(value))
    )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(specs(values))
def test_printing_and_parsing_are_inverse(spec):
    again = parse_name(str(spec))
    assert again == spec and exact(again) == exact(spec)
    assert str(again) == str(spec) and hash(again) == hash(spec)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(max_size=30) | st.text("nDCG@()=[],'\"\\ 1.e-+", max_size=20))
def test_any_text_parses_or_is_rejected(text):
    try:
        spec = parse_name(text)
    except SettingError:
        return
    assert parse_name(str(spec)) == spec


@settings(max_examples=30, deadline=None, derandomize=True)
@given(cutoffs, st.text(" \t\n", max_size=2))
def test_ignores_blanks_between_words(k, blank):
    simple = MetricSpec(
        "F1", (("beta", 0.5), ("names", ("a", MetricSpec("nDCG", (("gain", "linear"),))))), k
    )
    text = str(simple)
    for sign in "(),=[]@":
        text = text.replace(sign, f"{blank}{sign}{blank}")
    assert parse_name(blank + text + blank) == simple


@pytest.mark.parametrize("written", ["X(a=1e999)", "X(a=-1e999)", "X(a=[1e400])"])
def test_numbers_beyond_float_range(written):
    try:
        spec = parse_name(written)
    except SettingError:
        return
    assert exact(parse_name(str(spec))) == exact(spec)


@pytest.mark.parametrize(
    ("written", "spec"),
    [
        ("nDCG", MetricSpec("nDCG")),
        ("nDCG@10", MetricSpec("nDCG", (), 10)),
        ("nDCG()@10", MetricSpec("nDCG", (), 10)),
        ("F1(beta=.5)@1", MetricSpec("F1", (("beta", 0.5),), 1)),
        ("F1(beta=1e-3)", MetricSpec("F1", (("beta", 0.001),))),
        ("F1(beta=-2)", MetricSpec("F1", (("beta", -2),))),
        (
            "A(b=true, c=False, d=None, e='None', f=none)",
            MetricSpec("A", (("b", True), ("c", False), ("d", None), ("e", "None"), ("f", "none"))),
        ),
        ("A(b=\"it's\", c='a\\'b\\\\')", MetricSpec("A", (("b", "it's"), ("c", "a'b\\")))),
        ("A(b=[1, [x], []])", MetricSpec("A", (("b", (1, ("x",), ())),))),
        (
            "A(b=C(d=E(f=1))@3)@5",
            MetricSpec(
                "A", (("b", MetricSpec("C", (("d", MetricSpec("E", (("f", 1),))),), 3)),), 5
            ),
        ),
        ("A(b=C())", MetricSpec("A", (("b", "C"),))),
        (
            "F1(metric_name_1=nDCG, metric_name_2=MAP, beta=0.5)@10",
            MetricSpec(
                "F1", (("metric_name_1", "nDCG"), ("metric_name_2", "MAP"), ("beta", 0.5)), 10
            ),
        ),
        (
            "EucDistance(metric_names=[Precision, nDCG], utopia_points=[1, 1])@10",
            MetricSpec(
                "EucDistance",
                (("metric_names", ("Precision", "nDCG")), ("utopia_points", (1, 1))),
                10,
            ),
        ),
    ],
)
def test_parses_examples_of_the_grammar(written, spec):
    assert exact(parse_name(written)) == exact(spec) and parse_name(str(spec)) == spec


@pytest.mark.parametrize(
    ("written", "expected", "character"),
    [
        ("", "a name", 1),
        ("@10", "a name", 1),
        ("10", "a name", 1),
        ("nDCG@", "a number", 6),
        ("nDCG@ten", "a number", 6),
        ("nDCG@0", "an integer of at least 1", 6),
        ("nDCG@-5", "an integer of at least 1", 6),
        ("nDCG@+5", "an integer of at least 1", 6),
        ("nDCG@2.5", "an integer of at least 1", 6),
        ("nDCG@1e3", "an integer of at least 1", 6),
        ("nDCG@10@20", "the end", 8),
        ("nDCG@10, MAP@10", "the end", 8),
        ("nDCG MAP", "the end", 6),
        ("nDCG(gain)", "'='", 10),
        ("nDCG(gain=)", "a value", 11),
        ("nDCG(=linear)", "a name", 6),
        ("nDCG(linear)", "'='", 12),
        ("nDCG(gain=linear", "','|'\\)'", 17),
        ("nDCG(gain=linear ideal=k)", "','", 18),
        ("nDCG(gain=linear,)", "a name", 18),
        ("nDCG)", "the end", 5),
        ("F1(a=[1, 2)", "','", 11),
        ("nDCG(gain='linear)", "a name, a number or a symbol", 11),
        ("nDCG#10", "a name, a number or a symbol", 5),
        ("nDCG(a=1x)", "a name, a number or a symbol", 8),
        ("nDCG(a=1.2.3)", "a name, a number or a symbol", 8),
    ],
)
def test_errors_name_the_position(written, expected, character):
    with pytest.raises(
        SettingError,
        match=f"(?s)cannot read.*expected.*({expected}).*at character {character}[.].*'nDCG@10'",
    ):
        parse_name(written)


@pytest.mark.parametrize("written", ["nDCG(gain=linear, gain=binary)@3", "F1(beta=1, beta=1)@3"])
def test_rejects_repeated_parameters(written):
    with pytest.raises(SettingError, match=r"twice; remove one"):
        parse_name(written)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("ndcg@10", "nDCG@10"),
        ("NDCG", "nDCG"),
        ("nDCG(gain=exponential, ideal=cut)@10", "nDCG@10"),
        ("nDCG(GAIN=LINEAR)@10", "nDCG(gain=linear)@10"),
        ("nDCG(ideal=k, gain=binary)@10", "nDCG(gain=binary, ideal=k)@10"),
        ("ndcgrendle2020@5", "nDCGRendle2020@5"),
        ("auc", "AUC"),
        ("AUC(scope=Pooled)", "AUC(scope=pooled)"),
        ("gauc(weight=uniform)", "GAUC"),
        ("lauc(completion=none)@5", "LAUC(completion=none)@5"),
        ("LAUC(completion='NONE')@5", "LAUC(completion=none)@5"),
        ("f1@10", "F1@10"),
        ("f1(beta=1)@10", "F1@10"),
        ("F1(beta=2)@10", "F1(beta=2.0)@10"),
        ("F1(metric_name_1=precision, metric_name_2=RECALL)@10", "F1@10"),
        ("F1(metric_1=ndcg)@10", "F1(metric_name_1=nDCG)@10"),
        (
            "F1(metric_2=map, Metric_1=ndcg, beta=0.5)@10",
            "F1(metric_name_1=nDCG, metric_name_2=MAP, beta=0.5)@10",
        ),
        ("F1(metric_name_1='nDCG(gain=linear)')@3", "F1(metric_name_1=nDCG(gain=linear))@3"),
        (
            "F1(metric_name_1=ndcg(GAIN=Linear), metric_name_2=map)@3",
            "F1(metric_name_1=nDCG(gain=linear), metric_name_2=MAP)@3",
        ),
        (
            "F1(metric_name_1=F1(beta=2), metric_name_2=gauc)@3",
            "F1(metric_name_1=F1(beta=2.0), metric_name_2=GAUC)@3",
        ),
        ("F1(metric_name_1=nDCG(gain=exponential))@3", "F1(metric_name_1=nDCG)@3"),
        ("EPC(relevance=discounted)@3", "EPC(relevance=graded)@3"),
        ("gini(denominator=n)@3", "Gini(denominator=N)@3"),
        ("ShannonEntropy(base='e', normalized=true)", "ShannonEntropy(normalized=True)"),
        (
            "eucdistance(metric_names=[ndcg(gain=linear), 'GINI'], utopia_points=[1.0, 0.5], "
            "scope=system)@3",
            "EucDistance(metric_names=[nDCG(gain=linear), Gini], utopia_points=[1, 0.5])@3",
        ),
        (
            "hypervolume(higher_is_better=[True, false], nadir_points=[0, 9], "
            "metric_names=[recall, arp])@3",
            "Hypervolume(metric_names=[Recall, ARP], nadir_points=[0, 9], higher_is_better=[True, "
            "False])@3",
        ),
    ],
)
def test_canonical_names(written, printed):
    assert canonical_name(written) == printed == canonical_name(printed)


@pytest.mark.parametrize("name", [name for name in BUILT_IN if "(" not in name])
def test_built_in_names_are_canonical(name):
    for written in (name, name.upper(), name.lower()):
        assert canonical_name(written) == name


def test_accepts_names_specs_and_objects():
    given = [
        "ndcg@5",
        MetricSpec("NDCG", (("gain", "exponential"),), 5),
        weft.metrics.nDCG(k=5),
        weft.metrics.nDCG(k=5, gain="EXPONENTIAL"),
        "nDCG",
    ]
    assert [str(spec) for spec in weft.Evaluator(given, top_k=[5]).specs] == ["nDCG@5"]


def test_expands_each_cutoff_once_in_order():
    evaluator = weft.Evaluator(["nDCG", "AUC", "Recall@3", "nDCG@7", "auc"], top_k=[10, 5, 10])
    assert [str(spec) for spec in evaluator.specs] == [
        "nDCG@10",
        "nDCG@5",
        "AUC",
        "Recall@3",
        "nDCG@7",
    ]


def test_replaces_the_cutoff_of_a_spec():
    assert parse_name("F1(beta=2)@3").with_cutoff(7) == parse_name("F1(beta=2)@7") and parse_name(
        "F1@3"
    ).with_cutoff(None) == parse_name("F1")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("alpha_nDCG(alpha=2)@3", "alpha_nDCG: alpha=2; it must"),
        ("Precision(relevance_threshold=-1)@3", "Precision: relevance_threshold=-1; it must"),
    ],
)
def test_parameters_are_no_settings_of_the_command_line(name, message):
    with pytest.raises(SettingError) as error:
        weft.evaluate({"a": [1]}, {"a": [1]}, metrics=name, item_features={1: ["x"]})
    assert message in error.value.render(lambda setting, value: f"--{setting} {value}")
