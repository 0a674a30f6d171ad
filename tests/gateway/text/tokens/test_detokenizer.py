from collections.abc import Iterator, Mapping, Sequence

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.tokens.detokenizer import Detokenizer, TokenTable, whole_text, written_text
from gateway.text.tokens.loader import load_tokenizer
from gateway.text.tokens.tokenizer import Tokenizer


class ByteTokenizer:
    """A token per byte, a few longer ones, and a control token; `strips_leading_space` as SentencePiece's."""

    bos_id = None
    vocab_size = 261
    eos_ids = frozenset({256})
    specials: Mapping[str, int] = {"</s>": 256}
    _more: Mapping[int, bytes] = {257: b" ", 258: "é".encode(), 259: b" \xe2\x82", 260: b'"\n'}

    def __init__(self, strips_leading_space: bool = False) -> None:
        self.strips_leading_space = strips_leading_space
        self.asked: list[int] = []

    def encode(self, text: str, *, special: bool) -> list[int]:
        return list(text.encode())

    def encode_parts(self, parts: Sequence[str]) -> list[int]:
        raise NotImplementedError

    def token_bytes(self, token_id: int) -> bytes:
        self.asked.append(token_id)
        return bytes((token_id,)) if 0 <= token_id < 256 else self._more.get(token_id, b"")


@pytest.fixture(scope="module")
def tekken() -> Tokenizer:
    return load_tokenizer("mistral-tekken").tokenizer


def grouped(ids: list[int], sizes: Iterator[int]) -> Iterator[list[int]]:
    while ids:
        size = next(sizes)
        yield ids[:size]
        ids = ids[size:]


def stream(table: TokenTable, groups: Iterator[list[int]]) -> bytes:
    """The JSON string's inside as a caller writes it: by the table where that is allowed."""
    detokenizer = Detokenizer(table)
    written = b""
    for group in groups:
        escaped = table.escaped[group[0]] if len(group) == 1 else None
        if escaped is not None and not detokenizer.pending:
            written += escaped
        else:
            written += orjson.dumps(detokenizer.feed(group))[1:-1]
    return written + orjson.dumps(detokenizer.flush())[1:-1]


token_groups = st.lists(st.lists(st.integers(0, 262), min_size=1, max_size=4), max_size=12)


@pytest.mark.parametrize("strips", [False, True])
@settings(deadline=None)
@given(groups=token_groups)
def test_any_bytes_in_any_groups_decode_as_one(strips: bool, groups: list[list[int]]) -> None:
    tokenizer = ByteTokenizer(strips)
    raw = b"".join(tokenizer.token_bytes(token) for group in groups for token in group)
    expected = (raw.removeprefix(b" ") if strips else raw).decode(errors="replace")
    assert orjson.loads(b'"' + stream(TokenTable(tokenizer), iter(groups)) + b'"') == expected


@settings(deadline=None)
@given(text=st.text(), data=st.data())
def test_text_survives_any_grouping(tekken: Tokenizer, text: str, data: st.DataObject) -> None:
    ids = tekken.encode(text, special=False)
    sizes = iter(lambda: data.draw(st.integers(1, 5)), 0)
    assert orjson.loads(b'"' + stream(TokenTable(tekken), grouped(ids, sizes)) + b'"') == text


@given(st.booleans(), st.lists(st.lists(st.integers(0, 260), max_size=4), max_size=12))
def test_the_whole_text_is_what_came_in_pieces(strips: bool, groups: list[list[int]]) -> None:
    table = TokenTable(ByteTokenizer(strips))
    detokenizer = Detokenizer(table)
    pieces = "".join([detokenizer.feed(group) for group in groups]) + detokenizer.flush()
    tokens = [token for group in groups for token in group]
    assert whole_text(table, tokens) == written_text(table, tokens) == pieces


@given(st.booleans(), st.text())
def test_a_written_text_is_what_its_tokens_say(strips: bool, text: str) -> None:
    table = TokenTable(ByteTokenizer(strips))
    assert written_text(table, list(text.encode())) == (text.removeprefix(" ") if strips else text)


def test_incomplete_characters_are_held() -> None:
    detokenizer = Detokenizer(TokenTable(ByteTokenizer()))
    texts = []
    for byte in "a🎉b".encode():
        texts.append(detokenizer.feed([byte]))
        assert detokenizer.pending == (byte >= 0x80 and not texts[-1])
    assert texts == ["a", "", "", "", "🎉", "b"]


def test_a_broken_character_is_replaced_when_it_is_known_to_be() -> None:
    detokenizer = Detokenizer(TokenTable(ByteTokenizer()))
    assert detokenizer.feed([0xE2, 0x82]) == ""
    assert detokenizer.feed([ord("x")]) == "\ufffdx"
    assert detokenizer.feed([0xE2]) == ""
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""
    assert not detokenizer.pending


def test_one_space_is_dropped_at_the_start_only() -> None:
    detokenizer = Detokenizer(TokenTable(ByteTokenizer(strips_leading_space=True)))
    # A control token, a space, a space and a letter: each with whether the next token's text depends on it.
    seen = [(detokenizer.feed([token]), detokenizer.pending) for token in (256, 257, 257, 258)]
    assert seen == [("", True), ("", False), (" ", False), ("é", False)]


def test_the_table_asks_once_for_each_token_of_the_vocabulary() -> None:
    tokenizer = ByteTokenizer()
    escaped = TokenTable(tokenizer).escaped
    assert [escaped[token] for token in (65, 260, 258, 259, 0x80, 256, 1)] == [
        b"A",
        b'\\"\\n',
        "é".encode(),
        None,
        None,
        b"",
        b"\\u0001",
    ]
    asked = len(tokenizer.asked)
    assert escaped[65] == b"A"
    assert escaped[259] is None
    assert len(tokenizer.asked) == asked
    for token in (-1, 261, 2**40):
        assert escaped[token] == b""
    assert len(escaped) == 7
