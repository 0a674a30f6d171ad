"""What alerts are raised on: values, the comparisons with limits, and how these go together."""

from dataclasses import dataclass

from tools.dashboards.promql import indented


@dataclass(frozen=True)
class Condition:
    """PromQL that has series only while something is wrong. `values` are what it compares, which always have some."""

    expr: str
    values: tuple[str, ...]


def above(value: str, limit: float | str) -> Condition:
    """More than a limit."""
    return Condition(f"{value} > {limit}", (value,))


def equal(value: str, wanted: float) -> Condition:
    """Just so much."""
    return Condition(f"{value} == {wanted}", (value,))


def both(one: Condition, other: Condition) -> Condition:
    """Two comparisons that hold for the same labels."""
    return Condition(f"{one.expr}\nand\n{other.expr}", one.values + other.values)


def either(one: Condition, other: Condition) -> Condition:
    """One of two conditions, or both."""
    parts = (f"(\n{indented(each.expr)}\n)" for each in (one, other))
    return Condition("\nor\n".join(parts), one.values + other.values)
