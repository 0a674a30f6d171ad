"""Format numbers for `penstock top`, as short as possible."""


def number(value: float | None) -> str:
    """Format a rate, or any number that may have a fraction."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if value < 10:
        return f"{value:.2f}" if value < 1 else f"{value:.1f}"
    return f"{value:,.0f}"


def shown_rate(value: float | None) -> str:
    """Format a rate that matters even when tiny: never shown as 0 unless it is 0."""
    return "<0.01" if value is not None and 0 < value < 0.005 else number(value)


def count(value: int | None) -> str:
    """Format a whole number."""
    if value is None:
        return "-"
    if value < 100_000:
        return f"{value:,}"
    return f"{value / 1e3:,.0f}k" if value < 10_000_000 else f"{value / 1e6:,.0f}M"


def duration(seconds: float | None) -> str:
    """Format a time in seconds."""
    if seconds is None:
        return "-"
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:,.0f} s"


def share(part: float) -> str:
    """Format a part of a whole."""
    return f"{part:.0%}"
