"""Sphinx extension: formulas as MathML, converted when the site is built.

Browsers draw MathML themselves, so the pages need neither JavaScript nor fonts of a formula
renderer, and screen readers read the formulas. A formula that cannot be converted is a warning,
which `sphinx-build -W` turns into an error.
"""

from __future__ import annotations

import itertools
import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)
_BAR = re.compile(r"<mo[^>]*>&#x0007C;</mo>")


def visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula inside a sentence."""
    translator.body.append(_convert(node, display="inline"))
    raise nodes.SkipNode


def visit_math_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula in a line of its own, which scrolls if it is wider than the page."""
    formula = _convert(node, display="block")
    translator.body.append(f'<div class="formula" tabindex="0">{formula}</div>\n')
    raise nodes.SkipNode


def _convert(node: nodes.Element, *, display: str) -> str:
    """Return MathML of a formula; warn of commands that the converter does not know."""
    latex = node.astext()
    try:
        formula = convert(latex, display=display)
    except Exception as error:  # the converter has no common exception class
        logger.warning("formula %r: %s", latex, error, location=node)
        return ""
    if "\\" in formula:
        logger.warning("formula %r has an unknown command", latex, location=node)
    return _pair_bars(formula)


def _pair_bars(formula: str) -> str:
    """Mark the bars of sizes and absolute values as opening and closing ones.

    A browser sets a bar without a form like a relation, with space on both sides. Bars of the
    formulas are not nested."""
    forms = itertools.cycle(("prefix", "postfix"))
    return _BAR.sub(
        lambda bar: f'<mo stretchy="false" form="{next(forms)}">&#x0007C;</mo>', formula
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
