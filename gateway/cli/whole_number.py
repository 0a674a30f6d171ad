"""Whole numbers as command-line arguments."""

import argparse
from collections.abc import Callable


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return an argument type of argparse that takes the numbers from `least` to `most`."""

    def read(text: str) -> int:
        if text.isdecimal() and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"expected a number from {least} to {most}, got {text!r}")

    return read
