"""The result of a reproduction: numbers, claims with their verdicts, and a plot."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

#: Progress callback: label, amount done, total.
Show = Callable[[str, float, int], None] | None

HOLDS: Final = "HOLDS"
FAILS: Final = "DOES NOT HOLD"


class Claim(msgspec.Struct, frozen=True):
    """A statement, whether it holds here, and the numbers behind that. `ours`: the paper does not make it."""

    statement: str
    holds: bool
    found: str
    ours: bool = False

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return HOLDS if self.holds else FAILS

    @property
    def source(self) -> str:
        """Who makes the statement."""
        return "ours" if self.ours else "paper"


@dataclass(frozen=True)
class Reproduction:
    """One figure. `points` are the numbers for JSON; `head` and `rows` are a table of the most important ones."""

    title: str
    setting: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    claims: Sequence[Claim]
    points: object
    draw: Callable[[Path], None]

    def markdown(self, image: str) -> str:
        """Return the section of docs/reproductions.md, with the plot at `image`, relative to that page."""
        verdicts = [
            [f"**{claim.verdict}**", f"{claim.source}: {claim.statement}", claim.found] for claim in self.claims
        ]
        parts = [
            f"## {self.title}\n",
            f"{self.setting}\n",
            f"![{self.title}]({image})\n",
            *_markdown_table(self.head, self.rows),
            "",
            *_markdown_table(["verdict", "claim", "here"], verdicts),
        ]
        return "\n".join(parts) + "\n"

    def verdicts(self) -> Iterator[str]:
        """Yield the claims, one per line."""
        for claim in self.claims:
            yield f"{claim.verdict:<{len(FAILS)}}  {claim.source}: {claim.statement} Here: {claim.found}"


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows]]
