"""Format times and limits for the output of commands."""

from datetime import UTC, datetime

from gateway.config.tenants import Limits


def shown_time(seconds: float) -> str:
    """Format a time since 1970 in UTC, to the minute."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def shown_limits(limits: Limits) -> str:
    """Format the limits that are set in one line; empty where none is."""
    parts = [
        f"{name} {value}"
        for name in limits.__struct_fields__
        if name != "budget" and (value := getattr(limits, name)) is not None
    ]
    if limits.budget is not None:
        parts.append(f"budget {limits.budget.usd:g} USD/{limits.budget.period}")
    return ", ".join(parts)
