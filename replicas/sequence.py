"""One sequence of a request at an engine: what it asks for, and how far the engine model has come with it."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from replicas.kv_cache import BlockTable


class Phase(enum.Enum):
    """The phases of a sequence."""

    WAITING = enum.auto()
    TRANSFER = enum.auto()
    PREFILL = enum.auto()
    DECODE = enum.auto()
    ENDED = enum.auto()


@dataclass(slots=True, eq=False)
class Sequence:
    """One sequence of a request: the caller's parameters, then the model's own state.

    `steps` counts sampling steps to the end, including the one that samples an end-of-sequence token; `limit` is its
    most tokens, which GUARANTEED_NO_EVICT reserves. Instead of `ids` a caller may give the hashes of the prompt's full
    blocks as `chain`; without either there is no prefix reuse.
    """

    prompt: int
    steps: int
    limit: int
    ids: list[int] = field(default_factory=list)
    salt: str = ""
    transferred: bool = False  # its prompt's KV and first token come from a prefill replica
    chain: Iterable[int] = ()

    phase: Phase = field(default=Phase.WAITING, init=False)
    produced: int = field(default=0, init=False)  # tokens sampled so far; while decoding, use `produced_at`
    cached: int | None = field(default=None, init=False)  # prompt tokens found in the cache when first admitted
    arrived: float = field(default=0.0, init=False)
    admitted: float | None = field(default=None, init=False)
    first_token: float | None = field(default=None, init=False)
    ended: float = field(default=0.0, init=False)
    base: int = field(default=0, init=False)  # while decoding: the decode clock at which `produced` was 0

    hashes: list[int] = field(default_factory=list, init=False)
    table: BlockTable = field(default_factory=BlockTable, init=False)
    reserved: int = field(default=0, init=False)
    computed: int = field(default=0, init=False)  # tokens whose KV is there, while in prefill
    target: int = field(default=0, init=False)  # tokens to compute before the next one can be sampled
    due: int = field(default=0, init=False)  # leading tokens of these that the backlog does not count
    wanted: int = field(default=0, init=False)  # blocks that it needs, while it waits
    grow_at: int = field(default=0, init=False)
    end_at: int = field(default=0, init=False)
    ready_at: float = field(default=0.0, init=False)

    def produced_at(self, clock: int) -> int:
        """Return the tokens sampled by the given decode clock."""
        return clock - self.base if self.phase is Phase.DECODE else self.produced

    def content(self, count: int) -> list[int]:
        """Return its first `count` tokens, for the prefix cache; none when the caller does not know tokens."""
        return []

    def further_blocks(self, count: int) -> list[int]:
        """Return hashes of the next `count` blocks after `chain`, for the prefix cache; none to leave them out."""
        return []


S = TypeVar("S", bound=Sequence)


@dataclass(slots=True)
class Carried(Generic[S]):
    """A sequence on its way from one model to another; `kept` leading tokens of it have their KV with it.

    `siblings` are the request's other sequences, which wait for its prompt.
    """

    sequence: S
    kept: int
    siblings: list[S]
