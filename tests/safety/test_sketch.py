import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safety.sketch import DIGEST_BYTES, FEWEST, SIDE, VALUES, Sketcher

SKETCHER = Sketcher(b"a key")
WORDS = [f"{first}{middle}{last}" for first in "bdfgklmn" for middle in ("a", "ell", "ori", "u") for last in "nrstz"]
GREETING = "Hello, please help me with the following. "
CHINESE = "".join(map(chr, random.Random(1).choices(range(0x4E00, 0x6000), k=600)))
THAI = "".join(map(chr, random.Random(1).choices(range(0x0E01, 0x0E2F), k=600)))


def shared(one: str, other: str) -> float:
    """The part of the values of one text that another has too."""
    values = SKETCHER.sketch([one])
    assert values
    return len(set(values) & set(SKETCHER.sketch([other]))) / len(values)


def words(count: int, seed: int) -> list[str]:
    chosen = random.Random(seed)
    return [chosen.choice(WORDS) for _ in range(count)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Hello, World!", "hello, world!"),
        ("Hello, World!", "  hello,\n\tworld!\r\n"),
        ("Grüße aus Köln", "GRÜßE\u00a0aus\u3000KÖLN"),
        ("日本 語", "日本語"),
    ],
)
def test_case_and_white_space_make_no_difference_to_a_fingerprint(one: str, other: str) -> None:
    assert SKETCHER.fingerprint([one]) == SKETCHER.fingerprint([other])


def test_anything_else_does() -> None:
    texts = ["Hello, World!", "Hello World!", "Hello, World", "Hello, World! 1", "Hello, World! 2", "hello, wörld!", ""]
    assert len({SKETCHER.fingerprint([text]) for text in texts}) == len(texts)


def test_another_key_has_nothing_in_common_with_it() -> None:
    text, other = " ".join(words(200, 1)), Sketcher(b"another key")
    assert SKETCHER.fingerprint([text]) != other.fingerprint([text])
    assert not set(SKETCHER.sketch([text])) & set(other.sketch([text]))
    assert Sketcher(b"a key").sketch([text]) == SKETCHER.sketch([text])


@pytest.mark.parametrize("seed", range(20))
def test_texts_that_differ_a_little_share_most(seed: int) -> None:
    base, chosen = words(200, seed), random.Random(seed)
    changed = [word if chosen.random() > 0.06 else f"other{place}" for place, word in enumerate(base)]
    assert shared(" ".join(base), " ".join(changed)) >= 0.5
    assert shared(" ".join(base), " ".join(base) + ". And this is what was added to its end.") >= 0.7
    assert shared(" ".join(base), "What was put before it. " + " ".join(base)) >= 0.7
    assert shared(" ".join(base), " ".join(base).upper().replace(" ", ",  ")) == 1.0


@pytest.mark.parametrize("seed", range(20))
def test_other_numbers_make_no_difference(seed: int) -> None:
    text = "Write a description of article {} for our catalogue, with the price {} and the weight of {} kilograms."
    chosen = random.Random(seed)
    assert shared(text.format(1, 2, 3), text.format(*(chosen.randrange(10**6) for _ in range(3)))) == 1.0


@pytest.mark.parametrize("seed", range(20))
def test_texts_that_share_a_greeting_are_not_alike(seed: int) -> None:
    one, other = (GREETING + " ".join(words(120, 1000 * seed + number)) for number in range(2))
    assert shared(one, other) < 0.5


@pytest.mark.parametrize("text", [CHINESE, THAI, "".join(words(300, 5)).encode().hex()], ids=["zh", "th", "data"])
def test_scripts_without_spaces(text: str) -> None:
    middle = len(text) // 2
    assert len(SKETCHER.sketch([text])) == VALUES
    assert shared(text, text[:middle] + text[10] + text[middle + 1 :]) >= 0.7
    assert shared(text, text[:5] + text[3] + text[5:] + text[:9]) >= 0.7
    assert shared(text, text[::-1]) < 0.5


@pytest.mark.parametrize("text", ["", " ", "Hi", "Hello there!", "12 + 34 =", "\n\t\u3000", "好"])
def test_of_too_little_there_is_no_sketch(text: str) -> None:
    assert SKETCHER.sketch([text]) == []


def test_messages_are_one_prompt() -> None:
    first, second = " ".join(words(60, 1)), " ".join(words(60, 2))
    assert SKETCHER.fingerprint([first, second]) != SKETCHER.fingerprint([second, first])
    assert len(set(SKETCHER.sketch([first, second])) & set(SKETCHER.sketch([second, first]))) >= VALUES // 2


def test_of_a_long_text_both_ends_count() -> None:
    base = " ".join(words(100_000, 3))
    assert len(base) > 4 * SIDE
    middle = len(base) // 2
    assert shared(base, base[:middle] + "something else " * 1000 + base[middle:]) == 1.0
    for other in ("x" + base[SIDE + 500 :], base[: -SIDE - 500] + "x"):
        assert 0 < shared(base, other) < 1


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=200), max_size=5))
def test_any_text_has_both(texts: list[str]) -> None:
    assert len(SKETCHER.fingerprint(texts)) == DIGEST_BYTES
    values = SKETCHER.sketch(texts)
    assert values == sorted(set(values))
    assert not values or FEWEST <= len(values) <= VALUES
    assert all(len(value) == DIGEST_BYTES for value in values)


@pytest.mark.parametrize("text", ["a", "a ", "\0", "\ud800", "好", "é ", " ", "ab1 ", "."])
def test_what_a_long_text_takes_is_bounded(text: str) -> None:
    long = text * (1_000_000 // len(text))
    tracemalloc.start()
    try:
        assert SKETCHER.sketch([long]) == SKETCHER.sketch([long + text])
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
