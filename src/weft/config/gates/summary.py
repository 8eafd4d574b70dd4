"""Outcomes of gates for CI systems: a summary in Markdown, and JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from weft.config.gates.outcomes import GateOutcome
from weft.errors import escape_controls
from weft.evaluation.result import Result
from weft.report.result_formats import to_markdown
from weft.statistics.markup import escape_markdown, markdown_table

# Characters that XML 1.0 does not allow even if they are escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_summary(
    outcomes: Sequence[GateOutcome], notes: Sequence[str], results: Sequence[Result]
) -> str:
    """Return a verdict, the table of gates, and the table of values, in GitHub's Markdown."""
    failed = sum(not outcome.passed for outcome in outcomes)
    verdict = f"{failed} of {len(outcomes)} gates failed" if failed else "all gates passed"
    rows = [
        (
            "✅ passed" if outcome.passed else "❌ **FAILED**",
            escape_markdown(outcome.gate.text),
            escape_markdown(outcome.model),
            escape_markdown(f"{outcome.name} {outcome.comparison}"),
            escape_markdown(outcome.detail),
        )
        for outcome in outcomes
    ]
    parts = [f"### {verdict[0].upper()}{verdict[1:]}", ""]
    if rows:
        parts.append(markdown_table(("outcome", "gate", "model", "values", "test"), rows))
    parts += [f"- {escape_markdown(note)}" for note in notes]
    parts += ["", "<details><summary>All values</summary>", "", to_markdown(results), "</details>"]
    return "\n".join(parts) + "\n"


def to_junit(outcomes: Sequence[GateOutcome]) -> str:
    """Return the outcomes as JUnit XML: a test case for each gate and model."""
    failed = sum(not outcome.passed for outcome in outcomes)
    counts = {"tests": str(len(outcomes)), "failures": str(failed), "errors": "0"}
    root = ElementTree.Element("testsuites", {"name": "weft", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": "gates", "skipped": "0", **counts})
    for outcome in outcomes:
        names = {"classname": _clean(outcome.model), "name": _clean(outcome.gate.text)}
        case = ElementTree.SubElement(suite, "testcase", names)
        if outcome.passed:
            ElementTree.SubElement(case, "system-out").text = _clean(str(outcome))
        else:
            message = _clean(f"{outcome.name} {outcome.comparison}")
            failure = ElementTree.SubElement(
                case, "failure", {"message": message, "type": "GateFailed"}
            )
            failure.text = _clean(str(outcome))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def _clean(text: str) -> str:
    """Return the text without characters that XML cannot hold."""
    return _NOT_XML.sub("�", escape_controls(text))
