import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.text.tokens.stop_strings import StopMatcher
from tests.complexity import LINEAR, bytecodes


def expected(text: str, stops: list[str]) -> tuple[str, bool]:
    """By definition: the answer ends where the first stop string is complete, before the longest that ends there."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - len(max(ending, key=len))], True
    return text, False


def run(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    matcher = StopMatcher(stops)
    released = "".join(matcher.feed(piece)[0] for piece in pieces)
    return released + matcher.flush(), matcher.stopped


@given(
    pieces=st.lists(st.text("abc", max_size=4), max_size=12),
    stops=st.lists(st.text("abc", min_size=1, max_size=5), max_size=4),
)
@example(pieces=["ab", "cd"], stops=["abcd", "bc"])
@example(pieces=["aab", "aaab"], stops=["aaab"])
def test_any_cutting_gives_the_one_piece_result(pieces: list[str], stops: list[str]) -> None:
    assert run(pieces, stops) == expected("".join(pieces), stops)


@given(pieces=st.lists(st.text("abc", max_size=4), max_size=12), stop=st.text("abc", min_size=1, max_size=5))
def test_no_more_is_held_than_may_begin_a_stop(pieces: list[str], stop: str) -> None:
    matcher = StopMatcher([stop])
    fed = released = ""
    for piece in pieces:
        fed += piece
        released += matcher.feed(piece)[0]
        if matcher.stopped:
            break
        held = fed[len(released) :]
        assert fed == released + held
        assert held == max((stop[:n] for n in range(len(stop)) if fed.endswith(stop[:n])), key=len)


def test_released_as_soon_as_possible() -> None:
    matcher = StopMatcher(["\n\nUser:"])
    assert matcher.feed("Yes.\n") == ("Yes.", False)
    assert matcher.feed("No.") == ("\nNo.", False)
    assert matcher.feed("\n\nUs") == ("", False)
    assert matcher.feed("er: and more") == ("", True)
    assert matcher.feed("and more") == ("", True)
    assert matcher.flush() == ""


def test_without_stops_everything_passes() -> None:
    matcher = StopMatcher([])
    assert matcher.feed("any text") == ("any text", False)
    assert matcher.flush() == ""


def test_flush_releases_what_was_held() -> None:
    matcher = StopMatcher(["END"])
    assert matcher.feed("the EN") == ("the ", False)
    assert matcher.flush() == "EN"
    assert matcher.feed("D") == ("D", False)


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopMatcher(["a", ""])


def test_repetition_costs_linear_time() -> None:
    def released(size: int) -> int:
        matcher = StopMatcher(["a" * (size // 20) + "b", "a" * (size // 25) + "c"])
        return sum(len(matcher.feed("a" * 4)[0]) for _ in range(size // 4))

    # Both the text and what repeats are twice as long: a step for each pair of their characters would be four times.
    assert bytecodes(lambda: released(20_000)) < LINEAR * bytecodes(lambda: released(10_000))
    assert released(100_000) == 100_000 - 5_000
