import re
from collections.abc import Sequence

from safety.match import Match
from safety.sets.speed import CHARACTERS, alone, together


class Words:
    """Finds words `bad` and holds back what could become one; notes what it was given."""

    signs = None
    window = 2

    def __init__(self) -> None:
        self.wholes: list[str] = []
        self.pieces: set[int] = set()

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        self.wholes.append(text)
        return [Match(found.start(), found.end(), "word") for found in re.finditer("bad", text)]

    def stream(self) -> "WordStream":
        return WordStream(self)


class WordStream:
    def __init__(self, filter_: Words) -> None:
        self.filter = filter_
        self.text = ""
        self.open = 0

    def feed(self, text: str) -> Sequence[Match]:
        self.filter.pieces.add(len(text))
        self.text += text
        held = 2 if self.text.endswith("ba") else 1 if self.text.endswith("b") else 0
        return self.upto(len(self.text) - held)

    def finish(self) -> Sequence[Match]:
        return self.upto(len(self.text))

    def upto(self, end: int) -> Sequence[Match]:
        found = [
            Match(one.start(), one.end(), "word") for one in re.finditer("bad", self.text) if self.open <= one.start()
        ]
        self.open = end
        return found


def test_whole_texts_are_joined_and_streams_get_pieces_of_a_tokens_length() -> None:
    filter_ = Words()
    speed = alone(filter_, ["the bad b"] * 150)
    assert speed.held_back == 2
    assert speed.whole >= 0
    assert speed.token >= 0
    lengths = {len(text) for text in filter_.wholes}
    assert len(lengths) == 2
    assert max(lengths) in range(CHARACTERS - 2, CHARACTERS + 20)
    assert filter_.pieces >= {4, 5}


def test_filters_together_hold_back_as_much_as_the_one_that_holds_back_most() -> None:
    assert together([Words(), Words()], ["bad ba bad"] * 20).held_back == 2


def test_no_text_takes_no_time() -> None:
    assert alone(Words(), [])[2] == 0
    assert together([Words()], [""])[2] == 0
