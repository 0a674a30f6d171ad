"""Lengths of the requests of a load: the same for all, or drawn by quantiles."""

import csv
import random
from collections.abc import Sequence
from pathlib import Path

import msgspec

#: Points at which a load's quantiles are looked at for means over requests.
_POINTS = 1000
#: Tokens at which lengths of a file are cut: an engine reserves room for the longest answer that a request asks for.
LONGEST_PROMPT, LONGEST_OUTPUT = 16_384, 1024


class LoadError(ValueError):
    """A load cannot be read; one line names the file and the line."""


class Lengths(msgspec.Struct, frozen=True):
    """Prompt and answer tokens at ascending `quantiles`, independent of each other; one quantile: the same for all."""

    quantiles: Sequence[float]
    prompts: Sequence[int]
    outputs: Sequence[int]

    @property
    def prompt_mean(self) -> float:
        """The mean prompt, in tokens."""
        return sum(self.prompt_sample()) / _POINTS

    @property
    def output_mean(self) -> float:
        """The mean answer, in tokens."""
        return sum(self.output_sample()) / _POINTS

    def prompt_sample(self) -> list[int]:
        """Return prompts at even quantiles."""
        return [self._at((at + 0.5) / _POINTS, self.prompts) for at in range(_POINTS)]

    def output_sample(self) -> list[int]:
        """Return answers at even quantiles."""
        return [self._at((at + 0.5) / _POINTS, self.outputs) for at in range(_POINTS)]

    def draw(self, rng: random.Random) -> tuple[int, int]:
        """Draw a prompt's and an answer's length."""
        return self._at(rng.random(), self.prompts), self._at(rng.random(), self.outputs)

    def _at(self, quantile: float, values: Sequence[int]) -> int:
        known = self.quantiles
        if len(known) == 1:
            return max(1, values[0])
        above = next((place for place, level in enumerate(known) if level >= quantile), len(known) - 1)
        below = max(0, above - 1)
        span = known[above] - known[below]
        part = (quantile - known[below]) / span if span else 0.0
        return max(1, round(values[below] + part * (values[above] - values[below])))


def equal_lengths(prompt: int, output: int) -> Lengths:
    """Return lengths that are the same for all requests."""
    return Lengths((0.5,), (prompt,), (output,))


def read_lengths(path: Path) -> Lengths:
    """Read a CSV of quantile, input_tokens and output_tokens, cut at LONGEST_PROMPT and LONGEST_OUTPUT.

    Raises:
        LoadError: The file cannot be read, or a line is not of this form.
    """
    rows: list[tuple[float, int, int]] = []
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            for number, row in enumerate(csv.DictReader(lines), 2):
                try:
                    found = float(row["quantile"]), int(row["input_tokens"]), int(row["output_tokens"])
                except (KeyError, TypeError, ValueError) as error:
                    raise LoadError(f"{path}:{number}: expected quantile,input_tokens,output_tokens") from error
                if not 0 <= found[0] <= 1 or min(found[1:]) < 0 or (rows and found[0] <= rows[-1][0]):
                    raise LoadError(f"{path}:{number}: quantiles ascend from 0 to 1, tokens are not negative")
                rows.append(found)
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{path}: cannot be read: {error}") from error
    if not rows:
        raise LoadError(f"{path}: has no quantiles")
    return Lengths(
        tuple(row[0] for row in rows),
        tuple(min(row[1], LONGEST_PROMPT) for row in rows),
        tuple(min(row[2], LONGEST_OUTPUT) for row in rows),
    )
