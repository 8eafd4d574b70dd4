"""Bars of characters that show intervals in a terminal."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console

Ends = tuple[float, float, float]  # low, value, high


class BarSymbols(NamedTuple):
    """The characters of bars and margins."""

    left: str = "├"
    line: str = "─"
    right: str = "┤"
    point: str = "●"
    zero: str = "┊"
    margin: str = "±"

    @property
    def example(self) -> str:
        """A short bar, for legends."""
        return f"{self.left}{self.line}{self.point}{self.line}{self.right}"


UNICODE = BarSymbols()
ASCII = BarSymbols("[", "-", "]", "o", ":", "+-")


def console_symbols(console: Console) -> BarSymbols:
    """Return the symbols that a console can show."""
    return ASCII if console.options.ascii_only or console.legacy_windows else UNICODE


def draw_bar(
    ends: Ends, scale: tuple[float, float], width: int, symbols: BarSymbols, *, zero: bool = False
) -> str:
    """Return an interval with its value on a scale, `width` characters long; `zero` marks 0.

    >>> draw_bar((2.0, 4.0, 8.0), (0.0, 10.0), 11, UNICODE)
    '  ├─●───┤  '
    """
    bottom, top = scale
    unit = 0.0 if top <= bottom else (width - 1) / (top - bottom)

    def place(number: float) -> int:
        return round(unit * (number - bottom)) if unit else (width - 1) // 2

    value = place(ends[1])
    # Both sides are rounded from the value, so that a symmetric interval stays symmetric.
    low = max(0, value - round(unit * (ends[1] - ends[0])))
    high = min(width - 1, value + round(unit * (ends[2] - ends[1])))
    drawn = [" "] * width
    drawn[low : high + 1] = symbols.line * (high + 1 - low)
    if low < high:
        drawn[low], drawn[high] = symbols.left, symbols.right
    if zero:
        drawn[place(0.0)] = symbols.zero
    drawn[value] = symbols.point
    return "".join(drawn)
