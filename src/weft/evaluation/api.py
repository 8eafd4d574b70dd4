"""`evaluate`: evaluates a model in one call, from the inputs of the caller to a Result; `prepare`:
reads the inputs once for many models.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weft.data.side_inputs import merge_inputs
from weft.evaluation.arguments import build_inputs, read_arguments
from weft.evaluation.prepared import PreparedEvaluation
from weft.evaluation.setting_rules import split_candidates
from weft.evaluation.settings import EvaluationSettings

if TYPE_CHECKING:
    import torch

    from weft._choices import (
        Duplicates,
        EmptyUsers,
        EstimatorName,
        ExtraUsers,
        MissingLists,
        NegativeSampling,
        ProfileName,
        Strategy,
        Targets,
        TieRuleName,
        UnknownItems,
    )
    from weft.evaluation.argument_types import (
        Candidates,
        EvaluationSource,
        Features,
        IdList,
        Interactions,
        Labels,
        Metric,
    )
    from weft.evaluation.result import Result


def bind_arguments(source: Any, truth: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of `evaluate` by name, with their defaults."""
    bound = inspect.signature(evaluate).bind(source, truth, **options)
    bound.apply_defaults()
    return dict(bound.arguments)


def evaluate(
    source: EvaluationSource,
    truth: Interactions,
    *,
    metrics: Metric | Iterable[Metric],
    top_k: Iterable[int] | int | None = None,
    train: Interactions | None = None,
    users: IdList | None = None,
    items: IdList | None = None,
    user_groups: Labels | None = None,
    item_clusters: Labels | None = None,
    item_features: Features | None = None,
    inputs: Mapping[str, Any] | None = None,
    relevance_threshold: float | None = None,
    implicit: bool = False,
    mask_seen: bool | Literal["auto"] = "auto",
    targets: Targets = "all",
    candidates: Candidates = "all",
    ties: TieRuleName | None = None,
    seed: int = 0,
    strategy: Strategy = "full",
    num_negatives: int | None = None,
    negative_sampling: NegativeSampling | None = None,
    neg_alpha: float | None = None,
    estimator: EstimatorName | None = None,
    gamma: float | None = None,
    per_user: bool = False,
    keep_lists: bool = False,
    bootstrap: int | None = None,
    slices: Mapping[str, Any] | None = None,
    item_slices: Mapping[str, Any] | None = None,
    exposure: bool = False,
    skill: bool = False,
    empty_users: EmptyUsers | None = None,
    missing_lists: MissingLists | None = None,
    extra_users: ExtraUsers | None = None,
    duplicates: Duplicates = "error",
    unknown_items: UnknownItems = "error",
    feature_separator: str | None = None,
    profile: ProfileName | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
    device: torch.device | str | None = None,
    memory: int | str | None = None,
    progress: bool = False,
    checkpoint: str | Path | None = None,
    name: str | None = None,
) -> Result:
    """Evaluate a model in one pass over its users.

    Wherever data can be a table, it can be a polars or pandas frame, the path of a file or folder,
    or a `weft.File` that describes how to read it. The formats CSV, TSV, Parquet, JSON Lines, TREC
    and others are read, compressed or not.

    Parameters
    ----------
    source
        Scores or recommendation lists of the model.

        - Scores `[users, items]`: an array, a tensor, or the path of a `.npy`, `.npz`, `.pt` or
          `.safetensors` file; `weft.Scores` for scores with ids.
        - A model: `weft.Factors`, a function of users that returns scores, or an object with a
          method `score(users)`. If `score` also has a parameter `items`, it is called as
          `score(users, items)` where only some items of each user are needed.
        - Recommendation lists: a table with the columns user, item and optionally score or rank,
          `{user: [items]}` with the best item first, `{user: {item: score}}`, or `weft.TopKItems`.
          Lists with scores are ranked by score and tie rule, lists with ranks by rank, and other
          lists keep their order.
    truth
        Test interactions (ground truth): a table with the columns user, item and optionally rating,
        a sparse or dense matrix `[users, items]`, `{user: {item: rating}}`,
        `{user: [(item, rating), ...]}` or `{user: [items]}`. Integers `[users]` are the column of
        one relevant item for each row of the scores, or -1 for none.
    metrics
        Names, such as `"nDCG"`, `"nDCG@10"` or `"F1(beta=0.5)"`, or metric objects.
    top_k
        Cut-offs of the metrics that are named without one.
    train
        Train interactions, in the same forms as `truth`. Some metrics and settings need them.
    users, items
        Ids of the rows and columns of scores. `"positions"` declares that the ids in `truth` and
        `train` are row and column numbers, from 0. By default, ids in dicts are read as such
        numbers, and frames and files raise an error. Recommendation lists contain their user ids;
        with lists, `items` is the catalogue, by default every item of train, truth and lists.
    user_groups
        A label for each user: `{user: label}`, a table with a column of ids and one of labels, or a
        list in the order of the users.
    item_clusters
        A label for each item, in the same forms.
    item_features
        A set of features for each item: `{item: [features]}`, a table with a row per item and
        feature, a list in the order of the items, or a matrix `[items, features]` of 0 and 1.
    inputs
        Further inputs of metrics by name, such as `{"item_vectors": ..., "price": ...}`. A metric
        declares its inputs in the class attribute `needs`: a number, a vector, a label or a set of
        features for each item or user. They are given as `{id: value}`, as a table with a column of
        ids and one of values (vectors: a list, or one column per dimension), or as an array or list
        in the order of the ids. `train`, `user_groups`, `item_clusters` and `item_features` can
        also be entries of this mapping.
    relevance_threshold
        Lowest rating of a relevant item. By default every item with a rating above 0 is relevant.
    implicit
        Ignore the ratings in `truth` and give every interaction the rating 1.
    mask_seen
        Whether to remove the items of a user's train interactions from the ranking of this user.
        With `"auto"`, the default, they are removed from scores if `train` is given; recommendation
        lists keep them, and the result counts them.
    targets
        Relevant items that count: `"all"` (default), `"new"` (not in the user's train interactions)
        or `"repeated"` (in them, with `mask_seen=False`). Other items are neither relevant nor
        hits.
    candidates
        Items that can be recommended: `"all"` (default), `"cold"` (without a train interaction),
        `"warm"` (with a train interaction), `"listed"` (for lists: the items of each list), or the
        items of each user, as a table (user, item) or `{user: [items]}`.
    ties
        Order of items with equal scores: `"index"` (by item index), `"random"`, `"expected"`
        (average over all orders), `"pessimistic"` (relevant items last) or `"optimistic"` (relevant
        items first). Default: `"index"`, and `"random"` with `strategy="sampled"`.
    seed
        Seed of the random numbers that order ties, sample negatives and resample users.
    strategy
        `"full"` (default) ranks all candidates. `"sampled"` ranks the relevant items of each user
        among sampled negatives. Negatives are drawn without replacement from the candidates that
        are neither in the train interactions nor in the truth of the user. The draw depends only on
        the seed and the user's id.
    num_negatives
        Number of negatives per user. Default: 99.
    negative_sampling
        `"uniform"` (default), or `"popularity"`: in proportion to the number of train interactions
        to the power of `neg_alpha`.
    neg_alpha
        Exponent for `negative_sampling="popularity"`. Default: 0.75.
    estimator
        Estimate the metrics of the full ranking from ranks among sampled negatives:
        `"rank_estimate"` or `"bias_variance"`. By default no estimate is made.
    gamma
        Weight of variance against bias for `estimator="bias_variance"`, above 0 and at most 1.
        Default: 0.1.
    per_user
        Keep the value of each metric and cut-off for each user in `Result.per_user`, and the labels
        of each user in `Result.user_labels`.
    keep_lists
        Keep the recommendation list of each user, up to the largest cut-off, in `Result.lists`.
        `weft.compare` then also compares the lists of models.
    bootstrap
        Number of resamples of the users, for percentile and BCa intervals of every metric. The
        contributions of users are stored until the end: 8 bytes per user, mean and cut-off, and 12
        per further term of a user, such as a list position.
    slices
        Groups of users, by the name of the slice, for which metrics are also computed
        (`Result.slices`).

        - A label for each user, as in `user_groups`.
        - `"quantiles(4)"` or `"bins(5, 20)"`, under the name `"activity"` (number of train
          interactions) or `"item_popularity"` (of the user's relevant items, in train).
        - `{"of": numbers, "by": "quantiles(4)"}`, with a number for each user.
    item_slices
        Groups of relevant items, by the name of the slice, for which metrics are also computed
        (`Result.slices`).

        - A label for each item, as in `item_clusters`; `"item_clusters"` or `"item_features"` for
          the labels of this input.
        - `"head_tail"` or `"head_tail(0.8)"`, by the share of train interactions.
        - `"quantiles(4)"` or `"bins(5, 20)"`, under the name `"popularity"` (number of train
          interactions).
        - `{"of": numbers, "by": "quantiles(4)"}`, with a number for each item.
        - `"targets"`: new or repeated items.
        - `"time(month)"`, by the timestamps of the truth.
    exposure
        Count how often each item is recommended at every cut-off, for `Result.exposure` and, with
        train, `Result.popularity`. Metrics such as Gini always count it.
    skill
        Add to each accuracy metric its floor (expected value of a random order of the candidates),
        its ceiling (best reachable value) and its skill, (value - floor) / (ceiling - floor).
    empty_users
        Users in the truth without a relevant item: `"skip"` (default) leaves them out, `"zero"`
        counts them with the value 0.
    missing_lists
        Users in the truth without scores or a recommendation list: `"zero"` (default) counts them
        with an empty list, `"skip"` leaves them out.
    extra_users
        Users without an interaction in the truth: `"count"` (default) counts their lists in metrics
        of all lists, such as coverage and popularity; `"skip"` leaves them out of every metric.
    duplicates
        Items that occur twice in a recommendation list: `"error"` (default) raises an error,
        `"keep-best"` keeps the best position and moves later items up, `"miss"` keeps the best
        position and counts the others as misses. The result counts repeated items.
    unknown_items
        Recommended items that are not in the catalogue `items`: `"error"` (default) raises an
        error, `"miss"` counts their positions as misses. The result counts unknown items.
    feature_separator
        Text between several features in one value of `item_features`: with `"|"`, `"Action|Comedy"`
        has two features.
    profile
        Use the definitions of another tool, to reproduce its values: `"warprec"`, `"elliot"`,
        `"trec_eval"`, `"ranx"`, `"recbole"`, `"torchmetrics"`, `"rectools"`, `"sklearn"`,
        `"replay"`, `"lenskit"`, `"ir_measures"`, `"recommenders"`, `"cornac"`, `"pyg"`,
        `"evidently"` or `"recpack"`. A profile sets metric parameters, and `ties`,
        `relevance_threshold`, `empty_users`, `missing_lists` and `extra_users` if they are not
        given.
    batch_size
        Number of users per batch, by default chosen automatically. This and the following
        parameters do not change results.
    threads
        Number of CPU threads. Default: the number that torch uses, at most the CPUs that are
        available to the process.
    device
        Device on which to compute, such as `"cuda:0"`. Default: the device of the scores.
    memory
        Memory for recommendation lists, in bytes or as text such as `"4GiB"`. Files that need more
        are sorted in temporary files. Default: half of the available memory.
    progress
        Show a progress bar if standard error is a terminal.
    checkpoint
        File in which the progress is saved once a minute, and from which an interrupted evaluation
        resumes. It is removed at the end.
    name
        Name of the model in results and tables.

    Returns
    -------
    Result
        The values of the metrics, with standard errors, confidence intervals, counts and notes.

    Raises
    ------
    SettingError
        If an option is invalid, or contradicts another option.
    InputError
        If data cannot be evaluated. `MissingInput` is raised if a metric needs an input that was
        not given.

    Examples
    --------
    >>> import torch, weft
    >>> scores = torch.tensor([[0.9, 0.1, 0.5], [0.2, 0.8, 0.4]])
    >>> truth = {0: {0: 1}, 1: {2: 1}}
    >>> weft.evaluate(scores, truth, metrics=["HitRate", "MRR"], top_k=[1, 2])["MRR@2"]
    0.75
    >>> lists = {"ann": ["tea", "milk"], "bob": ["milk", "tea", "rye"]}
    >>> weft.evaluate(lists, {"ann": ["tea"], "bob": ["rye"]}, metrics="MRR@2")["MRR@2"]
    0.5
    """
    pool, given = split_candidates(candidates)
    settings = EvaluationSettings.from_options(
        metrics=metrics,
        top_k=top_k,
        relevance_threshold=relevance_threshold,
        implicit=implicit,
        mask_seen=mask_seen,
        targets=targets,
        candidates=pool,
        ties=ties,
        seed=seed,
        strategy=strategy,
        num_negatives=num_negatives,
        negative_sampling=negative_sampling,
        neg_alpha=neg_alpha,
        estimator=estimator,
        gamma=gamma,
        per_user=per_user,
        keep_lists=keep_lists,
        bootstrap=bootstrap,
        slices=slices,
        item_slices=item_slices,
        exposure=exposure,
        skill=skill,
        empty_users=empty_users,
        missing_lists=missing_lists,
        extra_users=extra_users,
        duplicates=duplicates,
        unknown_items=unknown_items,
        feature_separator=feature_separator,
        profile=profile,
        batch_size=batch_size,
        threads=threads,
        device=device,
        memory=memory,
        progress=progress,
        checkpoint=checkpoint,
        name=name,
    )
    side = merge_inputs(
        inputs,
        train=train,
        user_groups=user_groups,
        item_clusters=item_clusters,
        item_features=item_features,
    )
    data = build_inputs(
        settings, side, source=source, truth=truth, users=users, items=items, candidates=given
    )
    run = PreparedEvaluation(data, settings).start(source)  # the tables are freed for the pass
    run.run()
    return run.result()


def prepare(truth: Interactions, **options: Any) -> PreparedEvaluation:
    """Read and check the inputs of an evaluation once, to evaluate many models on them.

    All scores must be of the same users and items. Recommendation lists contain their own ids.
    Metrics that keep their own states, as custom metric objects can, start empty with each model.

    Parameters
    ----------
    truth
        Test interactions (ground truth), as in `weft.evaluate`.
    options
        Other keyword arguments of `weft.evaluate`, except `source` and `name`.

    Returns
    -------
    PreparedEvaluation
        The prepared inputs. `evaluate(source, name=None)` returns the same result as
        `weft.evaluate` for this source, without reading the inputs again.

    Raises
    ------
    InputError
        If inputs cannot be read.
    SettingError
        If an option is invalid, or contradicts another option.

    Examples
    --------
    >>> import torch, weft
    >>> prepared = weft.prepare({0: [0], 1: [2]}, metrics=["MRR"], top_k=2)
    >>> scores = torch.tensor([[0.9, 0.1, 0.5], [0.2, 0.8, 0.4]])
    >>> [prepared.evaluate(weight * scores)["MRR@2"] for weight in (1, -1)]
    [0.75, 0.25]
    """
    prepared = PreparedEvaluation(*read_arguments(bind_arguments(None, truth, options)))
    prepared.read()
    return prepared


def _options() -> inspect.Signature:
    """Return the signature of `prepare` for editors and `help`: that of `evaluate`."""
    signature = inspect.signature(evaluate)
    options = [one for name, one in signature.parameters.items() if name not in ("source", "name")]
    return signature.replace(parameters=options, return_annotation=PreparedEvaluation)


prepare.__signature__ = _options()  # type: ignore[attr-defined]
