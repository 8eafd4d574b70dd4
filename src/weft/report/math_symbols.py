"""Symbols in the text of metrics, such as `n_i`, as maths for the docs pages."""

from __future__ import annotations

import re

_GREEK = {
    "α": "alpha",
    "δ": "delta",
    "ε": "epsilon",
    "θ": "theta",
    "λ": "lambda",
    "π": "pi",
    "ρ": "rho",
    "σ": "sigma",
    "φ": "phi",
}
# Code, formulas and links are kept as they are.
_KEPT = re.compile(r"(`[^`]*`|\$[^$]*\$|\[[^\]]*\]\([^)]*\))")
_SYMBOL = re.compile(
    rf"(?<![\w./-])(?P<base>[A-Za-z{''.join(_GREEK)}])_(?P<index>[a-z]+|\([^()]+\))"
    r"(?P<exponent>\^\([^()]+\))?(?P<argument>\([a-z]\))?(?![\w(])"
)


def set_symbols(text: str) -> str:
    """Return the text with each symbol that has an index as inline maths.

    >>> set_symbols("the sum of 1 / π_i, but not of `a_i`")
    'the sum of 1 / $\\\\pi_i$, but not of `a_i`'
    >>> set_symbols("R_u^(k), h_(p-1) and r_max")
    '$R_u^{(k)}$, $h_{p-1}$ and $r_{\\\\max}$'
    """
    pieces = _KEPT.split(text)
    pieces[::2] = [_SYMBOL.sub(_as_maths, piece) for piece in pieces[::2]]
    return "".join(pieces)


def _as_maths(symbol: re.Match[str]) -> str:
    base = symbol["base"]
    if base in _GREEK:
        base = f"\\{_GREEK[base]}"
    index = symbol["index"].strip("()")
    index = "\\max" if index == "max" else index
    written = index if len(index) == 1 else f"{{{index}}}"
    exponent = f"^{{{symbol['exponent'][1:]}}}" if symbol["exponent"] else ""
    return f"${base}_{written}{exponent}{symbol['argument'] or ''}$"
