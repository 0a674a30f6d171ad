"""Faults of an order, whoever gets it: spans that are no change of a group, participants that do not fit."""

from collections.abc import Sequence

from protos.reshape import ReshapeOrder, Span
from replicas.reshape.host_group import problem_of


def problem_with(order: ReshapeOrder, gpus: int) -> str:
    """Describe why no group of `gpus` GPUs can follow an order; empty if one can."""
    before, after = order.before, order.after
    if (len(before) == 1) == (len(after) == 1):
        return "a change makes one replica of several, or several of one"
    whole = before[0] if len(before) == 1 else after[0]
    if whole.end > gpus or whole.width < 1 or whole.start % whole.width:
        return f"{described(whole)} is no part of a group of {gpus}"
    for spans in (before, after):
        problem = problem_of([Span(span.start - whole.start, span.width) for span in spans], whole.width)
        if problem:
            return f"{', '.join(map(described, spans))}: counted from GPU {whole.start}, {problem}"
    there = [one.gpu for one in order.participants]
    if len(set(there)) < len(there):
        return "two participants have the same GPU"
    outside = [gpu for gpu in there if not whole.start <= gpu < whole.end]
    if outside:
        return f"GPU {outside[0]} of a participant is not in {described(whole)}"
    missing = {span.start for span in (*before, *after)} - set(there)
    if missing:
        return f"no participant has GPU {min(missing)} as its first one"
    return ""


def span_of(gpu: int, spans: Sequence[Span]) -> Span:
    """Return the one of the spans that a GPU belongs to. Raises ValueError: to none."""
    for span in spans:
        if span.start <= gpu < span.end:
            return span
    raise ValueError(f"GPU {gpu} is in none of the spans")


def described(span: Span) -> str:
    """Return a span in words."""
    return f"GPU {span.start}" if span.width == 1 else f"GPUs {span.start} to {span.end - 1}"
