"""Numbers as `penstock top` shows them: short, and as wide as they have to be."""


def number(value: float | None) -> str:
    """A rate, or any number that may have a fraction."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if value < 10:
        return f"{value:.2f}" if value < 1 else f"{value:.1f}"
    return f"{value:,.0f}"


def shown_rate(value: float | None) -> str:
    """A rate of which a little is as good as none: never shown as 0 while there is any."""
    return "<0.01" if value is not None and 0 < value < 0.005 else number(value)


def count(value: int | None) -> str:
    """A whole number."""
    if value is None:
        return "-"
    if value < 100_000:
        return f"{value:,}"
    return f"{value / 1e3:,.0f}k" if value < 10_000_000 else f"{value / 1e6:,.0f}M"


def took(seconds: float | None) -> str:
    """A time."""
    if seconds is None:
        return "-"
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:,.0f} s"


def share(part: float) -> str:
    """A part of a whole."""
    return f"{part:.0%}"
