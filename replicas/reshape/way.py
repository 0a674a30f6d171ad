"""The way from one shape of a group to another, by changes that make one replica of several, or several of one."""

from collections.abc import Sequence

from protos.reshape import Span
from replicas.reshape.obstacles import difference


def way(before: Sequence[Span], after: Sequence[Span]) -> list[tuple[Span, ...]]:
    """Return the shape after each change, the last of which is `after`; both shapes are legal on the same GPUs."""
    differing = [*difference(before, after)[0], *difference(before, after)[1]]
    # Of two spans in legal shapes one covers the other, or they have no GPU in common.
    wholes = [one for one in differing if not any(other.covers(one) for other in differing if other != one)]
    shapes, shape = [], list(before)
    for whole in sorted(wholes):
        shape = [one for one in shape if not whole.covers(one)] + [one for one in after if whole.covers(one)]
        shapes.append(tuple(sorted(shape)))
    return shapes
