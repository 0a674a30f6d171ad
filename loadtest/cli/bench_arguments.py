"""Argument types shared by benchmarks, checked before anything runs, with one-line errors."""

import argparse
from math import isfinite
from pathlib import Path


def count(text: str) -> int:
    """Parse an integer of at least 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, at least 1")
    return int(text)


def number(text: str) -> float:
    """Parse a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return value


def ascending(text: str) -> tuple[float, ...]:
    """Parse N,N,...: positive numbers in ascending order."""
    values = tuple(number(part) for part in text.split(","))
    if values[0] <= 0 or sorted(set(values)) != list(values):
        raise argparse.ArgumentTypeError(f"{text!r}: expected positive numbers that ascend")
    return values


def ascending_counts(text: str) -> tuple[int, ...]:
    """Parse N,N,...: positive integers in ascending order."""
    ascending(text)
    return tuple(count(part) for part in text.split(","))


def names(text: str) -> tuple[str, ...]:
    """Parse NAME,NAME,...: each name once, in its first place."""
    return tuple(dict.fromkeys(text.split(",")))


def output_file(text: str) -> Path:
    """Parse an output path; its folder must exist, so that no long run ends without a result."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {path.parent}")
    return path
