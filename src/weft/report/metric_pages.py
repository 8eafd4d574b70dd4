"""The docs pages of the metrics and of the profiles, written from the registry.

    python -m weft.report.metric_pages docs

A test compares the pages in `docs` with the output of this module.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from weft._input_kinds import BUILT_IN_INPUTS
from weft.metrics.aliases import metric_aliases
from weft.metrics.base.metric import BaseMetric
from weft.metrics.registry import FAMILIES, built_in_metrics, find_metric
from weft.report import definitions
from weft.report.markdown import join_lines, table
from weft.report.math_symbols import set_symbols
from weft.report.profile_page import profiles_page


def render_pages() -> dict[str, str]:
    """Return every generated page by its path in `docs`."""
    metrics = built_in_metrics()
    pages = {"metrics/README.md": _index_page(metrics), "reference/profiles.md": profiles_page()}
    return pages | {f"metrics/{metric.__name__}.md": metric_page(metric) for metric in metrics}


def write_pages(folder: Path) -> list[Path]:
    """Write all pages and return their paths."""
    paths = []
    for name, text in render_pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


_INDEX_INTRODUCTION = """\
# Metrics

Each metric has a page with its definition, formula, parameters, edge cases, an example that can \
be checked by hand, advice on when to use it, and the definitions of other tools. \
`weft metrics NAME` prints these texts in the terminal, and `weft metrics WORD` searches names, \
aliases and definitions.

A name can have a cut-off and parameters: `nDCG@10`, `nDCG(gain=linear)@10`. Metrics marked `@k` \
need a cut-off, and metrics marked `[@k]` can have one. The cut-off can also come from the \
setting `top_k`. The column "better" gives the direction in which a value is better, and "needs" \
the inputs besides the scores or lists and the truth.
"""
_FAMILY_TEXTS = {
    "accuracy": "Accuracy metrics compare the recommendation lists, or the ranking of all "
    "candidates, with the relevant items of each user.",
    "rating": "Rating metrics compare scores with ratings, as predictions of their size, their "
    "order or the probability of a relevant item.",
    "coverage": "Coverage metrics count the items and users that the lists reach, and defects of "
    "generated lists.",
    "novelty": "Novelty metrics measure how unknown the recommended items are, to all users or to "
    "the user.",
    "diversity": "Diversity metrics measure how different the items are, within a list or between "
    "the lists of users.",
    "bias": "Bias metrics measure the preference of the lists for popular items.",
    "fairness": "Fairness metrics compare groups of users or clusters of items.",
    "multi-objective": "Multi-objective metrics combine the values of several metrics.",
}


def _index_page(metrics: Sequence[type[BaseMetric]]) -> str:
    """Return the page of all metrics by family."""
    lines = [_INDEX_INTRODUCTION]
    for family in FAMILIES:
        rows = [_index_row(metric) for metric in metrics if metric.family == family]
        lines += [f"## {family.capitalize()}", "", _FAMILY_TEXTS[family], ""]
        lines += [*table(("metric", "definition", "better", "needs"), rows), ""]
    return join_lines([*lines, *_settings(), *_notation(), *_example_lists()])


def _index_row(metric: type[BaseMetric]) -> tuple[str, ...]:
    return (
        f"[{definitions.title(metric)}]({metric.__name__}.md)",
        set_symbols(definitions.describe(metric).summary),
        definitions.direction(metric),
        definitions.describe_inputs(metric, "`{}`".format) or "-",
    )


def metric_page(metric: type[BaseMetric]) -> str:
    """Return the page of a metric: definition, use, properties, edge cases, example, tools."""
    description = definitions.describe(metric)
    lines = [f"# {definitions.title(metric)}", "", set_symbols(description.summary), ""]
    lines += _other_names(metric)
    if description.formula:
        lines += ["```math", description.formula, "```", ""]
        others = "the other" if description.symbols else "the"
        notation = f"The [notation](README.md#notation) explains {others} symbols."
        lines += [f"{description.symbols} {notation}".strip(), ""]
    if description.definition:
        lines += [set_symbols(description.definition), ""]
    if description.use:
        lines += ["## When to use it", "", set_symbols(description.use), ""]
    lines += ["## Properties", "", *_properties(metric), ""]
    lines += ["## Parameters", "", *_parameters(metric), ""]
    if description.edge_cases:
        lines += ["## Edge cases", "", set_symbols(description.edge_cases), ""]
    lines += ["## Example", "", description.example, "", "```pycon", description.code, "```", ""]
    if description.related:
        lines += ["## Related metrics", "", *_related(description.related), ""]
    return join_lines([*lines, *_other_tools(metric)])


def _other_names(metric: type[BaseMetric]) -> Iterator[str]:
    """Yield the aliases of a metric, so that a search of the text finds its page."""
    own, shared = metric_aliases(metric.__name__)
    names = [f"Also known as: {', '.join(own)}."] if own else []
    names += [f"Search terms: {', '.join(shared)}."] if shared else []
    if names:
        yield from (" ".join(names), "")


def _related(names: Iterable[str]) -> Iterator[str]:
    """Yield a list of links to metrics with their summaries."""
    for name in names:
        metric = find_metric(name)
        summary = set_symbols(definitions.describe(metric).summary)
        yield f"- [{definitions.title(metric)}]({name}.md): {summary}"


def _properties(metric: type[BaseMetric]) -> Iterator[str]:
    inputs = definitions.describe_inputs(
        metric, lambda name: f"`{name}` ({BUILT_IN_INPUTS[name].describe()})"
    )
    facts = [
        ("family", metric.family),
        ("better", definitions.direction(metric)),
        ("range", definitions.value_range(metric)),
        ("needs", inputs or definitions.SCORES_AND_TRUTH),
        ("[sampled negatives](../concepts/sampling-bias.md)", definitions.sampling_text(metric)),
        ("undefined if", metric.undefined),
        ("reference", _link_dois(metric.reference)),
    ]
    yield from table(("property", "value"), facts)


def _link_dois(reference: str) -> str:
    """Return a reference with each DOI as a link."""
    return re.sub(
        r"\bdoi (10\.\S+[^\s;])",
        lambda found: f"[doi {found[1]}](https://doi.org/{quote(found[1], safe='/:;')})",
        reference,
    )


def _parameters(metric: type[BaseMetric]) -> Iterator[str]:
    """Yield the table of the parameters, and a sentence about the common settings."""
    rows = definitions.describe_parameters(metric)
    if rows:
        yield from (*_parameter_table("parameter", rows), "")
    settings = "[settings of all metrics](README.md#settings-of-all-metrics)"
    has = "The metric also has" if rows else "The metric has no parameters besides"
    threshold = ", of which a name can set `relevance_threshold`"
    yield f"{has} the {settings}{threshold if metric.supports_own_threshold else ''}."


def _parameter_table(kind: str, rows: Iterable[definitions.ParameterDescription]) -> Iterator[str]:
    cells = [
        (f"`{one.name}`", f"`{one.default}`" if one.default else "required", set_symbols(one.text))
        for one in rows
    ]
    yield from table((kind, "default", "description"), cells)


def _other_tools(metric: type[BaseMetric]) -> Iterator[str]:
    """Yield the section with the definitions of other tools."""
    rows = definitions.compare_definitions(metric)
    yield from ("## Other tools", "")
    if len(rows) == 1:
        yield from ("No [profile](../reference/profiles.md) covers this metric.", "")
        return
    yield from (_differences(rows), "")
    yield (
        "The table shows the values that Weft computes with the "
        "[profile](../reference/profiles.md) of each tool on the "
        "[example lists](README.md#example-lists), once with all ratings equal to 1 and once with "
        "ratings from 1 to 5. The notes on a profile name the cases in which the tool itself gives "
        "another value."
    )
    yield ""
    cells = []
    for row in rows:
        tool = "Weft" if row.tool == "weft" else f"`{row.tool}`"
        if row.name:
            cells.append((tool, f"`{row.name}`", row.binary, row.graded))
        else:
            cells.append((tool, f"excluded: {set_symbols(row.reason)}", "", ""))
    yield from table(("tool", "metric in Weft", "ratings 1", "ratings 1 to 5"), cells)
    yield ""


def _differences(rows: Sequence[definitions.ToolDefinition]) -> str:
    """Return a sentence about the parameters in which the tools of `rows` differ from Weft."""
    if not any(row.name for row in rows[1:]):
        return "The tools with a metric of this name define it differently."
    by_parameter = definitions.differing_parameters(rows)
    if not by_parameter:
        return "Unless they are excluded, the tools use the default parameters of Weft."
    return f"The tools differ in parameters: {'; '.join(_parameter_values(by_parameter))}."


def _parameter_values(tools: Mapping[str, Mapping[str, Iterable[str]]]) -> Iterator[str]:
    """Yield each value of a parameter with its tools."""
    for parameter, by_value in tools.items():
        for value, names in by_value.items():
            yield f"`{parameter}={value}` in {_commas(names)}"


# Rows of the table of symbols. "|" would end a cell, so that sizes are written with lvert.
_NOTATION = (
    ("$u$, $U$", "a user, and the evaluated users: those with at least one relevant item"),
    ("$i$, $I$", "an item, and all items of the catalogue"),
    (
        "$C_u$",
        "the candidates of the user: the items that can be recommended, that is, items with a "
        "score or, if the model gives lists, all items of the catalogue, unless they are masked as "
        "seen in train",
    ),
    ("$k$", "the cut-off: the number of positions that are evaluated"),
    (
        "$L_u$",
        "the recommendation list of the user, cut at $k$; $\\lvert L_u \\rvert$ is smaller than "
        "$k$ if the model recommends fewer items",
    ),
    ("$i_p$", "the item at position $p$ of the list, $p = 1, \\dots, \\lvert L_u \\rvert$"),
    (
        "$r_{ui}$, $s_{ui}$",
        "the rating of the item in the truth, and the score that the model gives to it",
    ),
    (
        "$R_u$",
        "the relevant items of the user: those with a rating above 0, or at least the relevance "
        "threshold; it includes relevant items that are not candidates",
    ),
    ("$N_u$", "the negatives of the user: the candidates that are not relevant"),
    (
        "$J_u$",
        "the judged items of the user: the items of the truth, relevant or not",
    ),
    (
        "$\\rho_{ui}$",
        "the rank of a candidate among all candidates of the user, from 1; items with equal scores "
        "share the mean of their ranks",
    ),
    (
        "$L_u \\cap R_u$",
        "the hits: the relevant items in the list; $h_p$ is the number of hits at positions "
        "$1, \\dots, p$",
    ),
    (
        "$g_{ui}$, $g_p$",
        "the gain of an item, and of the item at position $p$: $2^{r_{ui}} - 1$ for a relevant "
        "item (by default), 0 for others",
    ),
    ("$d_p$", "the discount of position $p$: $1 / \\log_2(p + 1)$"),
    (
        "$n_i$, $T$",
        "the number of train interactions of the item, and of all items, $T = \\sum_i n_i$",
    ),
    ("$\\pi_i$", "the propensity of the item: the probability that an interaction is observed"),
    ("$P_u$", "the profile of the user: the items of the user's train interactions"),
    ("$c_i$", "the number of lists that contain the item"),
    ("$F_i$", "the features of the item, such as its genres"),
    ("$[x]$", "1 if the statement $x$ is true, otherwise 0"),
)


def _settings() -> Iterator[str]:
    """Yield the section of the settings that all metrics have."""
    yield from (
        "## Settings of all metrics",
        "",
        "In a run, these are settings of the run, which apply to all of its metrics. A metric that "
        "is used alone takes them as arguments. A name can set the threshold of a single metric, "
        "if its page says so: `Recall(relevance_threshold=4)@10`.",
        "",
        *_parameter_table("setting", definitions.describe_settings()),
        "",
    )


def _notation() -> Iterator[str]:
    """Yield the section that defines the symbols of the formulas."""
    yield from (
        "## Notation",
        "",
        "The formulas of the metric pages use the following symbols.",
        "",
    )
    yield from (*table(("symbol", "meaning"), _NOTATION), "")
    yield (
        "A formula for a name with the index $u$, such as $\\mathrm{Recall}_u$, gives the value of "
        "one user. The value of the metric is then the mean over the users $U$; users without a "
        "relevant item are left out, unless the page states otherwise. A formula for a name "
        "without an index gives the value of the metric. Formulas hold for the default "
        "parameters. In plain text, $L$, $R$ and $N$ stand for the sets of one user."
    )
    yield ""


def _example_lists() -> Iterator[str]:
    yield from ("## Example lists", "")
    yield (
        "The metric pages compare the definitions of tools on the lists of four users, with items "
        f"1 to 12 and k = {definitions.K}. The lists are small enough to be checked by hand, and "
        "chosen so that the definitions give different values. Scores fall from 1 by 0.2 per "
        "position. Items outside a list have no score, so that they are not candidates, and no "
        "item is masked. The ratings are those of the table, or all equal to 1."
    )
    yield ""
    rows = []
    for user, items in definitions.LISTS.items():
        ratings = (f"{item} ({rating})" for item, rating in definitions.RATED[user].items())
        train, group = definitions.TRAIN[user], definitions.GROUPS[user]
        rows.append((user, _commas(items), _commas(ratings), _commas(train), group))
    yield from table(("user", "list", "relevant items (rating)", "train", "group"), rows)
    yield ""
    yield (
        "Items 1 to 6 have the cluster film, and items 7 to 12 the cluster series. Item i has the "
        "first i mod 3 + 1 of the features drama, comedy and horror. The input `reference` "
        "contains the list 1, 2, 6, 9, 11 for every user."
    )
    yield ""


def _commas(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


if __name__ == "__main__":
    for path in write_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")):
        print(path)
