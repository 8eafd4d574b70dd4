"""Profiles: the parameters with which Weft prints the number that another tool would print.

A profile lists the metrics that it covers with the parameters that differ from Weft's defaults, how
the tool counts users and ties, and the metrics that it excludes, with the reason. Each entry was
established by comparison with stored values of the tool on real data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from weft.errors import SettingError, check_choice, setting_ref
from weft.metrics.declarations import metric_parameters
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import (
    canonical_name,
    find_metric,
    is_metric_class,
)


@dataclass(frozen=True)
class Profile:
    """One version of a tool, expressed as parameters and settings of Weft."""

    tool: str
    version: str
    covers: Mapping[str, Mapping[str, Any]]  # metric to the parameters that differ from defaults
    settings: Mapping[str, Any] = field(default_factory=dict)  # that differ from the defaults
    excluded: Mapping[str, str] = field(default_factory=dict)  # metric to the reason
    notes: tuple[str, ...] = ()  # points to know before comparing
    orders_ties_by_descending_id: bool = False  # ids compared as text

    def __reduce__(self) -> Any:
        return find_profile, (self.tool,)  # a copy or pickle is the profile of that name


_ONE_MORE_NEGATIVE = (
    "{} counts one negative more than there are and gives ties no credit; Weft's value is exact"
)
_BY_USERS = MappingProxyType({"average": "users"})
_BY_LIST = MappingProxyType({"denominator": "list"})
_ZERO = {"empty_users": "zero"}
_JUDGED = {"relevance_threshold": 1, **_ZERO}  # judgements are integers, negative ones not relevant


def _default(*metrics: str) -> dict[str, Mapping[str, Any]]:
    """Return metrics that the tool defines like Weft's defaults."""
    return dict.fromkeys(metrics, MappingProxyType({}))


PROFILES = {
    profile.tool: profile
    for profile in (
        Profile(
            "warprec",
            "2.2.8",
            {
                **_default(
                    "Precision", "Recall", "HitRate", "MRR", "MAP", "MAR", "F1", "nDCGRendle2020"
                ),
                "nDCG": {"gain": "exponential_shifted"},
                **dict.fromkeys(("MAE", "MSE", "RMSE"), _BY_USERS),
                **_default(
                    "ItemCoverage",
                    "NumRetrieved",
                    "UserCoverageAtN",
                    "Gini",
                    "ShannonEntropy",
                    "SRecall",
                ),
                "EFD": {"gain": "exponential_shifted"},
                "EPC": {"gain": "exponential_shifted", "unseen": 1},
                "ARP": {"users": "evaluated", "unseen": 1},
                **_default("BiasDisparityBS", "BiasDisparityBR", "BiasDisparityBD", "REO", "RSP"),
                "ItemMADRanking": {
                    "gain": "exponential_shifted",
                    "discount": False,
                    "users": "lists",
                },
                "ItemMADRating": {},
                "UserMADRanking": {"gain": "exponential_shifted"},
                "UserMADRating": {"users": "evaluated"},
                "EucDistance": {"scope": "users"},
                "Hypervolume": {"scope": "users"},
            },
            settings={"extra_users": "skip"},
            excluded={
                **dict.fromkeys(("AUC", "GAUC", "LAUC"), _ONE_MORE_NEGATIVE.format("WarpRec")),
                "UserCoverage": "WarpRec counts users with test items, whatever is recommended",
                **dict.fromkeys(
                    ("ACLT", "APLT", "PopREO", "PopRSP"),
                    "WarpRec sorts items by popularity with an unstable sort: which of the "
                    "equally popular items at the border are head depends on the machine",
                ),
            },
            notes=(
                "WarpRec evaluates the users of the test set. Lists of other users do not count.",
                "WarpRec computes in float32: differences of nearly equal numbers (the MADs, "
                "BiasDisparityBD) agree to a few 1e-7 of what is subtracted, which may be 3e-5 of "
                "the difference.",
                "Where fewer than two clusters have a value WarpRec prints 0, and BiasDisparityBD "
                "is 0 or a huge number where BS is 0; Weft returns NaN.",
                "WarpRec orders tied scores at random; items masked with -inf are recommended "
                "when fewer than k remain, so that NumRetrieved is min(k, items) whatever the "
                "lists hold.",
            ),
        ),
        Profile(
            "elliot",
            "0.3.1",
            {
                **_default("Precision", "Recall", "HitRate", "MRR", "F1", "nDCG", "nDCGRendle2020"),
                **_default("ItemCoverage", "UserCoverage", "UserCoverageAtN"),
                "NumRetrieved": {"users": "evaluated"},
                **dict.fromkeys(("EFD", "EPC", "APLT"), _BY_LIST),
                "ShannonEntropy": {"base": 2, "weights": "lists"},
                "SRecall": {"denominator": "catalogue"},
                **_default("ACLT", "ARP", "PopREO", "PopRSP"),
                **_default(
                    "BiasDisparityBS",
                    "BiasDisparityBR",
                    "BiasDisparityBD",
                    "REO",
                    "RSP",
                    "UserMADRanking",
                ),
                "ItemMADRanking": {"discount": False},
                "ItemMADRating": {"appearances": "all"},
                "UserMADRating": {"users": "evaluated"},
            },
            settings={"missing_lists": "skip", "extra_users": "skip"},
            excluded={
                **dict.fromkeys(("AUC", "GAUC", "LAUC"), _ONE_MORE_NEGATIVE.format("Elliot")),
                "Gini": "Elliot prints 1 - Gini, so that higher is more even",
                "MAP": "Elliot's MAP is the mean of Precision@1 to Precision@k, not average "
                "precision",
                "MAR": "Elliot's MAR is the mean of Recall@1 to Recall@k",
            },
            notes=(
                "Elliot evaluates the users who have a test row and a list; it stops with an error "
                "at an empty list.",
                "Elliot never recommends items of train. With lists, give mask_seen=True: if not, "
                "items of train are candidates in RSP and PopRSP. In REO and PopREO it leaves out "
                "relevant items that are in the user's train; Weft counts them.",
                "With a relevance threshold t Elliot's gain is 2^(r-t+1) - 1: subtract t - 1 from "
                "the ratings before comparing nDCG, UserMADRanking or graded EFD and EPC.",
                "REO, ItemMADRanking and ItemMADRating are NaN in Elliot as soon as one cluster "
                "has no value; Weft omits such clusters.",
                "In EFD an item without train interactions has the novelty of the least popular "
                "one in train; in Weft that of one interaction.",
            ),
        ),
        Profile(
            "trec_eval",
            "10.0-rc3 (and pytrec_eval)",
            {
                **_default("Precision", "Recall", "HitRate", "MRR", "RPrecision", "bpref", "infAP"),
                "MAP": {"normalizer": "relevant"},
                "nDCG": {"gain": "linear"},
                "F1": {"metric_name_1": "Precision(denominator=list)"},
                "RBP": {"p": 0.9},
                "RBPResidual": {"p": 0.9, "users": "lists"},
                "IPrec": {"rounding": "nearest"},
            },
            settings={**_JUDGED, "missing_lists": "skip"},
            notes=(
                "P, recall, success, recip_rank, map_cut, ndcg_cut, set_F, Rprec, bpref, infAP, "
                "rbp_resid, 11pt_avg (IPrec; iprec_at_recall_0.10 is IPrec(recall=0.1), which "
                "pytrec_eval rounds otherwise) and, where judgements are 0 or 1, rbp are "
                "reproduced. Those without a "
                "cut-off: give a k that holds the whole list. Uncut ndcg is nDCG(gain=linear, "
                "ideal=full), Rprec_mult_0.50 is RPrecision(multiple=0.5), relative_P is "
                "Recall(normalizer=capped).",
                "rbp divides judgements above 1 by the highest one of the topic. Negative "
                "judgements count as judged in Weft.",
                "Tied scores rank by document id, descending as text. Weft does so in "
                "recommendation lists, unless items= gives an order or ties= a rule; with a score "
                "matrix, give items= in that order.",
                "trec_eval stores scores as float32, so that scores that differ by less than about "
                "6e-8 of their size are tied; Weft compares them as float64. For the tool's order "
                "cast the scores to float32 before they are given or written.",
                "With -c users without a list count 0: missing_lists='zero'.",
                "Judgements are integers, and those below 1, also negative ones, are not relevant "
                "(another level, -l: relevance_threshold). Topics of a run without judgements are "
                "in no mean.",
            ),
            orders_ties_by_descending_id=True,
        ),
        Profile(
            "ranx",
            "0.3.21",
            {
                **_default("Precision", "Recall", "HitRate", "MRR", "F1", "RPrecision"),
                "MAP": {"normalizer": "relevant"},
                "nDCG": {"gain": "linear"},
                "DCG": {"gain": "linear"},
                "RBP": {"relevance": "graded"},
            },
            settings=_JUDGED,
            notes=(
                "ndcg and dcg are reproduced; ndcg_burges and dcg_burges have gain=exponential, "
                "rbp.80 is RBP(p=0.8) with a k that holds the whole list. Without a cut-off, "
                "precision and f1 divide by the length of the list: give a k that holds the whole "
                "list, and Precision(denominator=list), or F1(metric_name_1="
                "Precision(denominator=list)). Uncut ndcg is nDCG(gain=linear, ideal=full).",
                "ranx orders tied scores in its own way.",
                "Judgements are integers, and those below 1 are not relevant. Queries without "
                "judgements are in no mean, those without a result count 0 (make_comparable).",
            ),
        ),
        Profile(
            "recbole",
            "1.2.1",
            {
                **_default("Precision", "Recall", "HitRate", "MRR", "MAP"),
                "nDCG": {"gain": "binary"},
                "GAUC": {"weight": "positives"},
                "ItemCoverage": {"as_fraction": True, "users": "evaluated"},
                "Gini": {"denominator": "N", "users": "evaluated"},
                "ARP": {"users": "evaluated"},
            },
            settings={"extra_users": "skip"},
            excluded={
                "ShannonEntropy": "RecBole divides the entropy by the number of distinct "
                "recommended items",
                "APLT": "RecBole's TailPercentage takes a share of the items, not of the "
                "interactions, as the tail",
            },
            notes=("RecBole evaluates users with test items only.",),
        ),
        Profile(
            "torchmetrics",
            "1.9.0",
            {
                **_default("Precision", "Recall", "HitRate", "MRR", "GAUC", "MAE", "MSE", "RMSE"),
                "MAP": {"normalizer": "hits"},
                "nDCG": {"gain": "linear"},
            },
            settings={**_ZERO, "ties": "expected"},
            notes=(
                "empty_target_action='neg', its default, counts users without relevant items as "
                "0; for 'skip' give empty_users='skip'.",
                "Tied scores are averaged in RetrievalNormalizedDCG; the other metrics take them "
                "as torch sorts them.",
                "Precision, Recall, MAP and MRR are 0 in torchmetrics for negative scores, and "
                "AUROC saturates outside [0, 1]: compare on scores scaled to (0, 1).",
            ),
        ),
        Profile(
            "rectools",
            "0.19.0",
            {
                **_default("Precision", "Recall", "HitRate", "MRR", "F1", "ItemCoverage", "ARP"),
                **_default("PartialAUC", "PAP"),
                "MAP": {"normalizer": "relevant"},
                "nDCG": {"gain": "binary", "ideal": "k"},
                "UserCoverage": {"as_fraction": True, "users": "evaluated"},
                "Accuracy": {"universe": "catalogue"},
                "MCC": {"universe": "catalogue"},
            },
            excluded={
                "LAUC": "RecTools' PartialAUC looks at the first k negatives only, and is another "
                "number"
            },
            notes=(
                "NDCG by default, CatalogCoverage, CoveredUsers and F1Beta are reproduced. "
                "NDCG(divide_by_achievable=True) is nDCG(gain=binary); "
                "Precision(r_precision=True) is Recall(normalizer=capped), MAP(divide_by_k=True) "
                "is MAP(normalizer=k), and another log_base of NDCG changes nothing.",
                "Accuracy and MCC count the missing positions of a short list as misses in "
                "RecTools; in Weft a list has the items that it has.",
                "CatalogCoverage and AvgRecPopularity count all lists, CoveredUsers the users of "
                "the truth. In AvgRecPopularity every row of train counts; in Weft a repeated "
                "(user, item) row counts once.",
            ),
        ),
        Profile(
            "sklearn",
            "1.9.1",
            {
                "nDCG": {"gain": "linear"},
                "DCG": {"gain": "linear"},
                "MAP": {"normalizer": "relevant"},
                "GAUC": {},
                "AUC": {"scope": "pooled"},
                **_default("MAE", "MSE", "RMSE"),
            },
            settings={**_ZERO, "ties": "expected"},
            notes=(
                "ndcg_score, dcg_score, average_precision_score and roc_auc_score are reproduced. "
                "average_precision_score is not cut: give a k that holds the catalogue; it treats "
                "a tie as one threshold, which no order of the tied items gives.",
                "roc_auc_score is undefined for users without relevant items: give "
                "empty_users='skip' with GAUC. Over all pairs pooled, it takes users without "
                "relevant items too; Weft's AUC does not.",
            ),
        ),
    )
}


def find_profile(name: object) -> Profile:
    """Return the profile of a name; raises `SettingError` for an unknown one."""
    return PROFILES[check_choice("profile", name, tuple(PROFILES))]


def apply_profile(metric: Any, profile: Profile) -> Any:
    """Return a metric (name, spec or class) with the profile's parameters added.

    Parameters in the name take precedence. Metric objects, which have all parameters, and
    metrics that are not Weft's own are returned unchanged. Raises `SettingError` for a metric that
    the profile excludes or does not cover."""
    if is_metric_class(metric):
        metric_class, spec = metric, MetricSpec(metric.__name__)
    elif isinstance(metric, (str, MetricSpec)):
        spec = parse_name(metric) if isinstance(metric, str) else metric
        metric_class = find_metric(spec.name)
    else:
        return metric
    if not metric_class.__module__.startswith("weft."):
        return metric
    name = metric_class.__name__
    if name in profile.excluded:
        raise SettingError(
            f"{setting_ref('profile', profile.tool)} excludes {name}: {profile.excluded[name]}."
        )
    if name not in profile.covers:
        raise SettingError(
            f"{setting_ref('profile', profile.tool)} does not cover {name}. It covers: "
            f"{', '.join(sorted(profile.covers))}."
        )
    folded = {key.casefold() for key, _ in spec.params}
    written = folded | {metric_class.parameter_aliases.get(key, "") for key in folded}
    added = ((key, value) for key, value in profile.covers[name].items() if key not in written)
    params = _map_components(spec, lambda component: apply_profile(component, profile))
    return MetricSpec(name, (*params.items(), *added), spec.k)


def _map_components(spec: MetricSpec, change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the parameters of a metric with the metrics that they name changed."""

    def change_value(key: str, value: Any) -> Any:
        if key == "metric_names" and isinstance(value, tuple):
            return tuple(change(name) for name in value)
        is_component = key.startswith("metric_") and isinstance(value, (str, MetricSpec))
        return change(value) if is_component else value

    return {key: change_value(key.casefold(), value) for key, value in spec.params}


def spell_out(metric: str | MetricSpec, profile: Profile | None) -> MetricSpec:
    """Return a canonical metric with Weft's defaults written out where the profile sets others.

    Under ranx, `nDCG` is `nDCG(gain=linear)`, and Weft's own is `nDCG(gain=exponential)`. Metrics
    that the profile does not cover are returned unchanged."""
    spec = parse_name(metric) if isinstance(metric, str) else metric
    if profile is None:
        return spec
    try:
        name_under_profile = canonical_name(str(apply_profile(spec, profile)))
    except SettingError:
        return spec
    if name_under_profile == canonical_name(str(spec)):
        return spec
    params = _map_components(spec, lambda component: spell_out(component, profile))
    known = metric_parameters(find_metric(spec.name))
    for key in profile.covers[spec.name]:
        params.setdefault(key, known[key].default)
    return MetricSpec(
        spec.name, tuple((key, params[key]) for key in known if key in params), spec.k
    )


def profiled_name(name: str, profile: str) -> str:
    """Return the full name of a metric under a profile, such as `nDCG(gain=linear)@10`."""
    tool = find_profile(profile)
    return str(spell_out(canonical_name(str(apply_profile(name, tool))), tool))


def tool_definitions(metric: str) -> dict[str, MetricSpec | str]:
    """Return a metric as each tool defines it: a spec, or the reason why it is excluded."""
    name = find_metric(metric).__name__
    definitions: dict[str, MetricSpec | str] = {}
    for tool, profile in PROFILES.items():
        if name in profile.excluded:
            definitions[tool] = profile.excluded[name]
        elif name in profile.covers:
            definitions[tool] = MetricSpec(name, tuple(profile.covers[name].items()))
    return definitions
