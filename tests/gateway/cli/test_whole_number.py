import argparse

import pytest

from gateway.cli.whole_number import whole_number


@pytest.mark.parametrize("text", ["1", "20"])
def test_a_number_within_the_bounds_is_taken(text: str) -> None:
    assert whole_number(1, 20)(text) == int(text)


@pytest.mark.parametrize("text", ["0", "21", "-1", "1.5", "", "one", "²"])
def test_all_else_is_refused_with_the_bounds(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a number from 1 to 20, got"):
        whole_number(1, 20)(text)
