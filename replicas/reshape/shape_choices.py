"""Shapes that a group may be asked to have, for people who choose one. Pure."""

from collections import deque
from collections.abc import Collection, Iterator, Sequence

from protos.reshape import Span
from replicas.reshape.host_group import merges, problem_of

Shape = tuple[Span, ...]


def shape_choices(spans: Sequence[Span], gpus: int, widths: Collection[int], most: int) -> list[Shape]:
    """Return legal shapes of a group other than its own, the widest replicas first, at most `most`.

    `widths` are those that its engines can take. Where there are more shapes than `most`, these are those of one width
    alone, and those that the fewest merges and splits lead to.
    """
    own = tuple(sorted(spans))
    alike = [Span(0, gpus).halves(width) for width in widths if width <= gpus]
    alike = [shape for shape in alike if shape != own and not problem_of(shape, gpus)]
    found = dict.fromkeys(alike)
    # What is wrong with a group now leads nowhere.
    waiting = deque(alike if problem_of(own, gpus) else [own])
    seen = {own, *waiting}
    while waiting and len(found) < most:
        for shape in _neighbours(waiting.popleft(), gpus, widths):
            if shape not in seen:
                seen.add(shape)
                waiting.append(shape)
                found[shape] = None
    return sorted(list(found)[:most], key=lambda shape: [span.width for span in shape], reverse=True)


def place_choices(gpus: int, narrow: int, wide: int) -> list[Sequence[int]]:
    """Return the widths that replicas of two kinds can have on places of `gpus` in all, the widest first."""
    return [
        [wide] * count + [narrow] * ((gpus - count * wide) // narrow)
        for count in range(gpus // wide, -1, -1)
        if (gpus - count * wide) % narrow == 0
    ]


def _neighbours(shape: Shape, gpus: int, widths: Collection[int]) -> Iterator[Shape]:
    """Yield the shapes that one merge or one split leads to."""
    for width in widths:
        for merged, inside in merges(shape, gpus, width):
            yield tuple(sorted([merged, *(span for span in shape if span not in inside)]))
        for span in shape:
            if width < span.width:
                yield tuple(sorted([*span.halves(width), *(one for one in shape if one != span)]))
