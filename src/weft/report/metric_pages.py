"""The docs pages of the metrics and of the profiles, written from the registry.

    python -m weft.report.metric_pages docs

A test compares what lies in `docs` with what this writes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from weft.metrics.base.metric import BaseMetric
from weft.metrics.profiles import PROFILES, SETTING_DEFAULTS, Profile
from weft.metrics.registry import FAMILIES, RUN_INPUTS, all_metrics, metric_parameters
from weft.report import definitions


def built_in() -> list[type[BaseMetric]]:
    """Weft's own metrics."""
    return [metric for metric in all_metrics() if metric.__module__.startswith("weft.")]


def pages() -> dict[str, str]:
    """Every generated page by its place in `docs`."""
    metrics = built_in()
    found = {f"metrics/{metric.__name__}.md": metric_page(metric) for metric in metrics}
    return {"metrics/README.md": index_page(metrics), "profiles.md": profiles_page(), **found}


def write(folder: Path) -> list[Path]:
    """Write all pages."""
    written = []
    for place, text in pages().items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def index_page(metrics: Sequence[type[BaseMetric]]) -> str:
    """All metrics by family."""
    lines = [
        "# The metrics",
        "",
        f"{len(metrics)} in {len(FAMILIES)} families. `weft metrics NAME` explains one in the "
        "terminal.",
        "",
    ]
    for family in FAMILIES:
        lines += [f"## {family.capitalize()}", ""]
        rows = [
            (
                f"[{definitions.title(metric)}]({metric.__name__}.md)",
                definitions.words(metric).summary,
                definitions.better(metric),
            )
            for metric in metrics
            if metric.family == family
        ]
        lines += [*_table(("metric", "what it is", "better"), rows), ""]
    return "\n".join([*lines, *_example_lists()]).rstrip() + "\n"


def metric_page(metric: type[BaseMetric]) -> str:
    """One metric: definition, parameters, needs, edge cases, example, reference, other tools."""
    words = definitions.words(metric)
    lines = [f"# {definitions.title(metric)}", "", words.summary, ""]
    if words.definition:
        lines += [words.definition, ""]
    facts = [
        ("family", metric.family),
        ("better", definitions.better(metric)),
        ("range", definitions.value_range(metric)),
        (
            "needs",
            "; ".join(f"`{name}`, {RUN_INPUTS[name][0]}" for name in definitions.needs(metric))
            or "scores and truth only",
        ),
        ("[sampled negatives](../sampling-bias.md)", definitions.sampling_behaviour(metric)),
        ("undefined when", metric.undefined),
        ("reference", metric.reference),
    ]
    lines += [*_table(("", ""), facts), ""]
    lines += ["## Parameters", ""]
    known = metric_parameters(metric)
    if known:
        rows = []
        for parameter in known.values():
            required = parameter.default is inspect.Parameter.empty
            rows.append(
                (f"`{parameter.name}`", "must be given" if required else f"`{parameter.default!r}`")
            )
        lines += [*_table(("parameter", "default"), rows), ""]
    else:
        lines += ["None.", ""]
    if words.edge_cases:
        lines += ["## Edge cases", "", words.edge_cases, ""]
    lines += ["## Example", "", words.example, "", "```pycon", words.code, "```", ""]
    lines += [*_other_tools(metric)]
    return "\n".join(lines).rstrip() + "\n"


def _other_tools(metric: type[BaseMetric]) -> Iterable[str]:
    """The metric as other tools define it."""
    rows = definitions.side_by_side(metric)
    yield from ("## Other tools", "")
    if len(rows) == 1:
        yield from ("No [profile](../profiles.md) covers it.", "")
        return
    yield "On the [example lists](README.md#the-example-lists), with every rating 1 and with ratings of 1 to 5:"
    yield ""
    shown = [
        (f"`{row.tool}`" if row.tool != "weft" else "Weft", f"`{row.name}`", row.binary, row.graded)
        if row.name
        else (f"`{row.tool}`", f"left out: {row.reason}", "", "")
        for row in rows
    ]
    yield from _table(("tool", "Weft's name for it", "ratings 1", "ratings 1-5"), shown)
    yield ""


def profiles_page() -> str:
    """Every profile: what it covers, how it counts, what it leaves out and why."""
    lines = [
        "# Profiles: other tools' numbers",
        "",
        '`weft.evaluate(..., profile="trec_eval")` prints the numbers that another tool would: a '
        "profile is a named set of parameters and of choices for the whole run. What a name says "
        "itself holds (`nDCG(gain=linear)`), and so do `ties=`, `empty_users=` and "
        "`missing_lists=` where they are given. A metric that the tool does not have, or whose "
        "number cannot be had, is refused with the reason. In the result a metric has its full "
        "name; the plain one finds it too.",
        "",
        "```python",
        "import torch",
        "import weft",
        "",
        "scores, truth = torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 2]])",
        'result = weft.evaluate(scores, truth, metrics=["nDCG", "MAP"], top_k=2, '
        'profile="trec_eval")',
        'assert list(result) == ["nDCG(gain=linear)@2", "MAP(normalizer=relevant)@2"]',
        'assert result["MAP@2"] == 0.5',
        "```",
        "",
        "`weft metrics MAP --profiles` shows one metric as all tools define it, side by side. "
        "Each profile was compared with values that the tool, in the version named, printed on "
        "MovieLens 100K.",
        "",
    ]
    for profile in PROFILES.values():
        lines += [*_profile(profile)]
    return "\n".join(lines).rstrip() + "\n"


def _profile(profile: Profile) -> Iterable[str]:
    yield from (f"## {profile.tool} {profile.version}", "")
    settings = {
        name: value for name, value in profile.settings.items() if SETTING_DEFAULTS[name] != value
    }
    how = (
        ", ".join(f"`{name}={value!r}`" for name, value in settings.items())
        or "as Weft does by default"
    )
    yield from (f"Counts users and ties: {how}.", "")
    changed = [(name, params) for name, params in profile.covers.items() if params]
    plain = [
        f"[{name}](metrics/{name}.md)" for name, params in profile.covers.items() if not params
    ]
    yield from (f"As Weft's default: {', '.join(plain)}.", "")
    if changed:
        rows = [
            (
                f"[{name}](metrics/{name}.md)",
                ", ".join(f"`{key}={value}`" for key, value in params.items()),
            )
            for name, params in changed
        ]
        yield from (*_table(("metric", "parameters"), rows), "")
    if profile.excluded:
        rows = [
            (f"[{name}](metrics/{name}.md)", reason) for name, reason in profile.excluded.items()
        ]
        yield from (*_table(("left out", "because"), rows), "")
    for note in profile.notes:
        yield f"- {note}"
    if profile.notes:
        yield ""


def _example_lists() -> Iterable[str]:
    yield from ("## The example lists", "")
    yield (
        f"Four users, items 1 to 12, k = {definitions.K}: small enough to check by hand, and such "
        "that definitions of other tools differ. Scores fall from 1 by 0.2 per position; nothing "
        "is masked; the ratings are all 1, or those given here."
    )
    yield ""
    rows = [
        (
            user,
            _listed(items),
            _listed(f"{item} ({rating})" for item, rating in definitions.RATED[user].items()),
            _listed(definitions.TRAIN[user]),
            definitions.GROUPS[user],
        )
        for user, items in definitions.LISTS.items()
    ]
    yield from _table(("user", "list", "relevant (rating)", "train", "group"), rows)
    yield ""
    yield "Items 1 to 6 are films, 7 to 12 are series; item i has the first i mod 3 + 1 of the features drama, comedy, horror."
    yield ""


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


if __name__ == "__main__":
    for path in write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")):
        print(path)
