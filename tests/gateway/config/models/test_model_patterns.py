import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.models.model_patterns import covers, matches


@pytest.mark.parametrize(
    ("patterns", "name", "matched"),
    [
        (("*",), "anything/at-all", True),
        (("m",), "m", True),
        (("m",), "M", False),
        (("m",), "m2", False),
        (("mixtral-*",), "mixtral-8x7b", True),
        (("a", "org/*"), "org/model", True),
        (("m?",), "m1", True),
        (("m?",), "m12", False),
        ((), "m", False),
    ],
)
def test_what_patterns_match(patterns: tuple[str, ...], name: str, matched: bool) -> None:
    assert matches(patterns, name) is matched


@pytest.mark.parametrize(
    ("wide", "narrow", "covered"),
    [
        ("*", "mixtral", True),
        ("*", "*", True),
        ("*", "?", True),
        ("?", "*", False),
        ("mixtral*", "mixtral-8x7b", True),
        ("mixtral*", "mixtral*8x7b", True),
        ("mixtral-*", "mixtral*", False),
        ("*-8x7b", "mixtral-*", False),
        ("m?", "mx", True),
        ("mx", "m?", False),
        ("a*c*e", "abcde", True),
        ("a*c*e", "a*c?e", True),
        ("?*", "*?", True),
        ("*?", "?*", True),
        ("**", "*", True),
        ("*a*b*", "*b*a*", False),
        ("org/*", "org/model", True),
        ("a", "a", True),
        ("a", "b", False),
    ],
)
def test_which_pattern_covers_which(wide: str, narrow: str, covered: bool) -> None:
    assert covers(wide, narrow) is covered


NAMES = ["".join(letters) for length in range(8) for letters in itertools.product("abc", repeat=length)]
patterns = st.text(alphabet="ab*?", min_size=1, max_size=5)


@given(wide=patterns, narrow=patterns)
def test_covering_is_matching_all_that_the_other_matches(wide: str, narrow: str) -> None:
    # Among the names are those with a letter that is in no pattern, up to a length at which patterns this short differ.
    names = [name for name in NAMES if matches([narrow], name)]
    assert covers(wide, narrow) == all(matches([wide], name) for name in names)


def test_long_patterns_take_no_time() -> None:
    assert not covers("*a" * 64, "a" * 63 + "b" * 65)
    assert covers("*a" * 64, "a" * 128)
