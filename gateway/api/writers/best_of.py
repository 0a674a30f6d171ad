"""`best_of`: keep a prompt's answers with the highest mean log probability per token."""

import math
from collections.abc import Sequence
from typing import Any

from gateway.text.sequence_text import TokenEntry


def best_choices(
    choices: Sequence[dict[str, Any]], entries: Sequence[Sequence[TokenEntry]], made: int, keep: int
) -> list[dict[str, Any]]:
    """Keep the best of each `made` choices, which belong to one prompt; number them anew, the best first."""
    best = []
    for start in range(0, len(choices), made):
        ranked = sorted(range(start, start + made), key=lambda index: -_mean(entries[index]))
        best += [choices[index] for index in ranked[:keep]]
    return [choice | {"index": index} for index, choice in enumerate(best)]


def _mean(entries: Sequence[TokenEntry]) -> float:
    """Average the log probabilities; an answer without visible tokens ranks last."""
    return sum(entry.chosen for _, entry, _ in entries) / len(entries) if entries else -math.inf
