"""The report as one HTML page.

The page loads nothing, and runs only the scripts that its content security policy names.
"""

# ruff: noqa: E402 (the missing extra is reported before imports fail)

from __future__ import annotations

import base64
import datetime
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

from weft.report import require_report_extra

require_report_extra()

import altair as alt
import vl_convert
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from weft.errors import check_path
from weft.evaluation.atomic_files import text_writer, write_files
from weft.report import text as report_text
from weft.report.charts import Figure, figures, model_colours
from weft.report.charts.theme import GRID, INK, MUTED, OTHER, PAPER
from weft.report.context import USUAL_CUTOFF, ReportContext
from weft.report.html.value_table import (
    MAX_MODEL_COLUMNS,
    ValueTable,
    label_values,
    legend,
    value_tables,
)
from weft.report.local_paths import hide_folders
from weft.report.overall import overall

_MANY_VALUES = 100  # with more values, one cut-off is shown first
_DIGITS = 6  # significant digits of the data of charts and tables
_UNNAMED = "(unnamed)"
# Rows of other cut-offs are hidden by JavaScript only.
_UNFILTERED = "[data-k][hidden] { display: revert !important; }"


def render(
    context: ReportContext, *, title: str | None = None, date: datetime.date | None = None
) -> str:
    """Return the text of the page, with a date, by default that of today."""
    context = hide_folders(context)
    datasets: dict[str, Any] = {}
    charts = [_compile_chart(number, one, datasets) for number, one in enumerate(figures(context))]
    tables, labelled = value_tables(context), label_values(context)
    cutoffs = sorted({one.cutoff for table in tables for one in table.metrics if one.cutoff})
    style = _asset("page.css") + _colour_css(context) + "".join(table.style for table in tables)
    library, script = _chart_library(), _asset("page.js")
    document: str = _template().render(
        title=title if title is not None else _title(context),
        subtitle=report_text.subtitle(context, date or datetime.date.today()),
        policy=_security_policy([library, script], [style, _UNFILTERED]),
        unfiltered=Markup(_UNFILTERED),
        style=Markup(style),
        library=Markup(library),
        script=Markup(script),
        models=context.models,
        coloured=_coloured_numbers(context),
        facts=report_text.facts(context),
        overall=overall(context),
        verdicts=report_text.verdicts(context),
        tables=tables,
        are_metrics_down=len(context.models) <= MAX_MODEL_COLUMNS,
        legend=legend(context, tables),
        cutoffs=cutoffs,
        first_cutoff=_first_cutoff(tables, cutoffs),
        labelled=_to_script_json(_pack_columns(labelled)),
        num_labelled=len(labelled["metric"]),
        charts=charts,
        datasets={name: _to_script_json(rows) for name, rows in datasets.items()},
        notes=report_text.notes(context),
        counts=report_text.counts(context),
        definitions=report_text.definitions(context),
        provenance=report_text.provenance(context),
        rerun=report_text.rerun(context),
    )
    # Surrogates are no Unicode text and cannot be written.
    return re.sub(r"[\ud800-\udfff]", "\ufffd", document) + "\n"


def write(text: str, path: str | Path) -> Path:
    """Write a page completely or not at all."""
    path = check_path("path", path)
    write_files({path: text_writer(text)})
    return path


def _coloured_numbers(context: ReportContext) -> set[int]:
    """Return the numbers of the models with a colour of their own, none for one model."""
    colours = model_colours(context).values() if len(context.models) > 1 else ()
    return {number for number, colour in enumerate(colours) if colour != OTHER}


def _title(context: ReportContext) -> str:
    models = [model or _UNNAMED for model in context.models]
    if len(models) == 1:
        return f"Evaluation of {models[0]}"
    if len(models) > MAX_MODEL_COLUMNS:
        return f"Comparison of {len(models)} models"
    return f"Comparison of {', '.join(models[:-1])} and {models[-1]}"


def _first_cutoff(tables: Sequence[ValueTable], cutoffs: Sequence[int]) -> int | None:
    """Return the cut-off that is shown first, None if all are shown."""
    num_values = sum(len(row.cells) for table in tables for row in table.rows)
    if num_values <= _MANY_VALUES or len(cutoffs) < 2:
        return None
    return USUAL_CUTOFF if USUAL_CUTOFF in cutoffs else cutoffs[0]


# --------------------------------------------------------------------------------------------------


def _vega_lite_version() -> str:
    """Return the version of Vega-Lite that Altair writes: `v6.4`."""
    return ".".join(alt.SCHEMA_VERSION.split(".")[:2])


@cache
def _chart_library() -> str:
    """Return the JavaScript that draws the charts."""
    code: str = vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_version=_vega_lite_version()
    )
    # Tags that would end the script element occur only inside strings and regular expressions,
    # where the escape means the same.
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
        "prose": _paragraphs_to_html,
        "code": _code_to_html,
        "sentence": _sentence_after_metric,
        "shown": lambda name: _to_breakable_html(name or _UNNAMED),
        "breakable": _to_breakable_html,
    }
    return environment.from_string(_asset("page.html.jinja"))


def _colour_css(context: ReportContext) -> str:
    """Return the colours of models in tables and charts; texts in charts have more contrast.

    On a dark page, charts use the colours of the page.
    """
    colours = enumerate(model_colours(context).values())
    own = {number: colour for number, colour in colours if colour != OTHER}
    inks = {INK: "--ink", MUTED: "--muted", GRID: "--line", PAPER: "--page"}
    dots = [f".model-{number} {{ --of-model: {colour}; }}" for number, colour in own.items()]

    def texts(contrast: str) -> list[str]:
        return [
            f'.chart text[fill="{one}"] {{ fill: color-mix(in srgb, {one} 72%, {contrast}); }}'
            for one in own.values()
        ]

    dark = [
        f'.chart [{part}="{ink}"] {{ {part}: var({variable}); }}'
        for ink, variable in inks.items()
        for part in ("fill", "stroke")
    ]
    dark_page = "@media screen and (prefers-color-scheme: dark) {"
    return "\n".join([*dots, *texts("black"), dark_page, *dark, *texts("white"), "}", ""])


def _security_policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return a content security policy that allows these scripts and styles, and nothing else."""

    def digests(texts: Iterable[str]) -> str:
        hashes = (hashlib.sha256(text.encode()).digest() for text in texts)
        return " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in hashes)

    return (
        f"default-src 'none'; script-src {digests(scripts)}; style-src {digests(styles)}; img-src "
        "data:; base-uri 'none'; form-action 'none'"
    )


def _paragraphs_to_html(text: str) -> Markup:
    """Return paragraphs in HTML, with text in backticks as code."""
    paragraphs = filter(None, (part.strip() for part in text.split("\n\n")))
    return Markup("").join(Markup("<p>{}</p>").format(_code_to_html(one)) for one in paragraphs)


def _code_to_html(text: str) -> Markup:
    """Return a text in HTML, with text in backticks as code."""
    parts = re.split(r"`+([^`]+)`+", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )


def _to_breakable_html(text: str) -> Markup:
    """Return a text in HTML that may continue on another line after an underscore."""
    return Markup(re.sub(r"_(?=\w)", "_<wbr>", str(escape(text))))


def _sentence_after_metric(verdict: report_text.Verdict) -> str:
    """Return the sentence that follows the name of the metric, without repeating it."""
    if verdict.sentence.startswith(verdict.metric):
        return verdict.sentence.removeprefix(verdict.metric)
    return f": {verdict.sentence}"


def _to_script_json(content: Any) -> Markup:
    """Return JSON that is safe inside a `script` element, whatever texts it has."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate({ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}))


def _to_json_content(content: Any) -> Any:
    """Return content for JSON: rounded numbers, null for undefined ones, texts for other types."""
    if isinstance(content, Mapping):
        return {str(name): _to_json_content(value) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_to_json_content(value) for value in content]
    if isinstance(content, float):
        return _round(content) if math.isfinite(content) else None
    return content if content is None or isinstance(content, (str, int, bool)) else str(content)


def _round(number: float) -> float:
    short = float(f"{number:.{_DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PageChart:
    """A chart of the page; `texts`, `spec` and `table` are JSON."""

    number: int
    kind: str
    title: str
    text: str
    texts: Markup
    spec: Markup
    table: Markup
    num_rows: int


def _compile_chart(number: int, figure: Figure, datasets: dict[str, Any]) -> _PageChart:
    """Return a chart for the page; its data are added to `datasets`, which charts may share."""
    # The user may have enabled another transformer; the page needs all data inside of the chart.
    with alt.data_transformers.enable("default", max_rows=None, consolidate_datasets=True):
        spec = figure.chart.to_dict()
    spec["background"] = "transparent"
    spec.setdefault("config", {})["aria"] = False  # the page describes the chart as a whole
    # Compiling here is faster than compiling whenever the page is opened.
    compiled = vl_convert.vegalite_to_vega(_to_json_content(spec), vl_version=_vega_lite_version())
    for data in compiled["data"]:
        if "values" in data:
            rows = _pack_rows(data["values"])
            name = hashlib.sha256(_to_script_json(rows).encode()).hexdigest()[:12]
            datasets[name] = rows
            data["values"] = {"dataset": name}
    return _PageChart(
        number,
        figure.kind,
        figure.title,
        figure.text,
        texts=_to_script_json([[[*options], text] for options, text in figure.texts.items()]),
        spec=_to_script_json(compiled),
        table=_to_script_json(_pack_columns(figure.table.to_dict(as_series=False))),
        num_rows=figure.table.height,
    )


def _pack_rows(rows: Sequence[Any]) -> Any:
    """Return rows with equal keys as packed columns; others unchanged."""
    keys = list(rows[0]) if rows and isinstance(rows[0], dict) else []
    if not keys or any(not isinstance(row, dict) or list(row) != keys for row in rows):
        return _to_json_content(rows)
    return _pack_columns({key: [row[key] for row in rows] for key in keys})


def _pack_columns(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return columns for the page; repeated values are stored once (`of`) with indices (`at`)."""
    packed: list[dict[str, Any]] = []
    for name, column in columns.items():
        values = _to_json_content(list(column))
        keys = [json.dumps(value) for value in values]
        distinct = dict(zip(keys, values))
        if 2 * len(distinct) <= len(values):
            indices = {key: index for index, key in enumerate(distinct)}
            at = [indices[key] for key in keys]
            packed.append({"name": name, "of": list(distinct.values()), "at": at})
        else:
            packed.append({"name": name, "of": values})
    return {"columns": packed}
