"""The report as one HTML page: nothing is fetched, and nothing runs but the code that its content
security policy names.
"""

# ruff: noqa: E402 (what is missing is said before it is imported)

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from weft.report.requirements import require

require()

import altair as alt
import vl_convert
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from weft.evaluation.atomic_files import write_files
from weft.report import text as words
from weft.report.charts import Figure, figures, model_colours
from weft.report.charts.theme import GRID, INK, MUTED, OTHER, PAPER
from weft.report.context import USUAL_CUTOFF, ReportContext
from weft.report.html.value_table import FEW, label_values, legend, value_tables

_MANY_VALUES = 100  # with more, one cut-off is shown first
_DIGITS = 6  # of numbers in the data behind charts and tables
_UNNAMED = "(unnamed)"
_UNFILTERED = (
    "[data-k][hidden] { display: revert !important; }"  # without JavaScript nothing is hidden
)


def render(context: ReportContext, *, title: str | None = None) -> str:
    """The text of the page."""
    drawn = figures(context)
    datasets: dict[str, Any] = {}
    charts = [_chart(number, figure, datasets) for number, figure in enumerate(drawn)]
    tables, labelled = value_tables(context), label_values(context)
    cutoffs = sorted(
        {metric.cutoff for table in tables for metric in table.metrics if metric.cutoff is not None}
    )
    is_long = sum(len(row.cells) for table in tables for row in table.rows) > _MANY_VALUES
    style = _asset("page.css") + _colours(context) + "".join(table.style for table in tables)
    library, script = _library(), _asset("page.js")
    document: str = _template().render(
        title=title if title is not None else _title(context),
        policy=_policy([library, script], [style, _UNFILTERED]),
        unfiltered=Markup(_UNFILTERED),
        style=Markup(style),
        library=Markup(library),
        script=Markup(script),
        models=context.models,
        coloured={
            number
            for number, colour in enumerate(model_colours(context).values())
            if colour != OTHER and len(context.models) > 1
        },
        facts=words.facts(context),
        verdicts=words.verdicts(context),
        tables=tables,
        are_metrics_down=len(context.models) <= FEW,
        legend=legend(context, tables),
        cutoffs=cutoffs,
        first_cutoff=(USUAL_CUTOFF if USUAL_CUTOFF in cutoffs else cutoffs[0])
        if is_long and len(cutoffs) > 1
        else None,
        labelled=_as_json(_packed(labelled)),
        num_labelled=len(labelled["metric"]),
        charts=charts,
        datasets={name: _as_json(rows) for name, rows in datasets.items()},
        notes=words.notes(context),
        counts=words.counts(context),
        definitions=words.definitions(context),
        provenance=words.provenance(context),
        rerun=words.rerun(context),
    )
    return (
        re.sub(r"[\ud800-\udfff]", "\ufffd", document) + "\n"
    )  # what is no Unicode text cannot be written


def write(text: str, path: str | Path) -> Path:
    """Write a page, whole or not at all."""
    path = Path(path)
    write_files({path: lambda file: file.write(text.encode())})
    return path


def _title(context: ReportContext) -> str:
    models = [model or _UNNAMED for model in context.models]
    if len(models) == 1:
        return f"Evaluation of {models[0]}"
    return (
        f"Comparison of {', '.join(models[:-1])} and {models[-1]}"
        if len(models) <= FEW
        else f"Comparison of {len(models)} models"
    )


# --------------------------------------------------------------------------------------------------


def _version() -> str:
    """Of Vega-Lite, in which Altair writes charts: `v6.4`."""
    return ".".join(alt.SCHEMA_VERSION.split(".")[:2])


@cache
def _library() -> str:
    """The JavaScript that draws the charts."""
    code: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=_version())
    # What would end or confuse the element that holds it stands only inside strings and patterns,
    # where a backslash does no harm.
    return re.sub(
        r"<(?=/script|script|!--)", r"\\x3c", code.replace("\r\n", "\n"), flags=re.IGNORECASE
    )


@cache
def _asset(name: str) -> str:
    return resources.files("weft.report.html").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _template() -> Any:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "prose": _prose,
        "code": _with_code,
        "told": _told,
        "shown": lambda name: name or _UNNAMED,
    }
    return environment.from_string(_asset("page.html.jinja"))


def _colours(context: ReportContext) -> str:
    """The colours of the models in tables and, with more contrast, of words in charts; a dark page
    has its own inks in charts.
    """
    own = {
        number: colour
        for number, colour in enumerate(model_colours(context).values())
        if colour != OTHER
    }
    inks = {INK: "--ink", MUTED: "--muted", GRID: "--line", PAPER: "--page"}
    dots = [f".model-{number} {{ --of-model: {colour}; }}" for number, colour in own.items()]

    def words(contrast: str) -> list[str]:
        return [
            f'.chart text[fill="{one}"] {{ fill: color-mix(in srgb, {one} 72%, {contrast}); }}'
            for one in own.values()
        ]

    dark = [
        f'.chart [{part}="{ink}"] {{ {part}: var({page}); }}'
        for ink, page in inks.items()
        for part in ("fill", "stroke")
    ]
    dark_page = "@media screen and (prefers-color-scheme: dark) {"
    return "\n".join([*dots, *words("black"), dark_page, *dark, *words("white"), "}", ""])


def _policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Nothing is loaded, and nothing runs or is styled but the texts that are given."""

    def digests(texts: Iterable[str]) -> str:
        return " ".join(
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
            for text in texts
        )

    return (
        f"default-src 'none'; script-src {digests(scripts)}; style-src {digests(styles)}; img-src "
        "data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _prose(text: str) -> Markup:
    """Paragraphs, with what stands between backticks as code."""
    paragraphs = filter(None, (part.strip() for part in text.split("\n\n")))
    return Markup("").join(
        Markup("<p>{}</p>").format(_with_code(paragraph)) for paragraph in paragraphs
    )


def _with_code(text: str) -> Markup:
    """What stands between backticks as code."""
    parts = re.split(r"`+([^`]+)`+", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part)
        for at, part in enumerate(parts)
    )


def _told(verdict: words.Verdict) -> str:
    """The sentence behind the name of its metric, which it may begin with."""
    sentence = verdict.sentence
    return (
        sentence.removeprefix(verdict.metric)
        if sentence.startswith(verdict.metric)
        else f": {sentence}"
    )


def _as_json(content: Any) -> Markup:
    """JSON that an element `script` can hold, whatever its texts are."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate({ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}))


def _plain(content: Any) -> Any:
    """The same for JSON: shorter numbers, and null for what is undefined."""
    if isinstance(content, Mapping):
        return {str(name): _plain(one) for name, one in content.items()}
    if isinstance(content, (list, tuple)):
        return [_plain(one) for one in content]
    if isinstance(content, float):
        if not math.isfinite(content):
            return None
        short = float(f"{content:.{_DIGITS}g}")
        return int(short) if short.is_integer() and abs(short) < 2**53 else short
    return content if content is None or isinstance(content, (str, int, bool)) else str(content)


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chart:
    """A chart with its words and its data; `texts`, `spec` and `table` are JSON."""

    number: int
    kind: str
    title: str
    text: str
    texts: Markup
    spec: Markup
    table: Markup
    num_rows: int


def _chart(number: int, figure: Figure, datasets: dict[str, Any]) -> _Chart:
    """The chart for the page; its data go to `datasets`, which several charts may share."""
    # Whatever transformer somebody has set for their notebooks: here the data are in the page, all
    # of them.
    with alt.data_transformers.enable("default", max_rows=None, consolidate_datasets=True):
        spec = figure.chart.to_dict()
    spec["background"] = "transparent"
    spec.setdefault("config", {})["aria"] = False  # the page describes the chart as a whole
    compiled = vl_convert.vegalite_to_vega(
        _plain(spec), vl_version=_version()
    )  # here rather than whenever the page is opened
    for data in compiled["data"]:
        if "values" in data:
            rows = _packed_rows(data["values"])
            name = hashlib.sha256(_as_json(rows).encode()).hexdigest()[:12]
            datasets[name] = rows
            data["values"] = {"dataset": name}
    table = _as_json(_packed(figure.table.to_dict(as_series=False)))
    texts = _as_json([[list(chosen), text] for chosen, text in figure.texts.items()])
    return _Chart(
        number,
        figure.kind,
        figure.title,
        figure.text,
        texts,
        _as_json(compiled),
        table,
        figure.table.height,
    )


def _packed_rows(rows: Sequence[Any]) -> Any:
    """Rows with the same keys, packed; others as they are."""
    keys = list(rows[0]) if rows and isinstance(rows[0], dict) else []
    if not keys or any(not isinstance(row, dict) or list(row) != keys for row in rows):
        return _plain(rows)
    return _packed({key: [row[key] for row in rows] for key in keys})


def _packed(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Columns for the page: of those that repeat themselves, each value once (`of`), and where it
    stands (`at`).
    """
    packed = []
    for name, column in columns.items():
        values = _plain(list(column))
        distinct = {json.dumps(value): value for value in values}
        if 2 * len(distinct) <= len(values):
            places = {key: place for place, key in enumerate(distinct)}
            packed.append(
                {
                    "name": name,
                    "of": list(distinct.values()),
                    "at": [places[json.dumps(value)] for value in values],
                }
            )
        else:
            packed.append({"name": name, "of": values})
    return {"columns": packed}
