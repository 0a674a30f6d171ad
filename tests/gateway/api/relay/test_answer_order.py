"""Pieces of an answer in any order: what comes out is in order, and nothing of it is lost."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.relay.answer_order import AnswerOrder, _Call, ordered
from gateway.api.relay.chat_reading import CallPiece, ChoicePiece
from gateway.api.writers.api_adapter import Call, joined
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from protos.errors import ReplicaFailed
from protos.types import FinishReason

STOP = FinishReason.STOP


def piece(text: str = "", thought: str = "", calls: list[CallPiece] | None = None) -> ChoicePiece:
    return ChoicePiece(0, thought, text, (), calls or [], None, ())


def calls(*given_: tuple[int, str, str, str]) -> ChoicePiece:
    return piece(calls=[CallPiece(*one) for one in given_])


def written(*pieces: ChoicePiece, finish: FinishReason = STOP) -> list[Delta]:
    order = AnswerOrder()
    return [delta for one in pieces for delta in order.add(one)] + order.end(finish)


def parts(*pieces: ChoicePiece, finish: FinishReason = STOP) -> list[object]:
    return [
        (part.name, part.arguments, part.id) if isinstance(part, Call) else part.text
        for part in joined(written(*pieces, finish=finish), finish).parts
    ]


def test_text_and_a_call_go_out_as_they_come() -> None:
    order = AnswerOrder()
    assert order.add(piece(thought="Hm")) == [Reasoning("Hm")]
    assert order.add(piece("Hi")) == [Text("Hi")]
    assert order.add(calls((0, "a", "f", ""))) == []
    assert order.add(calls((0, "", "", '{"x"'))) == [CallStart(0, "a", "f"), CallArguments(0, '{"x"')]
    assert order.add(calls((0, "", "", ":1}"))) == [CallArguments(0, ":1}")]
    assert order.end(STOP) == []


def test_a_new_id_at_the_same_place_begins_a_call() -> None:
    assert parts(calls((0, "a", "f", '{"x":1}')), calls((0, "b", "g", "{}"))) == [
        ("f", '{"x":1}', "a"),
        ("g", "{}", "b"),
    ]


def test_calls_without_ids_and_places_are_told_apart() -> None:
    assert parts(calls((0, "", "f", '{"x":1}')), calls((0, "", "f", '{"x":2}'))) == [
        ("f", '{"x":1}', "call_0"),
        ("f", '{"x":2}', "call_1"),
    ]


def test_a_new_id_with_every_piece_is_one_call() -> None:
    assert parts(calls((0, "a", "f", '{"x"')), calls((0, "b", "f", ":1}"))) == [("f", '{"x":1}', "a")]


def test_a_name_that_is_repeated_is_one_call() -> None:
    assert parts(calls((0, "a", "f", '{"x"')), calls((0, "a", "f", ":1}"))) == [("f", '{"x":1}', "a")]


def test_a_call_that_is_said_twice_is_one() -> None:
    whole = calls((0, "a", "f", '{"x":1}'))
    assert parts(whole, whole) == [("f", '{"x":1}', "a")]


def test_a_name_may_come_in_pieces_before_the_arguments() -> None:
    assert parts(calls((0, "a", "get_", "")), calls((0, "", "weather", "")), calls((0, "", "", "{}"))) == [
        ("get_weather", "{}", "a")
    ]


def test_a_name_that_changes_is_refused() -> None:
    with pytest.raises(ReplicaFailed, match="name of tool call 0"):
        written(calls((0, "a", "f", "{")), calls((0, "", "g", "}")))


def test_calls_in_turn_are_held_back_until_they_are_whole() -> None:
    order = AnswerOrder()
    deltas = order.add(calls((0, "a", "f", '{"x'), (1, "b", "g", "{")))
    assert deltas == [CallStart(0, "a", "f"), CallArguments(0, '{"x')]
    deltas = order.add(calls((0, "", "", '":1}'), (1, "", "", '"y"')))
    assert deltas == [CallArguments(0, '":1}'), CallStart(1, "b", "g"), CallArguments(1, '{"y"')]
    assert order.add(calls((1, "", "", ":2}"))) == [CallArguments(1, ":2}")]


def test_text_between_the_pieces_of_a_call_follows_it() -> None:
    assert parts(calls((0, "a", "f", '{"x"')), piece("Hi"), calls((0, "", "", ":1}")), piece("!")) == [
        ("f", '{"x":1}', "a"),
        "Hi!",
    ]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert parts(calls((0, "a", "f", "")), calls((1, "b", "g", "{}"))) == [("f", "{}", "a"), ("g", "{}", "b")]
    assert parts(calls((0, "a", "f", ""))) == [("f", "{}", "a")]


def test_a_call_that_was_cut_before_its_arguments_stays_cut() -> None:
    assert parts(calls((0, "a", "f", "")), finish=FinishReason.LENGTH) == [("f", "", "a")]


def test_the_same_id_for_two_calls_is_made_two() -> None:
    assert [one[2] for one in parts(calls((0, "a", "f", "{}"), (1, "a", "g", "{}")))] == ["a", "a_"]  # type: ignore[index]


def test_arguments_before_their_name_wait_for_it() -> None:
    assert parts(calls((0, "a", "", '{"x":1}')), calls((0, "", "f", ""))) == [("f", '{"x":1}', "a")]
    with pytest.raises(ReplicaFailed, match="no name"):
        written(calls((0, "a", "", "{}")))


def test_a_call_does_not_go_on_after_its_end() -> None:
    with pytest.raises(ReplicaFailed, match="goes on"):
        written(calls((0, "a", "f", "{}")), piece("Hi"), calls((0, "", "", "{}")))


def test_thousands_of_calls_are_refused() -> None:
    with pytest.raises(ReplicaFailed, match="more than 1024"):
        written(*(calls((number, "", "f", "{}")) for number in range(1025)))


def test_a_whole_choice_is_ordered() -> None:
    choice = ChoicePiece(0, "Hm", "Hi", (), [CallPiece(0, "a", "f", "")], STOP, ())
    assert ordered(choice) == [Reasoning("Hm"), Text("Hi"), CallStart(0, "a", "f"), CallArguments(0, "{}")]


def test_a_call_of_many_braces_is_looked_at_once() -> None:
    """Were each piece decoded with all before it, this would take minutes."""
    order = AnswerOrder()
    order.add(calls((0, "a", "f", '{"x":[{}'), (1, "b", "g", "{}")))
    for _ in range(100_000):
        assert order.add(calls((0, "", "", ",{}"))) == [CallArguments(0, ",{}")]
    deltas = order.add(calls((0, "", "", "]}")))
    assert deltas == [CallArguments(0, "]}"), CallStart(1, "b", "g"), CallArguments(1, "{}")]


@given(
    st.lists(
        st.sampled_from(["{", "}", "[", "]", '"', "\\", "x", ":", ",", "1", " ", "", '"a":', "{}", "é"]), max_size=12
    )
)
def test_arguments_are_whole_where_they_are_an_object(pieces: list[str]) -> None:
    call = _Call(0, "a")
    for piece in pieces:
        call.pieces.append(piece)
        try:
            expected = isinstance(msgspec.json.decode("".join(call.pieces)), dict)
        except msgspec.DecodeError:
            expected = False
        assert call.whole is expected


@given(st.data())
def test_however_calls_are_cut_and_mixed_they_come_out_whole(data: st.DataObject) -> None:
    arguments = data.draw(st.lists(st.sampled_from(["{}", '{"x":1}', '{"a":{"b":"}"}}']), min_size=1, max_size=4))
    queues: list[list[CallPiece]] = []
    for place, text in enumerate(arguments):
        cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=3)))
        bits = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        queues.append(
            [CallPiece(place, f"id{place}", f"f{place}", "")] + [CallPiece(place, "", "", bit) for bit in bits]
        )
    pieces = [piece(calls=[queue.pop(0)]) for queue in queues]
    while left := [queue for queue in queues if queue]:
        pieces.append(piece(calls=[data.draw(st.sampled_from(left)).pop(0)]))
    assert parts(*pieces) == [(f"f{place}", text, f"id{place}") for place, text in enumerate(arguments)]
