"""The options that commands take, and what a shell offers for them. Light: importing it must not
wait for torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

# Known here again, because the modules that define them wait for torch, and a completion must not.
PROFILES = (
    "warprec",
    "elliot",
    "trec_eval",
    "ranx",
    "recbole",
    "torchmetrics",
    "rectools",
    "sklearn",
)
TIES = ("index", "random", "expected", "pessimistic", "optimistic")
TESTS = ("paired_t", "wilcoxon", "randomization", "sign", "kruskal", "mann_whitney")
ENGINES = ("ray", "spark", "none")
FORMATS = ("table", "json", "csv", "markdown", "latex")


def offer(*words: str) -> Callable[[str], list[str]]:
    """Completion by one of some words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def metric_names() -> list[str]:
    """The built-in metrics, read from their files: importing them takes seconds."""
    folder = Path(__file__).parents[1] / "metrics"
    found = re.compile(r"^@register\nclass (\w+)", re.MULTILINE)
    return sorted(
        name
        for file in folder.glob("*.py")
        for name in found.findall(file.read_text(encoding="utf-8"))
    )


def offer_metrics(incomplete: str) -> list[str]:
    """Completion of one metric, or of the last of several between commas."""
    before, comma, last = incomplete.rpartition(",")
    return [
        before + comma + name
        for name in metric_names()
        if name.casefold().startswith(last.casefold())
    ]


_DATA, _COUNTING, _READING, _OUTPUT = "Data", "How it counts", "How files are read", "Output"
_SAMPLING, _UNCERTAINTY = "Candidates and sampling", "Uncertainty and slices"
_RUNNING = "How it runs (never what comes out)"
# What several commands take.
Config = Annotated[
    Path | None,
    typer.Argument(
        metavar="CONFIG.yaml",
        help="A configuration; a flag replaces what it says.",
        show_default=False,
    ),
]
Recs = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]PATH",
        help="Recommendations of a model; may be repeated.",
        rich_help_panel=_DATA,
    ),
]
Truth = Annotated[
    Path | None, typer.Option(metavar="PATH", help="What users wanted.", rich_help_panel=_DATA)
]
Train = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", help="What users had before: seen items, popularity.", rich_help_panel=_DATA
    ),
]
Items = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="The catalogue. Without it: every item that occurs.",
        rich_help_panel=_DATA,
    ),
]
UserGroups = Annotated[
    Path | None, typer.Option(metavar="PATH", help="A label per user.", rich_help_panel=_DATA)
]
ItemClusters = Annotated[
    Path | None, typer.Option(metavar="PATH", help="A label per item.", rich_help_panel=_DATA)
]
ItemFeatures = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Features of items, a row each.", rich_help_panel=_DATA),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics",
        "-m",
        metavar="NAMES",
        help="Such as nDCG,Recall or 'F1(beta=0.5)@5'; may be repeated.",
        autocompletion=offer_metrics,
        rich_help_panel=_COUNTING,
    ),
]
TopK = Annotated[
    list[str] | None,
    typer.Option(
        "--top-k",
        "-k",
        metavar="10,20",
        help="Cut-offs of metrics without one.",
        rich_help_panel=_COUNTING,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        metavar="RATING",
        help="From which rating on an item is relevant.",
        rich_help_panel=_COUNTING,
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        help="Another tool's definitions: " + ", ".join(PROFILES) + ".",
        autocompletion=offer(*PROFILES),
        rich_help_panel=_COUNTING,
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN",
        help="Between columns of text files; tab for a tab.",
        rich_help_panel=_READING,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first row of text files names the columns; found if not said.",
        show_default=False,
        rich_help_panel=_READING,
    ),
]
Ids = Annotated[
    str | None,
    typer.Option(
        help="Read ids as string or integer.",
        autocompletion=offer("string", "integer"),
        rich_help_panel=_READING,
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[FILE.]ROLE=NAME",
        help="Which column is the user, item, score ...: user=visitor, truth.item=sku, user=0 (the "
        "first); may be repeated.",
        rich_help_panel=_READING,
    ),
]


MaskSeen = Annotated[
    bool | None,
    typer.Option(
        "--mask-seen/--keep-seen",
        help="Remove a user's train items from their list. Lists keep and count them.",
        show_default=False,
        rich_help_panel=_COUNTING,
    ),
]
Ties = Annotated[
    str | None,
    typer.Option(
        help="Among equal scores: " + ", ".join(TIES) + ".",
        autocompletion=offer(*TIES),
        rich_help_panel=_COUNTING,
    ),
]
Seed = Annotated[int | None, typer.Option(help="Of everything random.", rich_help_panel=_COUNTING)]
EmptyUsers = Annotated[
    str | None,
    typer.Option(
        help="Users without a relevant item: skip or zero.",
        autocompletion=offer("skip", "zero"),
        rich_help_panel=_COUNTING,
    ),
]
MissingLists = Annotated[
    str | None,
    typer.Option(
        help="Users of the truth without a list: zero or skip.",
        autocompletion=offer("zero", "skip"),
        rich_help_panel=_COUNTING,
    ),
]
Duplicates = Annotated[
    str | None,
    typer.Option(
        help="An item twice in a list: error or keep-best.",
        autocompletion=offer("error", "keep-best"),
        rich_help_panel=_COUNTING,
    ),
]
Candidates = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="What can be recommended: all, cold or warm items, what is listed, or a file (user, "
        "item).",
        autocompletion=offer("all", "cold", "warm", "listed"),
        rich_help_panel=_SAMPLING,
    ),
]
Strategy = Annotated[
    str | None,
    typer.Option(
        help="full ranks all candidates; sampled the relevant ones among drawn negatives.",
        autocompletion=offer("full", "sampled"),
        rich_help_panel=_SAMPLING,
    ),
]
NumNegatives = Annotated[
    int | None,
    typer.Option(help="Negatives drawn for each user: 99 if not said.", rich_help_panel=_SAMPLING),
]
NegativeSampling = Annotated[
    str | None,
    typer.Option(
        help="How they are drawn: uniform or popularity.",
        autocompletion=offer("uniform", "popularity"),
        rich_help_panel=_SAMPLING,
    ),
]
NegAlpha = Annotated[
    float | None,
    typer.Option(
        metavar="POWER", help="Of popularity: 0.75 if not said.", rich_help_panel=_SAMPLING
    ),
]
Correction = Annotated[
    str | None,
    typer.Option(
        help="Estimate the full metrics: rank_estimate or bias_variance.",
        autocompletion=offer("rank_estimate", "bias_variance"),
        rich_help_panel=_SAMPLING,
    ),
]
Gamma = Annotated[
    float | None,
    typer.Option(
        metavar="WEIGHT",
        help="Of variance against bias in bias_variance: 0.1.",
        rich_help_panel=_SAMPLING,
    ),
]
Bootstrap = Annotated[
    int | None,
    typer.Option(
        metavar="RESAMPLES",
        help="Intervals of every metric, by resampling users.",
        rich_help_panel=_UNCERTAINTY,
    ),
]
Slices = Annotated[
    list[str] | None,
    typer.Option(
        "--slice",
        metavar="NAME=GROUPS",
        help="Metrics by group: activity=quantiles(4), gender=gender.csv, 'age=bins(18, 65) of "
        "ages.csv'; may be repeated.",
        rich_help_panel=_UNCERTAINTY,
    ),
]
BatchSize = Annotated[int | None, typer.Option(help="Users at once.", rich_help_panel=_RUNNING)]
Device = Annotated[str | None, typer.Option(help="Such as cpu or cuda.", rich_help_panel=_RUNNING)]
Engine = Annotated[
    str | None,
    typer.Option(
        help="Share the users out on ray or spark.",
        autocompletion=offer(*ENGINES),
        rich_help_panel=_RUNNING,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Of the engine's cluster, such as ray://head:10001 or spark://head:7077. Without it: "
        "this machine.",
        rich_help_panel=_RUNNING,
    ),
]
Parts = Annotated[
    int | None,
    typer.Option(
        help="Into how many parts an engine shares the users out.", rich_help_panel=_RUNNING
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write NAME.json per model and summary.csv, together.",
        rich_help_panel=_OUTPUT,
    ),
]
PerUser = Annotated[
    bool,
    typer.Option(
        "--per-user",
        help="Write values per user too, for weft compare.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace folders of values per user that Spark wrote before.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write a report, one HTML page: tables, charts, what to know.",
        show_default=False,
        rich_help_panel=_OUTPUT,
    ),
]
Gates = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="Fail unless, such as 'nDCG@10 >= 0.31'; may be repeated.",
        rich_help_panel=_OUTPUT,
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Warnings fail the command, too.", rich_help_panel=_OUTPUT)
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help="What to print: table, json, csv, markdown or latex. All but a table leaves "
        "everything else to standard error.",
        autocompletion=offer(*FORMATS),
        rich_help_panel=_OUTPUT,
    ),
]

ShortFormat = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help="What to print: table or json.",
        autocompletion=offer("table", "json"),
        rich_help_panel=_OUTPUT,
    ),
]
