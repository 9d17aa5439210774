"""A small picture of a whole loss curve, kept while it grows. Pure."""

from typing import Any

MOST_POINTS = 32


def add_point(sparkline: dict[str, Any], step: int, value: float | None) -> dict[str, Any]:
    """The sparkline with one more optimizer step; where it grows too long, every second point goes."""
    stride: int = sparkline.get("stride", 1)
    points: list[list[Any]] = sparkline.get("points", [])
    if step % stride:
        return sparkline
    points = [*(point for point in points if point[0] < step), [step, value]]
    while len(points) > MOST_POINTS:
        stride *= 2
        points = [point for point in points if point[0] % stride == 0]
    return {"stride": stride, "points": points}


def up_to(sparkline: dict[str, Any], step: int) -> dict[str, Any]:
    """The sparkline without what lies behind a step."""
    return {**sparkline, "points": [point for point in sparkline.get("points", []) if point[0] <= step]}


def values(sparkline: dict[str, Any]) -> list[float | None]:
    """The losses alone."""
    return [point[1] for point in sparkline.get("points", [])]
