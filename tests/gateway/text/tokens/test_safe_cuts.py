import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from gateway.text.tokens import safe_cuts
from gateway.text.tokens.safe_cuts import SafeCuts, alternatives

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s"
)
LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
PATTERNS = {"gpt2": GPT2, "cl100k": CL100K, "llama": LLAMA, "qwen": QWEN, "o200k": O200K}
PIECES = (
    *("a", "B", " ", " c", "\n", " \n", "\r\n", "日", "か", "글", "e\u0301", "'s", "1", "!", "/", "\u3000", "\t", "ß"),
    *("é", "Ж", " ж", "א", " ع", "क", "ก", "ς", "\u0345", "ſ", "'"),
)


def words(pattern: str, text: str) -> list[str]:
    """The words into which an expression cuts a text, and what lies between them."""
    return [word for word, _ in Split(Regex(pattern), "isolated").pre_tokenize_str(text)]


@pytest.mark.parametrize("name", PATTERNS)
@settings(max_examples=400, deadline=None)
@given(
    text=st.lists(st.sampled_from(PIECES) | st.characters(exclude_categories=["Cs"]), max_size=60).map("".join),
    least=st.integers(1, 12),
)
def test_parts_have_the_words_of_the_whole(name: str, text: str, least: int) -> None:
    cuts = SafeCuts.of(PATTERNS[name], ())
    assert cuts is not None
    parts = cuts.cut(text, least)
    assert "".join(parts) == text
    assert all(len(part) >= least for part in parts[:-1])
    assert [word for part in parts for word in words(PATTERNS[name], part)] == words(PATTERNS[name], text)


def test_texts_are_cut_where_words_end() -> None:
    cuts = SafeCuts.of(LLAMA, ())
    assert cuts is not None
    assert cuts.cut("one two three, 4 five", 4) == ["one two", " three, 4 five"]
    assert cuts.cut("日本\n語", 1) == ["日本", "\n語"]
    assert cuts.cut("no-place-here", 1) == ["no-place-here"]
    assert cuts.cut("", 1) == [""]


def test_every_known_alternative_ends_before_a_cut() -> None:
    """None matches across a place where texts are cut, at whatever text it may begin."""
    before, behind = ("x", "Zx", " x", "'s", "é", "Ж", "日", "か", "글"), (" y", " Ж", " 日", "\n", "\ny", "\n\n")
    for alternative in safe_cuts._KNOWN:
        pattern = rf"{alternative}|(?m:.)"
        for start in before:
            for rest in behind:
                whole = words(pattern, start + rest)
                assert whole == words(pattern, start) + words(pattern, rest), (alternative, start, rest)


@pytest.mark.parametrize("pattern", [r"\S+|\s+", r"\p{L}+ \p{L}+|" + GPT2, r"(?<=a) ?\p{L}+|\s+", r"\b\p{L}+"])
def test_unknown_expressions_have_no_safe_places(pattern: str) -> None:
    assert SafeCuts.of(pattern, ()) is None


def test_words_that_have_such_a_place_within_them_forbid_all() -> None:
    assert SafeCuts.of(LLAMA, ("<think>", " a", "b\t c")) is not None
    assert SafeCuts.of(LLAMA, ("<think>", "tool response")) is None
    assert SafeCuts.of(LLAMA, ("日\n",)) is None


def test_alternatives() -> None:
    assert list(alternatives(r"(a|b)|[|]|\||c")) == ["(a|b)", "[|]", r"\|", "c"]
    assert list(alternatives("")) == [""]
