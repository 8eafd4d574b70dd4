"""Positions of labels so that they do not overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.report.charts.short_labels import text_pixels

LINE_PIXELS = 14  # distance of the baselines of two labels
_NARROW_PIXELS = 230  # width of the plot on a narrow screen, where labels must fit, too
_SHIFTS = (0.0, 9.0, -9.0, 18.0, -18.0, 27.0, -27.0, 36.0, -36.0)  # pixels, the nearest first
_Box = tuple[float, float, float]  # left, right and vertical centre, in pixels


def spread_labels(
    positions: Sequence[float], low: float, high: float, pixels: float, *, is_bounded: bool = False
) -> list[float]:
    """Return positions of labels near the given ones, at a distance of at least a line.

    The positions are on an axis from `low` to `high` of this many pixels. With `is_bounded`, the
    axis starts at `low`, and no label is below it.

    >>> [round(position, 2) for position in spread_labels([0.5, 0.5, 0.9], 0.0, 1.0, 140)]
    [0.44, 0.56, 0.9]
    >>> bounded = spread_labels([0.0, 0.0, 0.9], 0.0, 1.0, 140, is_bounded=True)
    >>> [round(position, 2) for position in bounded]
    [0.0, 0.11, 0.9]
    """
    spread = [*positions]
    for _ in range(2):  # labels may reach beyond the axis, which then grows
        extent = max([high, *spread]) - min([low, *spread])
        # Axes end on round numbers, somewhat further out.
        gap = (extent or 1.0) * 1.12 * LINE_PIXELS / pixels
        spread = _separate(positions, gap)
        if is_bounded:
            spread = _raise_to(low, spread, gap)
    return spread


def _raise_to(low: float, positions: Sequence[float], gap: float) -> list[float]:
    """Return separated positions, moved up as far as needed so that none is below `low`."""
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    raised = [*positions]
    for rank, index in enumerate(order):
        raised[index] = max(raised[index], low + rank * gap)
    return raised


def _separate(positions: Sequence[float], gap: float) -> list[float]:
    """Return the nearest positions at a distance of `gap`, in the given order.

    Labels that touch form a run, which moves as one.
    """
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    runs: list[tuple[float, int]] = []  # mean start of the labels of a run, and their number
    for rank, index in enumerate(order):
        start, size = positions[index] - rank * gap, 1
        while runs and runs[-1][0] >= start:
            previous, more = runs.pop()
            start, size = (previous * more + start * size) / (more + size), more + size
        runs.append((start, size))
    starts = [start for start, size in runs for _ in range(size)]
    separated = [0.0] * len(positions)
    for rank, index in enumerate(order):
        separated[index] = starts[rank] + rank * gap
    return separated


def place_point_labels(
    points: Mapping[str, tuple[float, float]], labels: Mapping[str, str], height: int
) -> dict[str, tuple[float, str]]:
    """Return for each label its vertical position and the side of its point, left or right.

    `points` are all points (x, y) by key, `labels` the texts of those with a label. Labels avoid
    points and each other.
    """
    pixels, y_unit = _to_pixels(points, height)
    occupied: list[_Box] = [(x - 6, x + 6, y) for x, y in pixels.values()]
    placed: dict[str, tuple[float, str]] = {}
    for key in sorted((key for key in labels if key in pixels), key=lambda key: pixels[key][1]):
        x, y = pixels[key]
        width = text_pixels(labels[key]) + 12
        sides = {"left": (x - width, x - 8), "right": (x + 8, x + width)}
        order = ("left", "right") if x > _NARROW_PIXELS / 2 else ("right", "left")
        boxes: dict[tuple[float, str], _Box] = {
            (shift, side): (*sides[side], y + shift) for shift in _SHIFTS for side in order
        }
        shift, side = min(boxes, key=lambda option: _count_conflicts(boxes[option], occupied))
        occupied.append(boxes[shift, side])
        placed[key] = (points[key][1] + shift * y_unit, side)
    return placed


def _to_pixels(
    points: Mapping[str, tuple[float, float]], height: int
) -> tuple[dict[str, tuple[float, float]], float]:
    """Return the points in pixels of a narrow plot, and the size of a pixel on the y axis."""
    (x_low, x_span), (y_low, y_span) = (
        (min(axis), (max(axis) - min(axis)) or 1.0) for axis in zip(*points.values())
    )
    pixels = {
        key: (_NARROW_PIXELS * (x - x_low) / x_span, height * (y - y_low) / y_span)
        for key, (x, y) in points.items()
    }
    return pixels, y_span / height


def _count_conflicts(box: _Box, occupied: list[_Box]) -> int:
    """Return how many labels and points a box overlaps; a box outside of the plot is worse."""
    left, right, centre = box
    overlaps = sum(
        left < other_right and other_left < right and abs(centre - other_centre) < LINE_PIXELS
        for other_left, other_right, other_centre in occupied
    )
    return overlaps + 3 * (left < -20 or right > _NARROW_PIXELS + 20)
