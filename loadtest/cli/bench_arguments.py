"""Arguments that several benchmarks take, checked before anything runs; what is wrong is said in a line."""

import argparse
from math import isfinite
from pathlib import Path


def count(text: str) -> int:
    """A whole number, at least 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, at least 1")
    return int(text)


def number(text: str) -> float:
    """Any number but infinity."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return value


def ascending(text: str) -> tuple[float, ...]:
    """N,N,...: above 0, each larger than the one before."""
    values = tuple(number(part) for part in text.split(","))
    if values[0] <= 0 or sorted(set(values)) != list(values):
        raise argparse.ArgumentTypeError(f"{text!r}: expected positive numbers that ascend")
    return values


def ascending_counts(text: str) -> tuple[int, ...]:
    """The same in whole numbers."""
    ascending(text)
    return tuple(count(part) for part in text.split(","))


def output_file(text: str) -> Path:
    """A file to write to: its folder is there, so that no long run ends with nothing to show."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no folder {path.parent}")
    return path
