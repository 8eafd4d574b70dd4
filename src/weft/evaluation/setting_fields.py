"""The options of an evaluation: type, default, help text and spelling of each.

Importing this module loads neither torch nor polars.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from weft._choices import (
    CandidatePool,
    Duplicates,
    EmptyUsers,
    EstimatorName,
    ExtraUsers,
    MissingLists,
    NanScores,
    NegativeSampling,
    ProfileName,
    RepeatedUsers,
    Strategy,
    Targets,
    TieRuleName,
    UnknownItems,
)
from weft.errors import check_int, check_path, check_threshold
from weft.evaluation.sampling_settings import NEG_ALPHA, NUM_NEGATIVES
from weft.evaluation.setting_defaults import GAMMA
from weft.evaluation.setting_rules import (
    EVALUATION,
    EXECUTION,
    INPUT,
    METRICS,
    OUTPUT,
    SAMPLING,
    UNCERTAINTY,
    Bool,
    Cutoffs,
    Device,
    MemorySize,
    Metrics,
    Option,
    Seed,
    checked,
    one_of,
    read_gamma,
    read_item_slices,
    read_mask_seen,
    read_power,
    read_slices,
    read_text,
)


class SettingFields(BaseModel):
    """Every option of an evaluation, without the rules between options."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    metrics: Annotated[Metrics, Option(METRICS, short_flag="-m", metavar="NAMES")] = Field(
        default=(),
        description="Names of the metrics to compute, such as nDCG, nDCG@10 or 'F1(beta=0.5)@5'. "
        "Case does not matter.",
    )
    top_k: Annotated[Cutoffs, Option(METRICS, short_flag="-k", metavar="CUTOFFS")] = Field(
        default=None,
        description="Cut-offs of the metrics that are named without one, such as 10 and 20.",
    )
    profile: Annotated[
        ProfileName | None, one_of(ProfileName), Option(METRICS, recorded="always")
    ] = Field(
        default=None,
        description="Use the metric definitions of another tool to reproduce its values. A "
        "profile sets the parameters of metrics and, unless they are given, ties, "
        "relevance_threshold, empty_users, missing_lists and extra_users.",
    )
    relevance_threshold: Annotated[
        float | None,
        BeforeValidator(check_threshold),
        Option(EVALUATION, metavar="RATING", recorded="always"),
    ] = Field(
        default=None,
        gt=0,
        description="Lowest rating of a relevant item. Without a threshold, every item with a "
        "rating above 0 is relevant.",
    )
    implicit: Annotated[Bool, Option(EVALUATION, recorded="if given")] = Field(
        default=False,
        description="Ignore the ratings in the truth and give every interaction the rating 1, as "
        "for clicks or play counts.",
    )
    mask_seen: Annotated[
        bool | Literal["auto"],
        BeforeValidator(read_mask_seen),
        Option(EVALUATION, "--mask-seen/--keep-seen", recorded="always"),
    ] = Field(
        default="auto",
        description="Remove the items of a user's train interactions from the ranking of this "
        "user. With 'auto', they are removed from scores; in recommendation lists they are kept, "
        "and the result counts them.",
    )
    targets: Annotated[
        Targets, one_of(Targets, is_required=True), Option(EVALUATION, recorded="if given")
    ] = Field(
        default="all",
        description="Relevant items that metrics count: all of them (all), those that are not in "
        "the user's train interactions (new), or those that are (repeated).",
    )
    ties: Annotated[
        TieRuleName | None, one_of(TieRuleName), Option(EVALUATION, recorded="always")
    ] = Field(
        default=None,
        description="Order of items with equal scores: by item index (index), at random (random), "
        "averaged over all orders (expected), or with relevant items last (pessimistic) or first "
        "(optimistic). Default: index, or random with sampled negatives.",
    )
    seed: Annotated[Seed, Option(EVALUATION, recorded="always")] = Field(
        default=0,
        description="Seed of the random numbers that sample negatives, order ties and resample "
        "users.",
    )
    empty_users: Annotated[
        EmptyUsers | None, one_of(EmptyUsers), Option(EVALUATION, recorded="always")
    ] = Field(
        default=None,
        description="Treatment of users in the truth who have no relevant item: leave them out "
        "(skip), or count them with the value 0 (zero). Default: skip.",
    )
    missing_lists: Annotated[
        MissingLists | None, one_of(MissingLists), Option(EVALUATION, recorded="of a run")
    ] = Field(
        default=None,
        description="Treatment of users in the truth who have no scores or no recommendation "
        "list: count them with an empty list (zero), or leave them out (skip). Default: zero.",
    )
    extra_users: Annotated[
        ExtraUsers | None, one_of(ExtraUsers), Option(EVALUATION, recorded="if given")
    ] = Field(
        default=None,
        description="Treatment of users who have no interaction in the truth: count their lists "
        "in metrics of all lists, such as coverage (count), or leave these users out of every "
        "metric (skip). Default: count.",
    )
    duplicates: Annotated[
        Duplicates,
        one_of(Duplicates, is_required=True),
        Option(EVALUATION, recorded="if changed"),
    ] = Field(
        default="error",
        description="Treatment of an item that occurs more than once in a recommendation list: "
        "raise an error (error), keep its best position and move later items up (keep-best), or "
        "keep its best position and count the other positions as misses (miss).",
    )
    unknown_items: Annotated[
        UnknownItems,
        one_of(UnknownItems, is_required=True),
        Option(EVALUATION, recorded="if changed"),
    ] = Field(
        default="error",
        description="Treatment of recommended items that are not in the catalogue: raise an error "
        "(error), or keep their positions and count them as misses (miss).",
    )
    repeated_users: Annotated[
        RepeatedUsers | None,
        one_of(RepeatedUsers),
        Option(EVALUATION, None, None, in_evaluate=False, recorded="if given"),
    ] = Field(
        default=None,
        description="Treatment of users who occur in several batches: count every row (count), or "
        "only the first one (drop). Default: count.",
    )
    nan_scores: Annotated[
        NanScores,
        one_of(NanScores, is_required=True),
        Option(EVALUATION, None, None, in_evaluate=False, recorded="if given"),
    ] = Field(
        default="raise",
        description="Treatment of scores that are NaN or +inf: raise an error (raise), or set "
        "every value of the result to NaN (nan).",
    )
    feature_separator: Annotated[
        str | None, checked(read_text), Option(INPUT, metavar="TEXT", recorded="if given")
    ] = Field(
        default=None,
        min_length=1,
        description="Text between several features in one value of item_features, such as '|' in "
        "Action|Comedy.",
    )
    candidates: Annotated[
        CandidatePool,
        one_of(CandidatePool, is_required=True),
        Option(SAMPLING, metavar="POOL|PATH", recorded="of a run"),
    ] = Field(
        default="all",
        description="Items that can be recommended: every item (all), items without a train "
        "interaction (cold) or with one (warm), the items of each recommendation list (listed), "
        "or items that are given per user in a table or file.",
    )
    strategy: Annotated[
        Strategy, one_of(Strategy, is_required=True), Option(SAMPLING, recorded="of a run")
    ] = Field(
        default="full",
        description="Rank every candidate (full), or rank only the relevant items of each user "
        "among sampled negatives (sampled).",
    )
    num_negatives: Annotated[
        int | None, checked(check_int), Option(SAMPLING, recorded="of a run")
    ] = Field(
        default=None,
        ge=1,
        description=f"Number of negatives to sample for each user. Default: {NUM_NEGATIVES}.",
    )
    negative_sampling: Annotated[
        NegativeSampling | None, one_of(NegativeSampling), Option(SAMPLING, recorded="of a run")
    ] = Field(
        default=None,
        description="Distribution of the sampled negatives: every item with the same probability "
        "(uniform), or by the number of train interactions (popularity). Default: uniform.",
    )
    neg_alpha: Annotated[
        int | float | None,  # printed as it was given
        checked(read_power),
        WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]}),
        Option(SAMPLING, metavar="POWER", recorded="of a run"),
    ] = Field(
        default=None,
        ge=0,
        description="Exponent of the number of train interactions if negatives are sampled by "
        f"popularity. Default: {NEG_ALPHA}.",
    )
    estimator: Annotated[
        EstimatorName | None, one_of(EstimatorName), Option(SAMPLING, recorded="if given")
    ] = Field(
        default=None,
        description="Estimate the values of a full ranking from ranks among sampled negatives, by "
        "an estimated rank (rank_estimate) or by weights that trade bias for variance "
        "(bias_variance).",
    )
    gamma: Annotated[
        float | None, checked(read_gamma), Option(SAMPLING, metavar="WEIGHT", recorded="if given")
    ] = Field(
        default=None,
        gt=0,
        le=1,
        description="Weight of the variance against the bias in the estimator bias_variance, "
        f"above 0 and at most 1. Default: {GAMMA}.",
    )
    bootstrap: Annotated[
        int | None,
        checked(check_int, least=2),
        Option(UNCERTAINTY, metavar="RESAMPLES", recorded="if given"),
    ] = Field(
        default=None,
        ge=2,
        description="Number of resamples of the users, such as 1000, for bootstrap intervals of "
        "every metric.",
    )
    slices: Annotated[
        dict[Any, Any] | None,
        BeforeValidator(read_slices),
        Option(UNCERTAINTY, "--slice", metavar="NAME=GROUPS"),
    ] = Field(
        default=None,
        description="Groups of users for which metrics are also computed, such as "
        "activity=quantiles(4), a label per user, or bins of a number per user.",
    )
    item_slices: Annotated[
        dict[Any, Any] | None,
        BeforeValidator(read_item_slices),
        Option(UNCERTAINTY, "--item-slice", metavar="NAME=GROUPS"),
    ] = Field(
        default=None,
        description="Groups of relevant items for which metrics are also computed, such as "
        "tail=head_tail, popularity=quantiles(4), repeat=targets, month=time(month), or a label "
        "per item.",
    )
    per_user: Annotated[Bool, Option(OUTPUT, key="save_per_user")] = Field(
        default=False,
        description="Keep the value of each metric and cut-off for each user, which comparisons of "
        "models need.",
    )
    keep_lists: Annotated[Bool, Option(OUTPUT)] = Field(
        default=False,
        description="Keep the recommendation list of each user, up to the largest cut-off.",
    )
    exposure: Annotated[Bool, Option(OUTPUT, None)] = Field(
        default=False, description="Count how often each item is recommended, at each cut-off."
    )
    skill: Annotated[Bool, Option(OUTPUT, recorded="if given")] = Field(
        default=False,
        description="Show for accuracy metrics the expected value of a random order (floor), the "
        "best possible value (ceiling), and the skill: (value - floor) / (ceiling - floor).",
    )
    name: Annotated[
        str | None, checked(read_text), Option(OUTPUT, None, None, changes_results=False)
    ] = Field(default=None, description="Name of the model in results and tables.")
    batch_size: Annotated[
        int | None, checked(check_int), Option(EXECUTION, changes_results=False)
    ] = Field(
        default=None,
        ge=1,
        description="Number of users per batch. Default: chosen automatically.",
    )
    threads: Annotated[int | None, checked(check_int), Option(EXECUTION, changes_results=False)] = (
        Field(
            default=None,
            ge=1,
            description="Number of CPU threads. Default: the number that torch uses, at most the "
            "CPUs that are available to the process.",
        )
    )
    device: Annotated[Device, Option(EXECUTION, changes_results=False)] = Field(
        default=None,
        description="Device on which to compute, such as cpu or cuda:0. Default: the device of "
        "the scores.",
    )
    memory: Annotated[MemorySize, Option(EXECUTION, metavar="SIZE", changes_results=False)] = Field(
        default=None,
        description="Memory for recommendation lists, such as 4GiB; files that need more are "
        "sorted on disk. Default: half of the available memory.",
    )
    progress: Annotated[Bool, Option(EXECUTION, None, None, changes_results=False)] = Field(
        default=False, description="Show a progress bar if standard error is a terminal."
    )
    checkpoint: Annotated[
        Path | None,
        checked(check_path),
        Option(EXECUTION, metavar="FILE", changes_results=False),
    ] = Field(
        default=None,
        description="File to which the progress is saved once a minute, and from which an "
        "interrupted evaluation resumes.",
    )
