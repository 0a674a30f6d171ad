"""What every filter and every stream must hold to, for its own tests."""

from collections.abc import Sequence
from itertools import pairwise

from safety.filter import StreamFilter
from safety.match import Match, merged


def pieces(text: str, cuts: Sequence[int]) -> list[str]:
    """The text cut at those places, wherever they are."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


def streamed(filter_: StreamFilter, parts: Sequence[str]) -> list[Match]:
    """What a stream tells of a text in those pieces; it must keep its promises on the way."""
    stream = filter_.stream()
    found: list[Match] = []
    length = 0
    for part in parts:
        before = stream.open
        length += len(part)
        new = stream.feed(part)
        assert before <= stream.open <= length
        assert length - stream.open <= filter_.window
        assert all(before <= match.start < match.end <= length for match in new)
        found += new
    last = stream.finish()
    assert all(match.start < match.end <= length for match in last)
    found += last
    assert stream.open == length
    assert all(first.start < second.start and first.end <= second.start for first, second in pairwise(found))
    return found


def assert_agrees(filter_: StreamFilter, text: str, cuts: Sequence[int]) -> None:
    """However a text is cut, the stream finds in it what is in the whole; one character at a time, too."""
    whole = filter_.scan(text)
    assert all(0 <= match.start < match.end <= len(text) for match in whole)
    assert all(first.end <= second.start for first, second in pairwise(whole))
    for parts in (pieces(text, cuts), list(text), [text] if text else []):
        assert merged(streamed(filter_, parts)) == merged(whole), parts
