import json

import pytest

from routing.estimates.text_tokens import text_tokens


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("Hello, world!", 4, 4),
        ("The quick brown fox jumps over the lazy dog.", 10, 10),
        ("internationalization", 2, 4),
        ("1234567", 2, 3),
        ("你好世界", 4, 4),
        ("Привет", 2, 3),
        ("def f(x):\n    return x\n", 6, 10),
    ],
)
def test_a_text_has_about_so_many_tokens(text: str, least: int, most: int) -> None:
    assert least <= text_tokens(text.encode()) <= most


@pytest.mark.parametrize("text", ["你好世界" * 20, "Привет всем вам" * 20])
def test_escapes_count_as_what_they_stand_for(text: str) -> None:
    written, escaped = (text_tokens(json.dumps(text, ensure_ascii=plain).encode()) for plain in (False, True))
    assert abs(written - escaped) <= 0.2 * written


def test_a_long_text_is_estimated_from_parts_of_it() -> None:
    text = b"The quick brown fox jumps over the lazy dog. " * 5000
    assert text_tokens(text) == pytest.approx(50_000, rel=0.02)
