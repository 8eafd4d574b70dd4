"""`evaluate`: evaluates a model in one call, from the inputs of the caller to a Result; `prepare`:
reads the inputs once for many models.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weft._input_kinds import NAMED_INPUTS
from weft.data.evaluation_inputs import EvaluationInputs
from weft.data.item_slices import has_times
from weft.data.side_inputs import merge_inputs
from weft.evaluation.prepared import PreparedEvaluation
from weft.evaluation.setting_rules import split_candidates
from weft.evaluation.settings import EvaluationSettings
from weft.metrics.registry import find_input_kinds

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


def read_arguments(arguments: Mapping[str, Any]) -> tuple[EvaluationInputs, EvaluationSettings]:
    """Return the inputs and the settings among the arguments of `evaluate`, by name."""
    pool, given = split_candidates(arguments["candidates"])
    names = [field.name for field in EvaluationSettings.fields() if field.option.in_evaluate]
    options = {name: arguments[name] for name in names} | {"candidates": pool}
    named = {name: arguments[name] for name in NAMED_INPUTS}
    settings = EvaluationSettings.from_options(**options)
    side = merge_inputs(arguments["inputs"], **named)
    data = {name: arguments[name] for name in ("source", "truth", "users", "items")}
    return _build_inputs(settings, side, **data, candidates=given), settings


def _build_inputs(
    settings: EvaluationSettings, side: dict[str, Any], **data: Any
) -> EvaluationInputs:
    """Return the inputs; `side` are those of metrics by name, train among them."""
    kinds = find_input_kinds(side, settings.metrics)
    train = side.pop("train", None)
    reads_times = has_times(settings.item_slices)
    return EvaluationInputs(**data, train=train, side=side, kinds=kinds, reads_times=reads_times)


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

    source
        Scores `[users, items]` (torch, NumPy, the path of a `.npy`, `.npz`, `.pt` or `.safetensors`
        file), `weft.Scores` with their ids, `weft.Factors`, a callable `users -> scores`, or an
        object with `score(users)`. If it also has a parameter `items`, `score(users, items)` is
        called where only some items of each user are needed. Or recommendation lists: a polars or
        pandas frame (user, item, and a score, a rank or neither), `{user: [items]}` with the best
        first, `{user: {item: score}}`, `weft.TopKItems(ids)`, or the path of a file. Lists with
        scores are ranked by score and tie rule, lists with ranks by rank, others in their order.
    truth, train
        A frame (user, item, rating), a sparse or dense `[users, items]` matrix, `{user: {item:
        rating}}`, `{user: [(item, rating), ...]}`, `{user: [items]}`, or a path. Wherever data may
        be a frame, it may also be a path, or a `weft.File` that describes how to read it: CSV, TSV,
        Parquet, JSON Lines, TREC and others, compressed or not, a file or a folder of parts. The
        truth may also be integers `[users]`: the column of one relevant item for each row, or -1.
    metrics, top_k
        Names such as `"nDCG"`, `"nDCG@10"` or `"F1(beta=0.5)"`, or metric objects; the cut-offs of
        metrics that are named without one.
    users, items
        The ids of the rows and columns of scores, or `"positions"` if the ids of truth and train
        are row and column numbers, from 0. By default dicts are read in this way, and frames and
        files raise an error. With lists, `items` is the catalogue, by default every item of train,
        truth and lists.
    user_groups, item_clusters, item_features
        A label per user, a label per item, a set of features per item, for metrics that compare
        groups: `{id: label}`, a frame with a column of ids and one of labels (a row per feature),
        or a list in the order of the ids. Features may also be a matrix `[items, features]` of 0
        and 1.
    inputs
        Everything else that metrics read, by name: `{"item_vectors": ..., "price": ...}`. A metric
        declares its inputs in the class attribute `needs`, as a number, a vector, a label or a set
        of features per item or user: `{id: value}`, a frame with a column of ids and one of values
        (of vectors, a list or a column per dimension), an array or list in the order of the ids, or
        a path. The four inputs above are entries of the same mapping.
    feature_separator
        The text between several features in one value of item_features: `"|"` reads
        `"Action|Comedy"` as two features.
    relevance_threshold, implicit
        The lowest rating of a relevant item. By default every rating above 0 is relevant.
        `implicit=True` ignores the ratings of the truth: every interaction counts 1.
    mask_seen
        Whether items of `train` are removed from their user's ranking: `"auto"` (from scores if
        train is given; lists keep them, and the result counts them), True or False.
    targets
        The relevant items that count: `"all"`, `"new"` (not in the user's train) or `"repeated"`
        (in it, with `mask_seen=False`). The others are neither relevant nor hits.
    candidates
        The items that can be recommended: `"all"`, `"cold"` (without a train interaction), `"warm"`
        (with one), or the items of each user, as a frame (user, item), `{user: [items]}` or a path.
        With lists, `"listed"`: the items of each list.
    ties, seed
        How equal scores are ordered: `"index"` (default), `"random"` (default if sampled),
        `"expected"`, `"pessimistic"` or `"optimistic"`. The random seed.
    strategy, num_negatives, negative_sampling, neg_alpha
        `"full"` ranks all candidates. `"sampled"` ranks each user's relevant items among
        `num_negatives` (99) others, drawn without replacement from those that are neither in the
        user's train nor truth: `"uniform"` (default) or `"popularity"`, by train interactions to
        the power of `neg_alpha` (0.75). The draw depends on the seed and the user's id alone.
    estimator, gamma
        Estimate the metrics of the full ranking from sampled ranks: `"rank_estimate"` or
        `"bias_variance"` (`gamma`, 0.1: the weight of variance against bias).
    per_user
        Keep a value per user, metric and cut-off, in `result.per_user`, and the labels of each
        user, in `result.user_labels`.
    keep_lists
        Keep the list of each user up to the largest cut-off, in `result.lists` (user, rank, item);
        `weft.compare` then compares the lists of models, too.
    bootstrap
        The number of resamples of the users for percentile and BCa intervals of every metric. The
        contributions of users are stored until the end: 8 bytes per user, mean and cut-off, and 12
        per further term of a user, such as a list position.
    slices
        Metrics by groups of users, in `result.slices`: by name a label per user as in
        `user_groups`, `"quantiles(4)"` or `"bins(5, 20)"` of `activity` (train interactions) or
        `item_popularity` (of the relevant items, in train), or `{"of": a number per user, "by":
        "quantiles(4)"}`.
    item_slices
        Metrics by groups of relevant items, in `result.slices`: by name a label per item as in
        `item_clusters`, `"item_clusters"` or `"item_features"` for those that are given,
        `"head_tail"` or `"head_tail(0.8)"` (of train), `"quantiles(4)"` or `"bins(5, 20)"` of
        `popularity` (train interactions), `{"of": a number per item, "by": "quantiles(4)"}`,
        `"targets"` (new or repeated), or `"time(month)"` of the truth's timestamps.
    exposure
        Count how often each item is recommended at every cut-off of a metric, for
        `result.exposure` and, with train, `result.popularity`. Metrics such as Gini do so anyway.
    skill
        Give every accuracy metric its floor (the expected value of a random order of the offered
        items), its ceiling (the best reachable value) and its skill, (value - floor) / (ceiling -
        floor).
    empty_users, missing_lists, extra_users
        Users of the truth without a relevant item: `"skip"` (default) or `"zero"`. Users of the
        truth without scores or a list: `"zero"` (default) or `"skip"`. Users without an interaction
        in the truth: `"count"` (default) their lists in the metrics of all lists, such as coverage
        and popularity, or `"skip"` them in everything.
    duplicates, unknown_items
        An item that occurs twice in a recommendation list: `"error"`; `"keep-best"` keeps its best
        position, and lists close up; `"miss"` leaves the other positions empty, which count as
        misses. An item of a list that is not in the catalogue `items`: `"error"`, or `"miss"`. The
        result counts both.
    profile
        The definitions of another tool, to reproduce its numbers: `"warprec"`, `"elliot"`,
        `"trec_eval"`, `"ranx"`, `"recbole"`, `"torchmetrics"`, `"rectools"`, `"sklearn"`,
        `"replay"`, `"lenskit"`, `"ir_measures"`, `"recommenders"`, `"cornac"`, `"pyg"`,
        `"evidently"` or `"recpack"`. It sets metric parameters, ties, relevance_threshold,
        empty_users, missing_lists and extra_users unless they are given.
    batch_size, threads, device, progress
        Execution; they do not change results. By default as many threads as torch uses, and no more
        than the CPUs that the process may use.
    memory
        The memory for recommendation lists, in bytes or as `"4GiB"`, by default half of what is
        available. Files that need more are sorted in temporary files, with the same results.
    checkpoint
        A file in which progress is saved once a minute, and from which an interrupted evaluation
        resumes. It is removed at the end.
    name
        The name of the model.

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
    data = _build_inputs(
        settings, side, source=source, truth=truth, users=users, items=items, candidates=given
    )
    run = PreparedEvaluation(data, settings).start(source)  # the tables are freed for the pass
    run.run()
    return run.result()


def prepare(truth: Interactions, **options: Any) -> PreparedEvaluation:
    """Read and check the inputs of an evaluation once, to evaluate many models on them.

    The options are those of `weft.evaluate`, all but the source. Every call of
    `evaluate(source, name=None)` then costs the pass over the users alone, and returns the result
    that `weft.evaluate` returns for this source. All scores must be of the same users and items;
    recommendation lists name their own. Metrics that keep their own states, as metric objects of
    authors may, start empty each time. Raises `InputError` for inputs that cannot be read.

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
