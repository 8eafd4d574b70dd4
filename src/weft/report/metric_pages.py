"""The docs pages of the metrics and of the profiles, written from the registry.

    python -m weft.report.metric_pages docs

A test compares the pages in `docs` with the output of this module.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from weft._input_kinds import BUILT_IN_INPUTS
from weft.metrics.aliases import metric_aliases
from weft.metrics.base.metric import BaseMetric
from weft.metrics.declarations import metric_parameters
from weft.metrics.profiles import PROFILES, Profile
from weft.metrics.registry import FAMILIES, built_in_metrics, find_metric
from weft.report import definitions


def render_pages() -> dict[str, str]:
    """Return every generated page by its path in `docs`."""
    metrics = built_in_metrics()
    pages = {"metrics/README.md": _index_page(metrics), "reference/profiles.md": _profiles_page()}
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


def _index_page(metrics: Sequence[type[BaseMetric]]) -> str:
    """Return the page of all metrics by family."""
    lines = ["# The metrics", "", "`weft metrics NAME` explains a metric in the terminal.", ""]
    lines += [*_notation()]
    for family in FAMILIES:
        rows = [
            (
                f"[{definitions.title(metric)}]({metric.__name__}.md)",
                definitions.describe(metric).summary,
                definitions.direction(metric),
            )
            for metric in metrics
            if metric.family == family
        ]
        lines += [f"## {family.capitalize()}", ""]
        lines += [*_table(("metric", "definition", "better"), rows), ""]
    return _join([*lines, *_example_lists()])


def metric_page(metric: type[BaseMetric]) -> str:
    """Return the page of a metric: definition, use, properties, edge cases, example, tools."""
    description = definitions.describe(metric)
    lines = [f"# {definitions.title(metric)}", "", description.summary, ""]
    lines += _other_names(metric)
    if description.formula:
        lines += ["```math", description.formula, "```", ""]
    if description.definition:
        lines += [description.definition, ""]
    if description.use:
        lines += ["## When to use it", "", description.use, ""]
    lines += ["## Properties", "", *_properties(metric), ""]
    lines += ["## Parameters", "", *_parameters(metric), ""]
    if description.edge_cases:
        lines += ["## Edge cases", "", description.edge_cases, ""]
    lines += ["## Example", "", description.example, "", "```pycon", description.code, "```", ""]
    if description.related:
        lines += ["## Related metrics", "", *_related(description.related), ""]
    return _join([*lines, *_other_tools(metric)])


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
        yield f"- [{definitions.title(metric)}]({name}.md): {definitions.describe(metric).summary}"


def _properties(metric: type[BaseMetric]) -> Iterator[str]:
    inputs = (
        f"`{name}`, {BUILT_IN_INPUTS[name].describe()}"
        for name in definitions.needed_inputs(metric)
    )
    facts = [
        ("family", metric.family),
        ("better", definitions.direction(metric)),
        ("range", definitions.value_range(metric)),
        ("needs", "; ".join(inputs) or "scores and truth only"),
        ("[sampled negatives](../concepts/sampling-bias.md)", definitions.sampling_text(metric)),
        ("undefined when", metric.undefined),
        ("reference", metric.reference),
    ]
    yield from _table(("property", "value"), facts)


def _parameters(metric: type[BaseMetric]) -> Iterator[str]:
    rows = []
    for parameter in metric_parameters(metric).values():
        is_required = parameter.default is inspect.Parameter.empty
        default = "required" if is_required else f"`{parameter.default!r}`"
        rows.append((f"`{parameter.name}`", default))
    if rows:
        yield from _table(("parameter", "default"), rows)
    else:
        yield "None."


def _other_tools(metric: type[BaseMetric]) -> Iterator[str]:
    """Yield the section with the definitions of other tools."""
    rows = definitions.compare_definitions(metric)
    yield from ("## Other tools", "")
    if len(rows) == 1:
        yield from ("No [profile](../reference/profiles.md) covers it.", "")
        return
    yield from (_differences(rows), "")
    yield (
        "Values on the [example lists](README.md#the-example-lists), with every rating 1 and with "
        "ratings of 1 to 5:"
    )
    yield ""
    cells = []
    for row in rows:
        tool = "Weft" if row.tool == "weft" else f"`{row.tool}`"
        if row.name:
            cells.append((tool, f"`{row.name}`", row.binary, row.graded))
        else:
            cells.append((tool, f"excluded: {row.reason}", "", ""))
    yield from _table(("tool", "Weft's name for it", "ratings 1", "ratings 1-5"), cells)
    yield ""


def _differences(rows: Sequence[definitions.ToolDefinition]) -> str:
    """Return a sentence about the parameters in which the tools of `rows` differ from Weft."""
    values = [
        f"`{parameter}={value}` ({', '.join(tools)})"
        for parameter, by_value in definitions.differing_parameters(rows).items()
        for value, tools in by_value.items()
    ]
    if values:
        return f"Tools differ from Weft's default in parameters: {'; '.join(values)}."
    if any(row.name for row in rows[1:]):
        return (
            "The tools use Weft's default parameters. Different values are due to the settings of "
            "their [profiles](../reference/profiles.md), such as the treatment of ties and of "
            "empty lists."
        )
    return "No tool has the same definition."


_PROFILES_INTRODUCTION = """\
# Profiles: other tools' numbers

`weft.evaluate(..., profile="trec_eval")` prints the numbers that another tool would: a profile is \
a named set of parameters and of settings of the run. Parameters in a name (`nDCG(gain=linear)`) \
take precedence, and so do settings that are given (`ties=`, `empty_users=`, `missing_lists=`, \
`extra_users=`, `relevance_threshold=`). A metric that the tool does not have, or that is \
excluded, is an error with the reason. In the result a metric has its full name; the plain name \
finds it too. Where a run has Weft's own metric beside the tool's, its parameters are written \
out: `nDCG(gain=exponential)`.

```python
import torch
import weft

scores, truth = torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 2]])
result = weft.evaluate(scores, truth, metrics=["nDCG", "MAP"], top_k=2, profile="trec_eval")
assert list(result) == ["nDCG(gain=linear)@2", "MAP(normalizer=relevant)@2"]
assert result["MAP@2"] == 0.5
```

`weft metrics MAP --profiles` shows one metric as all tools define it, side by side. Each profile \
was compared with values that the tool, in the version named, printed: the first eight on \
MovieLens 100K, the others on a part of the data set of `weft demo` (`tests/golden`), and most of \
them on MovieLens 100K too.
"""


def _profiles_page() -> str:
    """Return the page of all profiles."""
    lines = [_PROFILES_INTRODUCTION]
    for profile in PROFILES.values():
        lines += _profile_section(profile)
    return _join(lines)


def _profile_section(profile: Profile) -> Iterator[str]:
    """Yield what a profile covers, how it counts, what it excludes and why."""
    yield from (f"## {profile.tool} {profile.version}", "")
    settings = [f"`{name}={value!r}`" for name, value in profile.settings.items()]
    yield from (f"Settings: {', '.join(settings) or 'as Weft by default'}.", "")
    defaults = [_link(name) for name, params in profile.covers.items() if not params]
    yield from (f"As Weft's default: {', '.join(defaults)}.", "")
    changed = {
        name: ", ".join(f"`{key}={value}`" for key, value in params.items())
        for name, params in profile.covers.items()
    }
    yield from _linked_table(("metric", "parameters"), changed)
    yield from _linked_table(("excluded", "because"), profile.excluded)
    yield from (f"- {note}" for note in profile.notes)
    if profile.notes:
        yield ""


def _linked_table(head: tuple[str, str], texts: Mapping[str, str]) -> Iterator[str]:
    """Yield a table of metrics with a text, if there are any."""
    rows = [(_link(name), text) for name, text in texts.items() if text]
    if rows:
        yield from (*_table(head, rows), "")


# Rows of the table of symbols. "|" would end a cell, so that sizes are written with lvert.
_NOTATION = (
    ("$u$, $U$", "a user, and the evaluated users: those with at least one relevant item"),
    ("$i$, $I$", "an item, and all items of the catalogue"),
    (
        "$C_u$",
        "the candidates of the user: the items that can be recommended, that is, items with a "
        "score that are not masked as seen in train",
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


def _notation() -> Iterator[str]:
    """Yield the section that defines the symbols of the formulas."""
    yield from ("## Notation", "", "The formulas of the metric pages use these symbols:", "")
    yield from (*_table(("symbol", "meaning"), _NOTATION), "")
    yield (
        "A formula for a name with the index $u$, such as $\\mathrm{Recall}_u$, gives the value of "
        "one user. The value of the metric is then the mean over the users $U$; users without a "
        "relevant item are left out, unless the page states otherwise. A formula for a name "
        "without an index gives the value of the metric. Formulas hold for the default "
        "parameters. In plain text, $L$, $R$ and $N$ stand for the sets of one user."
    )
    yield ""


def _example_lists() -> Iterator[str]:
    yield from ("## The example lists", "")
    yield (
        f"Four users, items 1 to 12, k = {definitions.K}: small enough to check by hand, and "
        "chosen so that the definitions of tools differ. Scores fall from 1 by 0.2 per position; "
        "nothing is masked; the ratings are all 1, or those given here."
    )
    yield ""
    rows = []
    for user, items in definitions.LISTS.items():
        ratings = (f"{item} ({rating})" for item, rating in definitions.RATED[user].items())
        train, group = definitions.TRAIN[user], definitions.GROUPS[user]
        rows.append((user, _commas(items), _commas(ratings), _commas(train), group))
    yield from _table(("user", "list", "relevant (rating)", "train", "group"), rows)
    yield ""
    yield (
        "Items 1 to 6 are films, 7 to 12 are series; item i has the first i mod 3 + 1 of the "
        "features drama, comedy, horror. The lists of another model (`reference`) are all 1, 2, 6, "
        "9, 11."
    )
    yield ""


def _link(metric: str) -> str:
    return f"[{metric}](../metrics/{metric}.md)"


def _commas(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _join(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    for path in write_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")):
        print(path)
