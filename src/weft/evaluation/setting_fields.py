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
    COUNTING,
    EXECUTION,
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

    metrics: Annotated[Metrics, Option(COUNTING, short_flag="-m", metavar="NAMES")] = Field(
        default=(),
        description="The metrics, such as nDCG, nDCG@10 or 'F1(beta=0.5)@5'. Case does not matter.",
    )
    top_k: Annotated[Cutoffs, Option(COUNTING, short_flag="-k", metavar="10,20")] = Field(
        default=None, description="The cut-offs of the metrics that are named without one."
    )
    profile: Annotated[
        ProfileName | None, one_of(ProfileName), Option(COUNTING, recorded="always")
    ] = Field(
        default=None,
        description="Use the definitions of another tool, to reproduce its numbers. Sets metric "
        "parameters, ties, relevance_threshold, empty_users, missing_lists and extra_users unless "
        "they are given.",
    )
    relevance_threshold: Annotated[
        float | None,
        BeforeValidator(check_threshold),
        Option(COUNTING, metavar="RATING", recorded="always"),
    ] = Field(
        default=None,
        gt=0,
        description="The lowest rating of a relevant item. Without it, every rating above 0 is "
        "relevant.",
    )
    implicit: Annotated[Bool, Option(COUNTING, recorded="if given")] = Field(
        default=False,
        description="Ignore the ratings of the truth: every interaction counts 1, as for "
        "clicks and play counts.",
    )
    mask_seen: Annotated[
        bool | Literal["auto"],
        BeforeValidator(read_mask_seen),
        Option(COUNTING, "--mask-seen/--keep-seen", recorded="always"),
    ] = Field(
        default="auto",
        description="Whether items of train are removed from their user's ranking. 'auto' removes "
        "them from scores; recommendation lists keep them, and the result counts them.",
    )
    targets: Annotated[
        Targets, one_of(Targets, is_required=True), Option(COUNTING, recorded="if given")
    ] = Field(
        default="all",
        description="The relevant items that metrics count: all, those that are not in the user's "
        "train (new), or those that are (repeated).",
    )
    ties: Annotated[
        TieRuleName | None, one_of(TieRuleName), Option(COUNTING, recorded="always")
    ] = Field(
        default=None,
        description="How equal scores are ordered: by item index (default), at random (default "
        "if sampled), averaged over all orders (expected), or with relevant items last "
        "(pessimistic) or first (optimistic).",
    )
    seed: Annotated[Seed, Option(COUNTING, recorded="always")] = Field(
        default=0, description="Random seed."
    )
    empty_users: Annotated[
        EmptyUsers | None, one_of(EmptyUsers), Option(COUNTING, recorded="always")
    ] = Field(
        default=None,
        description="Users of the truth without a relevant item: skip them (default) or count "
        "them as zero.",
    )
    missing_lists: Annotated[
        MissingLists | None, one_of(MissingLists), Option(COUNTING, recorded="of a run")
    ] = Field(
        default=None,
        description="Users of the truth without scores or a list: count them as zero (default) or "
        "skip them.",
    )
    extra_users: Annotated[
        ExtraUsers | None, one_of(ExtraUsers), Option(COUNTING, recorded="if given")
    ] = Field(
        default=None,
        description="Users without an interaction in the truth: count their lists in the metrics "
        "of all lists, such as coverage (default), or leave these users out of everything (skip).",
    )
    duplicates: Annotated[
        Duplicates,
        one_of(Duplicates, is_required=True),
        Option(COUNTING, recorded="if changed"),
    ] = Field(
        default="error",
        description="An item that occurs twice in a recommendation list: an error, or its best "
        "position counts, and lists close up (keep-best) or keep the others as misses (miss).",
    )
    unknown_items: Annotated[
        UnknownItems,
        one_of(UnknownItems, is_required=True),
        Option(COUNTING, recorded="if changed"),
    ] = Field(
        default="error",
        description="An item of a recommendation list that is not in the catalogue: an error, or "
        "it keeps its position and counts as a miss (miss).",
    )
    repeated_users: Annotated[
        RepeatedUsers | None,
        one_of(RepeatedUsers),
        Option(COUNTING, None, None, in_evaluate=False, recorded="if given"),
    ] = Field(
        default=None,
        description="Users in several batches: count every row (default), or drop all but the "
        "first.",
    )
    nan_scores: Annotated[
        NanScores,
        one_of(NanScores, is_required=True),
        Option(COUNTING, None, None, in_evaluate=False, recorded="if given"),
    ] = Field(
        default="raise",
        description="Scores that are NaN or +inf: raise an error (default), or make every value "
        "NaN.",
    )
    feature_separator: Annotated[
        str | None, checked(read_text), Option(COUNTING, metavar="TEXT", recorded="if given")
    ] = Field(
        default=None,
        min_length=1,
        description="The text between several features in one value of item_features, such as '|' "
        "in Action|Comedy.",
    )
    candidates: Annotated[
        CandidatePool,
        one_of(CandidatePool, is_required=True),
        Option(SAMPLING, metavar="POOL|PATH", recorded="of a run"),
    ] = Field(
        default="all",
        description="The items that can be recommended: all, cold (without a train interaction), "
        "warm (with one), listed (the items of each list), or given per user, in a table or file.",
    )
    strategy: Annotated[
        Strategy, one_of(Strategy, is_required=True), Option(SAMPLING, recorded="of a run")
    ] = Field(
        default="full",
        description="Rank all candidates (full), or only each user's relevant items among sampled "
        "negatives (sampled).",
    )
    num_negatives: Annotated[
        int | None, checked(check_int), Option(SAMPLING, recorded="of a run")
    ] = Field(
        default=None,
        ge=1,
        description=f"Number of negatives sampled per user. Default: {NUM_NEGATIVES}.",
    )
    negative_sampling: Annotated[
        NegativeSampling | None, one_of(NegativeSampling), Option(SAMPLING, recorded="of a run")
    ] = Field(
        default=None,
        description="Distribution of the sampled negatives: uniform (default), or by popularity in "
        "train.",
    )
    neg_alpha: Annotated[
        int | float | None,  # printed as it was given
        checked(read_power),
        WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]}),
        Option(SAMPLING, metavar="POWER", recorded="of a run"),
    ] = Field(
        default=None,
        ge=0,
        description="Exponent of popularity when negatives are sampled by popularity. Default: "
        f"{NEG_ALPHA}.",
    )
    estimator: Annotated[
        EstimatorName | None, one_of(EstimatorName), Option(SAMPLING, recorded="if given")
    ] = Field(
        default=None, description="Estimate the metrics of the full ranking from sampled ranks."
    )
    gamma: Annotated[
        float | None, checked(read_gamma), Option(SAMPLING, metavar="WEIGHT", recorded="if given")
    ] = Field(
        default=None,
        gt=0,
        le=1,
        description="Weight of variance against bias in the estimator bias_variance. Default: "
        f"{GAMMA}.",
    )
    bootstrap: Annotated[
        int | None,
        checked(check_int, least=2),
        Option(UNCERTAINTY, metavar="RESAMPLES", recorded="if given"),
    ] = Field(
        default=None,
        ge=2,
        description="Number of resamples of the users for bootstrap intervals of every metric, "
        "such as 1000.",
    )
    slices: Annotated[
        dict[Any, Any] | None,
        BeforeValidator(read_slices),
        Option(UNCERTAINTY, "--slice", metavar="NAME=GROUPS"),
    ] = Field(
        default=None,
        description="Metrics by groups of users, such as activity=quantiles(4), a label per user, "
        "or bins of a number per user.",
    )
    item_slices: Annotated[
        dict[Any, Any] | None,
        BeforeValidator(read_item_slices),
        Option(UNCERTAINTY, "--item-slice", metavar="NAME=GROUPS"),
    ] = Field(
        default=None,
        description="Metrics by groups of relevant items, such as tail=head_tail, "
        "popularity=quantiles(4), repeat=targets, month=time(month), or a label per item.",
    )
    per_user: Annotated[Bool, Option(OUTPUT, key="save_per_user")] = Field(
        default=False, description="Keep a value per user, metric and cut-off."
    )
    keep_lists: Annotated[Bool, Option(OUTPUT)] = Field(
        default=False, description="Keep the list of each user, cut at the largest cut-off."
    )
    exposure: Annotated[Bool, Option(OUTPUT, None)] = Field(
        default=False, description="Count how often each item is recommended at each cut-off."
    )
    skill: Annotated[Bool, Option(OUTPUT, recorded="if given")] = Field(
        default=False,
        description="Show for accuracy metrics the expected value of a random order (floor), the "
        "best reachable value (ceiling), and the skill: the share of the way between them.",
    )
    name: Annotated[
        str | None, checked(read_text), Option(OUTPUT, None, None, changes_results=False)
    ] = Field(default=None, description="Name of the model.")
    batch_size: Annotated[
        int | None, checked(check_int), Option(EXECUTION, changes_results=False)
    ] = Field(default=None, ge=1, description="Number of users per batch.")
    threads: Annotated[int | None, checked(check_int), Option(EXECUTION, changes_results=False)] = (
        Field(
            default=None,
            ge=1,
            description="Number of threads on the CPU. Default: as many as torch uses, and no more "
            "than the CPUs that the process may use.",
        )
    )
    device: Annotated[Device, Option(EXECUTION, changes_results=False)] = Field(
        default=None, description="Where to compute, such as cpu or cuda:0."
    )
    memory: Annotated[MemorySize, Option(EXECUTION, metavar="SIZE", changes_results=False)] = Field(
        default=None,
        description="Memory for recommendation lists, such as 4GiB. Files that need more are "
        "sorted on disk. Default: half of the available memory.",
    )
    progress: Annotated[Bool, Option(EXECUTION, None, None, changes_results=False)] = Field(
        default=False, description="Show a progress bar on a terminal."
    )
    checkpoint: Annotated[
        Path | None,
        checked(check_path),
        Option(EXECUTION, metavar="FILE", changes_results=False),
    ] = Field(
        default=None,
        description="File in which progress is saved once a minute, and from which an interrupted "
        "evaluation resumes.",
    )
