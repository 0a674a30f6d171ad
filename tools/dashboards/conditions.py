"""Build alert conditions: values, comparisons with limits, and their combinations."""

from dataclasses import dataclass

from tools.dashboards.promql import indented


@dataclass(frozen=True)
class Condition:
    """PromQL that has series only while something is wrong. `values` are the compared expressions, which always have
    some.
    """

    expr: str
    values: tuple[str, ...]


def above(value: str, limit: float | str) -> Condition:
    """Compare: the value exceeds a limit."""
    return Condition(f"{value} > {limit}", (value,))


def equal(value: str, wanted: float) -> Condition:
    """Compare: the value equals another."""
    return Condition(f"{value} == {wanted}", (value,))


def both(one: Condition, other: Condition) -> Condition:
    """Require two comparisons of the same labels."""
    return Condition(f"{one.expr}\nand\n{other.expr}", one.values + other.values)


def either(one: Condition, other: Condition) -> Condition:
    """Require one of two conditions, or both."""
    parts = (f"(\n{indented(each.expr)}\n)" for each in (one, other))
    return Condition("\nor\n".join(parts), one.values + other.values)
