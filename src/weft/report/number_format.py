"""Numbers as text, with as many digits as are meaningful."""

from __future__ import annotations

import math
from collections.abc import Iterable

_MAX_PLACES = 6  # digits after the point


def number(value: float, half: float = math.nan) -> str:
    """Return a value with the places that half the width of its interval justifies.

    These are two significant digits of the half width; four places without one. A number that is
    not 0 is never shown as 0.

    >>> number(0.2289050, 0.0103), number(279.0949, 1.75), number(287.0)
    ('0.229', '279.1', '287')
    >>> number(0.92771), number(0.00001234)
    ('0.9277', '0.000012')
    """
    return with_places(value, places(value, half))


def places(value: float, half: float = math.nan) -> int:
    """Return the number of digits after the point of a value; see `number`."""
    if math.isfinite(half) and half > 0:
        return min(_MAX_PLACES, max(0, 1 - _magnitude(half)))
    is_integer = math.isfinite(value) and value == round(value)
    if not math.isfinite(value) or (is_integer and (abs(value) >= 2 or value == 0)):
        return 0
    return min(4, max(0, 4 - _magnitude(value))) if abs(value) >= 1 else 4


def with_places(value: float, num_places: int) -> str:
    """Return a value with this many places, or with more if it would be shown as 0."""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    text = f"{value:,.{num_places}f}"
    if float(text.replace(",", "")) != 0:
        return text
    more = 1 - _magnitude(value)  # two significant digits
    return f"{value:.{more}f}" if more <= _MAX_PLACES else f"{value:.1e}"


def common_places(values: Iterable[float]) -> int:
    """Return the places of a metric's values in a table: 0 for counts, 4 for shares.

    Large numbers have fewer places, small ones more.

    >>> common_places([55.0, 183.0]), common_places([0.5, 0.1234567])
    (0, 4)
    >>> common_places([364.28, 12.0]), common_places([0.000012])
    (1, 6)
    """
    finite = [abs(value) for value in values if math.isfinite(value)]
    largest = max(finite, default=0.0)
    if largest >= 2 and all(value == round(value) for value in finite):
        return 0
    if largest < 2:
        return 4 if largest == 0 else min(9, max(4, 1 - math.floor(math.log10(largest))))
    return max(0, 3 - math.floor(math.log10(largest)))


def probability(p: float, limit: float) -> str:
    """Return a p-value with its sign, `= 0.031`, rounded so that it stays on its side of `limit`.

    >>> probability(0.0000012, 0.05), probability(0.05004, 0.05), probability(0.31, 0.05)
    ('< 0.001', '= 0.05004', '= 0.31')
    """
    if p < 0.001 and limit >= 0.001:
        return "< 0.001"
    texts = (f"{p:.{digits}g}" for digits in range(2, 18))
    return f"= {next(text for text in texts if (float(text) <= limit) == (p <= limit))}"


def percent(share: float) -> str:
    """Return a share in percent, with two significant digits below 10%."""
    amount = 100 * share
    if amount < 0.1:
        return "less than 0.1%"
    return f"{whole_percent(share):,}%" if amount >= 9.95 else f"{amount:.2g}%"


def whole_percent(share: float) -> int:
    """Return a share in whole percent, rounded half up, as Vega rounds in charts."""
    return math.floor(round(100 * share, 9) + 0.5)


def _magnitude(value: float) -> int:
    """Return the power of ten of the first digit, after rounding to two digits."""
    return int(f"{abs(value):.1e}".partition("e")[2])
