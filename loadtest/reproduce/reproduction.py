"""What every reproduction of a figure is: numbers, claims that they bear out or not, and a picture."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

#: What is done, how much of it, out of how much.
Show = Callable[[str, float, int], None] | None

HOLDS: Final = "HOLDS"
FAILS: Final = "DOES NOT HOLD"


class Claim(msgspec.Struct, frozen=True):
    """A statement, whether it is true here, and the numbers that say so. `ours`: the paper does not make it."""

    statement: str
    holds: bool
    found: str
    ours: bool = False

    @property
    def verdict(self) -> str:
        """In words."""
        return HOLDS if self.holds else FAILS

    @property
    def source(self) -> str:
        """Whose statement it is."""
        return "ours" if self.ours else "paper"


@dataclass(frozen=True)
class Reproduction:
    """One figure. `points` are the numbers as JSON has them; `head` and `rows` show the most telling ones."""

    title: str
    setting: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    claims: Sequence[Claim]
    points: object
    draw: Callable[[Path], None]

    def markdown(self, image: str) -> str:
        """A section of docs/reproductions.md, with the picture at `image`, relative to that page."""
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
        """The claims, one a line."""
        for claim in self.claims:
            yield f"{claim.verdict:<{len(FAILS)}}  {claim.source}: {claim.statement} Here: {claim.found}"


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows]]
