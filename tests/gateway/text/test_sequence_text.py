from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.sequence_text import SequenceText, TokenEntry
from gateway.text.tokens.detokenizer import TokenTable
from protos.types import Finish, FinishReason, TokenLogprobs
from safety.action import Action
from safety.pii.pii_filter import PiiFilter
from safety.screen import Rule
from safety.screening import Screening
from safety.terms import TermFilter

DONE = Finish(FinishReason.LENGTH)
#: Tokens that cut characters and words in many ways; 8 is a control token without text.
VOCABULARY = [b"a", b"b", b"ab", b"ba", "é".encode(), "€".encode()[:1], "€".encode()[1:], b"\xff", b"", b" a"]


class SmallTokenizer:
    eos_ids = frozenset({8})
    bos_id = None
    specials: Mapping[str, int] = {"</s>": 8}

    def __init__(self, strips_leading_space: bool = False, vocabulary: Sequence[bytes] = VOCABULARY) -> None:
        self.strips_leading_space = strips_leading_space
        self._vocabulary = vocabulary
        self.vocab_size = len(vocabulary)

    def encode(self, text: str, *, special: bool) -> list[int]:
        raise NotImplementedError

    def encode_parts(self, parts: Sequence[str]) -> list[int]:
        raise NotImplementedError

    def token_bytes(self, token_id: int) -> bytes:
        return self._vocabulary[token_id] if 0 <= token_id < self.vocab_size else b""


TABLES = {strips: TokenTable(SmallTokenizer(strips)) for strips in (False, True)}
STOPS = st.lists(st.text("ab€é\ufffd ", min_size=1, max_size=3), max_size=3).map(tuple)
TOKENS = st.lists(st.integers(0, len(VOCABULARY) - 1), max_size=25)


def whole_text(ids: list[int], strips: bool) -> str:
    data = b"".join(VOCABULARY[i] for i in ids)
    return (data.removeprefix(b" ") if strips else data).decode("utf-8", "replace")


def cut_at_stop(text: str, stops: tuple[str, ...]) -> tuple[str, bool]:
    """Up to the stop string that is complete first; of those that end together, the longest."""
    ends = [(text.find(stop) + len(stop), -len(stop)) for stop in stops if stop in text]
    if not ends:
        return text, False
    end, length = min(ends)
    return text[: end + length], True


def feed(
    ids: list[int], stops: tuple[str, ...], sizes: list[int], strips: bool, logprobs: bool
) -> tuple[SequenceText, str, list[TokenEntry], list[tuple[str, int]]]:
    """The sequence after its end, its text, its entries, and what had been shown after each piece."""
    sequence, text = SequenceText(TABLES[strips], stops), ""
    entries: list[TokenEntry] = []
    shown: list[tuple[str, int]] = []
    at, piece = 0, 0
    while at < len(ids):
        size = sizes[piece % len(sizes)] if sizes else 1
        run = ids[at : at + size]
        marks = [TokenLogprobs(-float(at + i)) for i in range(len(run))] if logprobs else None
        more, released = sequence.feed(run, marks)
        text, entries, at, piece = text + more, entries + released, at + size, piece + 1
        shown.append((text, len(entries)))
    more, released = sequence.finish(DONE)
    return sequence, text + more, entries + released, shown


@given(ids=TOKENS, stops=STOPS, sizes=st.lists(st.integers(1, 5), max_size=4), strips=st.booleans())
def test_the_text_is_the_whole_text_up_to_the_first_stop(
    ids: list[int], stops: tuple[str, ...], sizes: list[int], strips: bool
) -> None:
    for logprobs in (False, True):
        sequence, text, _, _ = feed(ids, stops, sizes, strips, logprobs)
        expected, stopped = cut_at_stop(whole_text(ids, strips), stops)
        assert text == expected
        assert sequence.finish_reason is (FinishReason.STOP if stopped else FinishReason.LENGTH)
        if not stopped:
            assert sequence.completion_tokens == len(ids)
        assert sequence.feed([0], None) == ("", [])
        assert sequence.finish(DONE) == ("", [])


@given(ids=TOKENS, stops=STOPS, sizes=st.lists(st.integers(1, 5), max_size=4), strips=st.booleans())
def test_entries_are_those_of_the_text_that_is_shown(
    ids: list[int], stops: tuple[str, ...], sizes: list[int], strips: bool
) -> None:
    _, text, entries, shown = feed(ids, stops, sizes, strips, logprobs=True)
    assert [(token, -entry.chosen) for token, entry, _ in entries] == [(ids[i], float(i)) for i in range(len(entries))]
    if text == whole_text(ids, strips):
        _, stopped = cut_at_stop(whole_text(ids, strips), stops)
        if not stopped:
            assert len(entries) == len(ids)
    for so_far, count in [*shown, (text, len(entries))]:
        # Every byte of a token whose entry is out is in text that is out too.
        assert len(whole_text(ids[:count], strips).rstrip("\ufffd")) <= len(so_far)
        assert so_far.startswith(whole_text(ids[:count], strips).rstrip("\ufffd"))


@given(
    ids=TOKENS, stops=STOPS, sizes=st.lists(st.integers(1, 5), max_size=4), patient=st.booleans(), strips=st.booleans()
)
def test_entries_have_the_place_of_their_text_in_what_is_shown(
    ids: list[int], stops: tuple[str, ...], sizes: list[int], patient: bool, strips: bool
) -> None:
    rules = [
        Rule("list", TermFilter("a_long_kind", ["ba"], words=False), Action.REDACT),
        Rule("end", TermFilter("end", ["€b€"], words=False), Action.BLOCK),
    ]
    sequence = SequenceText(TABLES[strips], stops, Screening(rules), patient=patient)
    entries: list[TokenEntry] = []
    text, at, piece = "", 0, 0
    while at < len(ids):
        run = ids[at : at + (sizes[piece % len(sizes)] if sizes else 1)]
        more, released = sequence.feed(run, [TokenLogprobs(-1.0)] * len(run))
        text, entries, at, piece = text + more, entries + released, at + len(run), piece + 1
    more, released = sequence.finish(DONE)
    text, entries = text + more, entries + released
    places = []
    for entry in entries:
        places.append(entry.place)
        said = VOCABULARY[entry[0]].decode("utf-8", "ignore")
        assert text.startswith((said, said.removeprefix(" ")) if strips and not entry.place else said, entry.place)
    assert places == sorted(places)
    assert all(place <= len(text) for place in places)


@pytest.mark.parametrize("patient", [False, True])
def test_a_token_without_text_does_not_end_what_is_replaced(patient: bool) -> None:
    said = [
        b"The key: ",
        b"sk-ant-api03-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7bC9dE1fG3hI5j",
        b"SECRETTAIL99x",
        b"",
        b" x",
    ]
    rules = [Rule("pii", PiiFilter(), Action.REDACT)]
    sequence = SequenceText(TokenTable(SmallTokenizer(vocabulary=said)), (), Screening(rules), patient=patient)
    text = ""
    entries: list[TokenEntry] = []
    for token in (3, 0, 3, 1, 3, 2, 3, 2, 4, 3):
        more, released = sequence.feed([token], [TokenLogprobs(-1.0)])
        text, entries = text + more, entries + released
    more, released = sequence.finish(DONE)
    assert text + more == "The key: [ANTHROPIC_KEY] x"
    assert [token for token, _, _ in entries + released if said[token]] == [0, 4]


def test_a_stop_string_shows_in_no_entry_even_when_a_token_cuts_its_character() -> None:
    sequence = SequenceText(TABLES[False], ("€",))
    shown = []
    for token in (0, 5, 6):
        _, entries = sequence.feed([token], [TokenLogprobs(-1.0)])
        shown += [token for token, _, _ in entries]
    assert sequence.finish_reason is FinishReason.STOP
    assert shown == [0]


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.LENGTH])
def test_the_engines_reason_stands_unless_a_stop_string_came_first(reason: FinishReason) -> None:
    sequence = SequenceText(TABLES[False], ("bb",))
    assert sequence.feed([0, 1], None) == ("a", [])
    assert sequence.finish(Finish(reason)) == ("b", [])
    assert sequence.finish_reason is reason


def test_a_stop_string_that_the_end_completes_counts() -> None:
    sequence = SequenceText(TABLES[False], ("\ufffd",))
    assert sequence.feed([0, 5], None) == ("a", [])
    assert sequence.finish(DONE) == ("", [])
    assert sequence.finish_reason is FinishReason.STOP
