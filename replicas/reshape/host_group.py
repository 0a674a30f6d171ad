"""Host groups: the GPUs of one host that replicas of one model share, and the shapes that are legal on them."""

from collections.abc import Iterator, Sequence

from protos.reshape import Span


def problem_of(spans: Sequence[Span], gpus: int) -> str:
    """Describe why replicas cannot stand so on a group of `gpus`; empty if they can.

    Widths are powers of two, a span begins at a multiple of its width, and each GPU belongs to exactly one.
    """
    if gpus < 1 or gpus & (gpus - 1):
        return f"a group has a power of two of GPUs, not {gpus}"
    at = 0
    for span in sorted(spans):
        if span.width < 1 or span.width & (span.width - 1):
            return f"TP{span.width} is no power of two"
        if span.start % span.width:
            return f"TP{span.width} cannot begin at GPU {span.start}"
        if span.start < at:
            return f"GPU {span.start} belongs to two replicas"
        if span.start > at:
            return f"GPU {at} belongs to no replica"
        at = span.end
    if at < gpus:
        return f"GPU {at} belongs to no replica"
    if at > gpus:
        return f"the replicas end at GPU {at} of {gpus}"
    return ""


def spans_of(widths: Sequence[int]) -> tuple[Span, ...]:
    """Return the spans of replicas of these widths, from the first GPU on."""
    found, start = [], 0
    for width in widths:
        found.append(Span(start, width))
        start += width
    return tuple(found)


def merges(spans: Sequence[Span], gpus: int, width: int) -> Iterator[tuple[Span, tuple[Span, ...]]]:
    """Yield each span of `width` that could take the place of narrower ones, with those."""
    for start in range(0, gpus, width):
        merged = Span(start, width)
        inside = tuple(span for span in spans if merged.covers(span))
        if len(inside) > 1 and sum(span.width for span in inside) == width:
            yield merged, inside
