"""Other tools' definitions: which parameters make Weft print the number that another tool would.

A profile names the metrics it covers, each with the parameters that differ from Weft's defaults,
how the tool counts users, and which metrics cannot be had, with the reason. All of it was found by
comparing stored values of the tool on real data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from weft.errors import SettingError, check_choice
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import canonical_name, find_metric, is_metric_class


@dataclass(frozen=True)
class Profile:
    """One tool: its version, its metrics as Weft's parameters, and its choices for the whole run."""

    tool: str
    version: str
    covers: Mapping[
        str, Mapping[str, Any]
    ]  # Weft's metric and the parameters that differ from its defaults
    settings: Mapping[str, str] = field(
        default_factory=dict
    )  # of the run, where they differ from DEFAULTS
    left_out: Mapping[str, str] = field(
        default_factory=dict
    )  # metrics that the tool has and that are not reproduced, and why
    notes: tuple[str, ...] = ()  # what to know before comparing
    orders_ties_by_descending_id: bool = False  # equal scores rank by id, descending as text

    def __reduce__(self) -> Any:
        return find_profile, (self.tool,)  # copies and pickles are the profile of the name


# How a run counts, if neither the caller nor a profile says otherwise.
SETTING_DEFAULTS = {"empty_users": "skip", "missing_lists": "zero", "ties": "index"}
_PLUS_ONE = "{} counts one negative more than there are and gives ties no credit; Weft's value is the exact one"
_BY_USERS = MappingProxyType({"average": "users"})
_ZERO = {"empty_users": "zero"}


def _as_is(*metrics: str) -> dict[str, Mapping[str, Any]]:
    """Metrics that the tool defines as Weft does by default."""
    return dict.fromkeys(metrics, MappingProxyType({}))


PROFILES = {
    profile.tool: profile
    for profile in (
        Profile(
            "warprec",
            "2.2.8",
            {
                **_as_is(
                    "Precision", "Recall", "HitRate", "MRR", "MAP", "MAR", "F1", "nDCGRendle2020"
                ),
                "nDCG": {"gain": "exponential_shifted"},
                **dict.fromkeys(("MAE", "MSE", "RMSE"), _BY_USERS),
                **_as_is(
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
                **_as_is("BiasDisparityBS", "BiasDisparityBR", "BiasDisparityBD", "REO", "RSP"),
                "ItemMADRanking": {"gain": "exponential_shifted", "discount": False},
                "ItemMADRating": {},
                "UserMADRanking": {"gain": "exponential_shifted"},
                "UserMADRating": {},
                "EucDistance": {"scope": "users"},
                "Hypervolume": {"scope": "users"},
            },
            left_out={
                **dict.fromkeys(("AUC", "GAUC", "LAUC"), _PLUS_ONE.format("WarpRec")),
                "UserCoverage": "WarpRec counts users with test items, whatever they were "
                "recommended",
                **dict.fromkeys(
                    ("ACLT", "APLT", "PopREO", "PopRSP"),
                    "WarpRec sorts items by popularity with an unstable sort: which of the equally "
                    "popular items at the border are "
                    "head depends on the machine",
                ),
            },
            notes=(
                "WarpRec computes in float32: differences of nearly equal numbers (the MADs, "
                "BiasDisparityBD) agree to a few "
                "1e-7 of what is subtracted, which may be 3e-5 of the difference.",
                "Where fewer than two clusters have a value WarpRec prints 0, and BiasDisparityBD "
                "is 0 or a huge number where "
                "BS is 0; Weft says undefined.",
                "Tied scores are drawn at random there; items masked with -inf are recommended "
                "when fewer than k remain, so that "
                "NumRetrieved is min(k, items) whatever the lists hold.",
            ),
        ),
        Profile(
            "elliot",
            "0.3.1",
            {
                **_as_is("Precision", "Recall", "HitRate", "MRR", "F1", "nDCG", "nDCGRendle2020"),
                **_as_is(
                    "ItemCoverage", "NumRetrieved", "UserCoverage", "UserCoverageAtN", "EFD", "EPC"
                ),
                "ShannonEntropy": {"base": 2},
                "SRecall": {"denominator": "catalogue"},
                **_as_is("ACLT", "APLT", "ARP", "PopREO", "PopRSP"),
                **_as_is(
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
            left_out={
                **dict.fromkeys(("AUC", "GAUC", "LAUC"), _PLUS_ONE.format("Elliot")),
                "Gini": "Elliot prints 1 - Gini, so that higher is more even",
                "MAP": "Elliot's MAP is the mean of Precision@1 to Precision@k, not average "
                "precision",
                "MAR": "Elliot's MAR is the mean of Recall@1 to Recall@k",
            },
            notes=(
                "With a relevance threshold t Elliot's gain is 2^(r-t+1) - 1: subtract t - 1 from "
                "the ratings before comparing "
                "nDCG, UserMADRanking or graded EFD and EPC.",
                "REO, ItemMADRanking and ItemMADRating are NaN there as soon as one cluster has no "
                "value; Weft leaves such "
                "clusters out.",
                "In EFD an item that nobody has met takes the novelty of the least popular one in "
                "train; in Weft that of one "
                "interaction.",
            ),
        ),
        Profile(
            "trec_eval",
            "10.0-rc3 (and pytrec_eval)",
            {
                **_as_is("Precision", "Recall", "HitRate", "MRR"),
                "MAP": {"normalizer": "relevant"},
                "nDCG": {"gain": "linear"},
                "F1": {"metric_name_1": "Precision(denominator=list)"},
            },
            settings={"empty_users": "zero", "missing_lists": "skip"},
            notes=(
                "P, recall, success, recip_rank, map_cut, ndcg_cut and set_F are meant; recip_rank "
                "and set_F are not cut: give a "
                "k that holds the whole list. Uncut ndcg is nDCG(gain=linear, ideal=full).",
                "Tied scores rank by document id, descending as text. So they do here in "
                "recommendation lists, unless items= gives "
                "an order or ties= a rule; with a score matrix, give items= in that order.",
                "With -c users without a list count 0: missing_lists='zero'.",
            ),
            orders_ties_by_descending_id=True,
        ),
        Profile(
            "ranx",
            "0.3.21",
            {
                **_as_is("Precision", "Recall", "HitRate", "MRR", "F1"),
                "MAP": {"normalizer": "relevant"},
                "nDCG": {"gain": "linear"},
            },
            settings=_ZERO,
            notes=(
                "ndcg is meant; ndcg_burges is nDCG(gain=exponential).",
                "Tied scores rank in an order of its own.",
            ),
        ),
        Profile(
            "recbole",
            "1.2.1",
            {
                **_as_is("Precision", "Recall", "HitRate", "MRR", "MAP"),
                "nDCG": {"gain": "binary"},
                "GAUC": {"weight": "positives"},
                "ItemCoverage": {"as_fraction": True, "users": "evaluated"},
                "Gini": {"denominator": "N", "users": "evaluated"},
                "ARP": {"users": "evaluated"},
            },
            left_out={
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
                **_as_is("Precision", "Recall", "HitRate", "MRR", "GAUC", "MAE", "MSE", "RMSE"),
                "MAP": {"normalizer": "hits"},
                "nDCG": {"gain": "linear"},
            },
            settings={**_ZERO, "ties": "expected"},
            notes=(
                "empty_target_action='neg', its default, counts users without relevant items as 0; "
                "for 'skip' give "
                "empty_users='skip'.",
                "Tied scores are averaged in RetrievalNormalizedDCG; the other metrics take them "
                "as torch sorts them.",
                "Precision, Recall, MAP and MRR are 0 there for negative scores, and AUROC "
                "saturates outside [0, 1]: compare on "
                "scores scaled to (0, 1).",
            ),
        ),
        Profile(
            "rectools",
            "0.19.0",
            {
                **_as_is("Precision", "Recall", "HitRate", "MRR", "F1", "ItemCoverage", "ARP"),
                "MAP": {"normalizer": "relevant"},
                "nDCG": {"gain": "binary", "ideal": "k"},
                "UserCoverage": {"as_fraction": True},
            },
            left_out={
                "LAUC": "RecTools' PartialAUC looks at the first k negatives only, and is another "
                "number"
            },
            notes=(
                "NDCG by default, CatalogCoverage, CoveredUsers and F1Beta are meant. "
                "NDCG(divide_by_achievable=True) is "
                "nDCG(gain=binary); Precision(r_precision=True) is Recall(normalizer=capped). "
                "MAP(divide_by_k=True) and another "
                "log_base of NDCG cannot be had.",
            ),
        ),
        Profile(
            "sklearn",
            "1.9.1",
            {
                "nDCG": {"gain": "linear"},
                "MAP": {"normalizer": "relevant"},
                "GAUC": {},
                "AUC": {"scope": "pooled"},
                **_as_is("MAE", "MSE", "RMSE"),
            },
            settings={**_ZERO, "ties": "expected"},
            notes=(
                "ndcg_score, average_precision_score and roc_auc_score are meant. "
                "average_precision_score is not cut: give a k "
                "that holds the catalogue; it treats a tie as one threshold, which no order of the "
                "tied items gives.",
                "roc_auc_score is undefined for users without relevant items: give "
                "empty_users='skip' with GAUC. Over all pairs "
                "pooled, it takes users without relevant items too; Weft's AUC does not.",
            ),
        ),
    )
}


def find_profile(name: object) -> Profile:
    """The profile of this name."""
    return PROFILES[check_choice("profile", name, tuple(PROFILES))]


def resolve_defaults(profile: Profile | None, **given: str | None) -> dict[str, str]:
    """The settings of a run: what was given, else what the profile says, else the default."""
    says = {**SETTING_DEFAULTS, **(profile.settings if profile is not None else {})}
    return {name: says[name] if value is None else value for name, value in given.items()}


def apply_profile(given: Any, profile: Profile) -> Any:
    """A metric by name, spec or class under a profile's definitions. What the name itself says
    holds.
    """
    if not isinstance(given, (str, MetricSpec)) and not is_metric_class(given):
        return given  # an object, whose parameters were all chosen
    spec = (
        MetricSpec(given.__name__)
        if is_metric_class(given)
        else parse_name(given)
        if isinstance(given, str)
        else given
    )
    metric = given if is_metric_class(given) else find_metric(spec.name)
    if not metric.__module__.startswith("weft."):
        return given  # a metric of the user's own
    name = metric.__name__
    if name in profile.left_out:
        raise SettingError(f"profile={profile.tool!r} leaves {name} out: {profile.left_out[name]}.")
    if name not in profile.covers:
        raise SettingError(
            f"profile={profile.tool!r} does not cover {name}. It covers: "
            f"{', '.join(sorted(profile.covers))}."
        )
    written = {key.casefold() for key, _ in spec.params} | {
        metric.parameter_aliases.get(key.casefold(), "") for key, _ in spec.params
    }
    missing = tuple(
        (key, value) for key, value in profile.covers[name].items() if key not in written
    )
    params = tuple((key, _adopt_parts(key, value, profile)) for key, value in spec.params)
    return MetricSpec(name, (*params, *missing), spec.k)


def _adopt_parts(key: str, value: Any, profile: Profile) -> Any:
    """The metrics that a composite names, under the same definitions."""
    if key.casefold() == "metric_names" and isinstance(value, tuple):
        return tuple(_adopt_parts("metric_name", one, profile) for one in value)
    if key.casefold().startswith("metric_") and isinstance(value, (str, MetricSpec)):
        return apply_profile(value, profile)
    return value


def profiled_name(name: str, profile: str) -> str:
    """The full name of what was asked for under a profile: `nDCG@10` as the profile defines it."""
    return canonical_name(str(apply_profile(name, find_profile(profile))))


def tool_definitions(metric: str) -> dict[str, MetricSpec | str]:
    """For every tool that has a metric: the metric under its definition, or why it is left out."""
    name = find_metric(metric).__name__
    found: dict[str, MetricSpec | str] = {}
    for tool, profile in PROFILES.items():
        if name in profile.left_out:
            found[tool] = profile.left_out[name]
        elif name in profile.covers:
            found[tool] = MetricSpec(name, tuple(profile.covers[name].items()))
    return found
