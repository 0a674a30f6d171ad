"""Shapes as lines of text."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from gateway.reshaping.change import Advice, Event, GroupStatus, ModelShapes, shape_name
from gateway.reshaping.reshape_registry import ShapePlan
from observability.terminal import fitted, wrapped

_MODES = {"off": "nothing is decided", "advise": "changes are advised, and none is made", "apply": "changes are made"}


def model_lines(model: ModelShapes, width: int) -> Iterator[str]:
    """Yield all that is known of a model's shapes."""
    yield f"{model.model}: {_MODES[model.mode]}"
    if model.demand is not None:
        demand = model.demand
        words = f"{demand.short_rate:.2f} short requests/s, {demand.long_rate:.2f} long ones"
        if demand.waiting:
            words += (
                f"; {demand.waiting} of these wait, the longest for {demand.longest} KV tokens, the first for "
                f"{demand.oldest_wait:.0f} s"
            )
        yield from wrapped(words, width)
    if model.groups:
        yield from (f"  {line}".rstrip() for line in fitted([_HEADER, *map(_row, model.groups)], width - 2))
    else:
        yield "  no replica of it is in a host group, as far as is known"
    for group in model.groups:
        if group.problem:
            yield from wrapped(f"{group.group}: {group.problem}", width)
        if group.held and group.held != group.problem:
            yield from wrapped(f"{group.group} is not changed now: {group.held}", width)
    yield from (line for words in undecided_words(model) for line in wrapped(words, width))
    if model.advice is not None:
        yield from wrapped(advice_words(model.advice), width)
    totals = model.totals
    yield f"  changes so far: {totals.done} done, {totals.failed} failed; orders refused: {totals.refused}"


def undecided_words(model: ModelShapes) -> Sequence[str]:
    """Return why nothing is decided of groups that may be decided of."""
    if model.mode == "off":
        return ()
    return [f"nothing is decided of {one.group}: {one.undecided}" for one in model.groups if one.undecided]


def advice_words(advice: Advice) -> str:
    """Return a change that would be begun now."""
    shapes = f"{shape_name(advice.before)} to {shape_name(advice.after)}"
    return f"{advice.group} would go from {shapes}: {advice.reason} (costs {advice.gpu_seconds:g} GPU seconds)"


def plan_words(plan: ShapePlan) -> str:
    """Return what an operator's change would be."""
    shapes = f"{plan.group} of {plan.model} would go from {shape_name(plan.before)} to {shape_name(plan.after)}"
    if plan.refused:
        return f"{shapes}, and is refused: {plan.refused}"
    cost = "" if plan.gpu_seconds is None else f"; it costs {plan.gpu_seconds:g} GPU seconds"
    return f"{shapes}{cost}"


def event_lines(events: Sequence[Event], width: int) -> Iterator[str]:
    """Yield a line for each event, wrapped."""
    for event in events:
        number = f" change {event.change}" if event.change else ""
        took = "" if event.seconds is None else f" ({event.seconds:g} s)"
        shapes = f"{shape_name(event.before)} to {shape_name(event.after)}"
        words = f"{_time(event.at)} {event.model} {event.group}{number} {event.phase}, {shapes}: {event.reason}{took}"
        yield from wrapped(words, width, first="")


_HEADER = ("GROUP", "GPUS", "SHAPE", "KV TOKENS BY WIDTH", "LAST CHANGE", "SINCE (UTC)")


def _row(group: GroupStatus) -> tuple[str, ...]:
    change = group.change
    widths = ", ".join(f"TP{one.width}: {one.kv_tokens or '?'}" for one in group.widths)
    return (
        group.group,
        str(group.gpus),
        shape_name(group.shape) or "-",
        widths or "fixed",
        "-" if change is None else f"{change.id} {change.phase}",
        "-" if change is None else _time(change.since),
    )


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"
