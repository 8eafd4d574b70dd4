"""Numbers as people read them: as many digits as mean something."""

from __future__ import annotations

import math
from collections.abc import Iterable

_MOST = 6  # places behind the point


def number(value: float, half: float = math.nan) -> str:
    """A value, given half the width of its interval: two significant digits of that. Without one,
    four places of a small number.

    What is not 0 is never shown as 0.

    >>> number(0.2289050, 0.0103), number(279.0949, 1.75), number(287.0), number(0.92771), number(0.00001234)
    ('0.229', '279.1', '287', '0.9277', '0.000012')
    """
    return with_places(value, places(value, half))


def places(value: float, half: float = math.nan) -> int:
    """How many places behind the point a value deserves."""
    if math.isfinite(half) and half > 0:
        return min(_MOST, max(0, 1 - _magnitude(half)))
    if not math.isfinite(value) or (value == round(value) and (abs(value) >= 2 or value == 0)):
        return 0
    return min(4, max(0, 4 - _magnitude(value))) if abs(value) >= 1 else 4


def with_places(value: float, wanted: int) -> str:
    """A value with so many places, or with as many as show that it is not 0."""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    text = f"{value:,.{wanted}f}"
    if value == 0:
        return "0"
    if float(text.replace(",", "")) != 0:
        return text
    more = 1 - _magnitude(value)  # two significant digits
    return f"{value:.{more}f}" if more <= _MOST else f"{value:.1e}"


def common_places(values: Iterable[float]) -> int:
    """How many places the values of a metric have in a table: none for counts, four for shares,
    fewer for large numbers.

    >>> common_places([55.0, 183.0]), common_places([0.5, 0.1234567]), common_places([364.28, 12.0]), common_places([0.000012])
    (0, 4, 1, 6)
    """
    finite = [abs(value) for value in values if math.isfinite(value)]
    largest = max(finite, default=0.0)
    if largest >= 2 and all(value == round(value) for value in finite):
        return 0
    if largest < 2:
        return 4 if largest == 0 else min(9, max(4, 1 - math.floor(math.log10(largest))))
    return max(0, 3 - math.floor(math.log10(largest)))


def probability(p: float, limit: float) -> str:
    """A p-value with its sign, `= 0.031`, rounded so that it stays on its side of the limit.

    >>> probability(0.0000012, 0.05), probability(0.05004, 0.05), probability(0.31, 0.05)
    ('< 0.001', '= 0.05004', '= 0.31')
    """
    if p < 0.001 and limit >= 0.001:
        return "< 0.001"
    text = next(
        text
        for digits in range(2, 18)
        if (float(text := f"{p:.{digits}g}") <= limit) == (p <= limit)
    )
    return f"= {text}"


def percent(share: float) -> str:
    """A share in percent, two significant digits of it below 10 %."""
    amount = 100 * share
    return (
        f"{amount:,.0f} %"
        if amount >= 9.95
        else f"{amount:.2g} %"
        if amount >= 0.1
        else "less than 0.1 %"
    )


def _magnitude(value: float) -> int:
    """The power of ten of the first digit, once the value is rounded to two."""
    return int(f"{abs(value):.1e}".partition("e")[2])
