"""`best_of`: of a prompt's answers those that the model itself finds most likely, for each token."""

import math
from collections.abc import Sequence
from typing import Any

from gateway.text.sequence_text import TokenEntry


def best_choices(
    choices: Sequence[dict[str, Any]], entries: Sequence[Sequence[TokenEntry]], made: int, keep: int
) -> list[dict[str, Any]]:
    """Of each `made` choices, which are those of one prompt, the best ones, numbered anew, the best first."""
    kept = []
    for start in range(0, len(choices), made):
        ranked = sorted(range(start, start + made), key=lambda index: -_mean(entries[index]))
        kept += [choices[index] for index in ranked[:keep]]
    return [choice | {"index": index} for index, choice in enumerate(kept)]


def _mean(entries: Sequence[TokenEntry]) -> float:
    """An answer without tokens that may be looked at is the worst."""
    return sum(entry.chosen for _, entry, _ in entries) / len(entries) if entries else -math.inf
