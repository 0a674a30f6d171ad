"""Why a group cannot go from one shape to another, in a sentence; decisions never ask for such changes, people may."""

from collections.abc import Mapping, Sequence

from protos.reshape import MemberWidth, Span
from replicas.reshape.group_view import Member
from replicas.reshape.host_group import problem_of
from replicas.reshape.snapshot import ShapedReplica


def widths_of(members: Sequence[Member]) -> dict[int, MemberWidth]:
    """Return the widths that all of some replicas can take: what the poorest of them holds, and the longest change."""
    found: dict[int, list[MemberWidth]] = {}
    for member in members:
        for width in member.membership.widths:
            found.setdefault(width.width, []).append(width)
    return {
        width: MemberWidth(
            width,
            min(one.kv_tokens for one in said),
            min(one.relative_rate for one in said),
            max(one.change_ms for one in said),
        )
        for width, said in sorted(found.items())
        if len(said) == len(members)
    }


def difference(before: Sequence[Span], after: Sequence[Span]) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the spans that go, and those that come."""
    return (
        tuple(span for span in sorted(before) if span not in after),
        tuple(span for span in sorted(after) if span not in before),
    )


def obstacle(gpus: int, replicas: Sequence[ShapedReplica], holds: Mapping[int, int], shape: Sequence[Span]) -> str:
    """Describe why the replicas of a group of `gpus` cannot come to a shape; empty: they can.

    `holds` are the KV tokens that a replica holds, by each width that its engine can take.
    """
    if not holds:
        return "its engines cannot change their shapes while they serve"
    if problem := problem_of(shape, gpus):
        return problem
    going, coming = difference([replica.span for replica in replicas], shape)
    if not coming:
        return "it has that shape"
    for new in coming:
        if new.width not in holds:
            listed = ", ".join(f"TP{width}" for width in holds)
            return f"its engines cannot be TP{new.width}: they can be {listed}"
    return _memory_problem({replica.span: replica for replica in replicas}, going, coming, holds)


def _memory_problem(
    replicas: Mapping[Span, ShapedReplica], going: Sequence[Span], coming: Sequence[Span], holds: Mapping[int, int]
) -> str:
    for old in going:
        replica, parts = replicas[old], [new.width for new in coming if old.covers(new)]
        if not parts:
            continue
        widest = max(parts)
        if replica.longest > holds[widest]:
            return f"{replica.id} runs a request of {replica.longest} KV tokens, and TP{widest} holds {holds[widest]}"
        if replica.used > sum(holds[part] for part in parts):
            return f"{replica.id} uses {replica.used} KV tokens, and what comes in its place holds fewer"
    for new in coming:
        used = sum(replicas[old].used for old in going if new.covers(old))
        if used > holds[new.width]:
            return f"its replicas use {used} KV tokens, and TP{new.width} holds {holds[new.width]}"
    return ""
