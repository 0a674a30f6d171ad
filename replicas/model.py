"""The replica as a pure step function: continuous batching with chunked prefill over a paged KV cache.

`begin(now)` admits what fits and returns the step's duration, `end(now)` returns what it produced; no clock, no
randomness, no I/O, so that the simulated engine and the fleet simulator run the same code. Every decoding sequence
gains one token a step. That is counted, not carried out: a sequence is touched only when it starts, needs a block or
ends, hence the cost of a step does not grow with the number of running sequences. For the same reason `forward` can do
many steps at once while only decoding goes on.
"""

import enum
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from protos.types import Load, Work
from replicas.engine_limits import CapacityPolicy, Limits
from replicas.kv_cache import BlockTable, KvCache, extend_chain
from replicas.schedule import Schedule
from replicas.timing import Batch, StepTimer


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

    _chain: list[int] = field(default_factory=list, init=False)
    _table: BlockTable = field(default_factory=BlockTable, init=False)
    _reserved: int = field(default=0, init=False)
    _computed: int = field(default=0, init=False)  # tokens whose KV is there, while in prefill
    _target: int = field(default=0, init=False)  # tokens to compute before the next one can be sampled
    _due: int = field(default=0, init=False)  # leading tokens of these that the backlog does not count
    _wanted: int = field(default=0, init=False)  # blocks that it needs, while it waits
    _grow_at: int = field(default=0, init=False)
    _end_at: int = field(default=0, init=False)
    _ready: float = field(default=0.0, init=False)

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


class ReplicaModel(Generic[S]):
    """All sequences of one replica. Call `begin`, let its seconds pass, call `end`; submit and cancel at any time."""

    def __init__(self, limits: Limits, timer: StepTimer) -> None:
        self.limits = limits
        self.cache = KvCache(limits.kv_blocks, limits.tokens_per_block)
        self.clock = 0
        self.decoding: dict[int, S] = {}
        self.work: Work | None = None  # of the step that `begin` planned, or the mean of those of `forward`
        self._timer = timer
        self._guaranteed = limits.policy is CapacityPolicy.GUARANTEED_NO_EVICT
        self._waiting: deque[S] = deque()
        self._siblings: dict[int, list[S]] = {}  # a request's first sequence -> the rest, until its prompt is computed
        self._held = 0  # number of these
        self._running: dict[int, S] = {}  # in order of admission
        self._prefilling: dict[int, S] = {}
        self._transferring: dict[int, S] = {}
        self._chunks: list[tuple[S, int]] = []
        self._grow: Schedule[S] = Schedule()  # sequences that need a block in the step that starts at a decode clock
        self._end: Schedule[S] = Schedule()  # sequences that end with the step that reaches a decode clock
        self._ended: list[S] = []
        self._steady = False  # only decoding goes on, until a sequence ends, arrives or is cancelled
        self._backlog_tokens = 0  # tokens to compute before the waiting and prefilling sequences can sample
        self._backlog_pairs = 0  # (query, key) pairs in their attention
        self._reserved = 0
        self._wanted = 0  # blocks that all waiting sequences need for admission, if none are shared
        self._context = 0  # tokens of decoding sequences
        self._still = 0  # tokens of all other unfinished sequences

    @property
    def load(self) -> Load:
        """Return the replica's current load."""
        return Load(
            running=len(self._running),
            waiting=len(self._waiting) + self._held,
            kv_blocks_used=self.cache.used,
            kv_blocks_total=self.cache.blocks_total,
            tokens_in_flight=self._context + self._still,
            prefill_tokens=self._backlog_tokens,
            kv_blocks_reserved=self._reserved + self._wanted,
            prefill_pairs=self._backlog_pairs,
        )

    @property
    def unfinished(self) -> list[S]:
        """All running sequences, in order of admission, then those that wait."""
        return [*self._running.values(), *self._waiting]

    def submit(self, group: list[S], now: float) -> None:
        """Queue the sequences of one request; all but the first wait for its prompt's blocks and share them.

        Each must fit the cache alone: prompt and limit together at most `limits.kv_tokens`.
        """
        leader = group[0]
        for sequence in group:
            if sequence.prompt < 1 or sequence.steps < 1 or sequence.prompt + sequence.limit > self.limits.kv_tokens:
                raise ValueError("a sequence must have a prompt, must have a step, and must fit the cache")
            sequence.arrived = now
            sequence.produced = int(sequence.transferred)
            sequence._target = sequence._due = sequence.prompt
            self._still += sequence.prompt + sequence.produced
            self._want(sequence)
        leader._chain = list(leader.chain)
        if leader.ids:
            extend_chain(leader._chain, leader.ids, self.limits.tokens_per_block, leader.salt)
        self._expect_prefill(leader)
        for sequence in group[1:]:
            sequence._chain = leader._chain.copy()
            self._expect_prefill(sequence, after_leader=True)
        if len(group) > 1:
            self._siblings[id(leader)] = group[1:]
        self._held += len(group) - 1
        self._waiting.append(leader)
        self._steady = False

    def cancel(self, group: list[S], now: float) -> None:
        """End the sequences of one request wherever they are and free their blocks; `end` does not return them."""
        self._free_siblings(group[0])
        for sequence in group:
            if sequence.phase is Phase.ENDED:
                continue
            if sequence.phase is Phase.WAITING:
                self._waiting.remove(sequence)
            self._finish(sequence, now)

    def begin(self, now: float) -> float | None:
        """Plan the next step and return its duration in seconds; None when there is nothing to do."""
        self._steady, self.work = False, None
        for sequence in [s for s in self._transferring.values() if s._ready <= now]:
            del self._transferring[id(sequence)]
            sequence.first_token = now
            self._store(sequence, sequence.prompt)
            self._free_siblings(sequence)
            self._start_decode(sequence, now)
        self._grow_decoding()
        self._admit(now)
        batch = self._plan_prefill()
        if not self.decoding and not batch.prefill:
            if self._ended:
                return 0.0
            if not self._transferring:
                return None
            return max(0.0, min(s._ready for s in self._transferring.values()) - now)
        batch.decode = len(self.decoding)
        batch.decode_context = self._context
        batch.outputs += batch.decode
        seconds = self._timer.step_seconds(batch)
        micros = round(seconds * 1e6)
        self.work = Work(micros, batch.prefill, batch.prefill_pairs, batch.decode, batch.decode_context)
        self._steady = not batch.prefill and not self._transferring
        return seconds

    def forward(self, now: float, until: float) -> tuple[int, float]:
        """Do the steps that end by `until`, as `begin` and `end` would; return their number and the last one's end.

        Call it instead of `begin`; it does none where a sequence may start or end with the next step.
        """
        if not self._steady:
            return 0, now
        most = self._end.next_from(self.clock) - 1 - self.clock
        if most < 1:
            return 0, now
        sequences = len(self.decoding)
        series = self._timer.decode_series(sequences, self._context)
        steps = self._grow_through(series.steps_within(until - now, most))
        if not steps:
            return 0, now
        seconds = series.seconds(steps)
        context = self._context + (steps - 1) * sequences // 2
        self.work = Work(round(seconds / steps * 1e6), sequences=sequences, context=context)
        self.clock += steps
        self._context += steps * sequences
        return steps, now + seconds

    def end(self, now: float) -> list[S]:
        """Complete the step that `begin` planned; return the sequences that ended in it, already out of `decoding`.

        Sequences cancelled in between produce nothing.
        """
        self.clock += 1
        self._context += len(self.decoding)
        for sequence in self._end.take(self.clock):
            self._finish(sequence, now)
            self._ended.append(sequence)
        for sequence, tokens in self._chunks:
            if sequence.phase is not Phase.PREFILL:
                continue
            sequence._computed += tokens
            self._expect(sequence, sequence._computed)
            if sequence._computed == sequence._target:
                self._complete_prefill(sequence, now)
        self._chunks.clear()
        ended, self._ended = self._ended, []
        return ended

    def _complete_prefill(self, sequence: S, now: float) -> None:
        del self._prefilling[id(sequence)]
        if sequence.first_token is None:
            sequence.first_token = now
        self._store(sequence, sequence._target)
        self._free_siblings(sequence)
        sequence.produced += 1
        self._still += 1
        self._start_decode(sequence, now)

    def _free_siblings(self, leader: S) -> None:
        """Queue the request's other sequences next, now that the prompt's blocks can be shared."""
        siblings = self._siblings.pop(id(leader), [])
        self._held -= len(siblings)
        for sequence in siblings:
            sequence.cached = leader.cached
        self._waiting.extendleft(reversed(siblings))

    def _start_decode(self, sequence: S, now: float) -> None:
        """Enter the decode batch with `produced` tokens, the last one without KV yet; or end at once."""
        if sequence.produced >= sequence.steps:
            self._finish(sequence, now)
            self._ended.append(sequence)
            return
        tokens = sequence.prompt + sequence.produced
        self._still -= tokens
        self._context += tokens
        sequence.phase = Phase.DECODE
        sequence.base = self.clock - sequence.produced
        sequence._end_at = sequence.base + sequence.steps
        self._end.add(sequence._end_at, sequence)
        self._schedule_growth(sequence)
        self.decoding[id(sequence)] = sequence

    def _schedule_growth(self, sequence: S) -> None:
        """Schedule the next block: the step that starts at clock c writes token prompt + c - base."""
        capacity = len(sequence._table) * self.limits.tokens_per_block
        sequence._grow_at = sequence.base + capacity + 1 - sequence.prompt
        if sequence._grow_at < sequence._end_at:
            self._grow.add(sequence._grow_at, sequence)

    def _grow_decoding(self) -> None:
        """Give each sequence that crosses a block boundary its next block, pausing the newest if none is left."""
        for sequence in self._grow.take(self.clock):
            while sequence.phase is Phase.DECODE and sequence._grow_at == self.clock:
                if not self._grow_one(sequence):
                    self._pause(next(reversed(self._running.values())))

    def _grow_through(self, steps: int) -> int:
        """Allocate the blocks of the next steps until there are not enough; return the number of steps."""
        clock, end = self.clock, self.clock + steps
        while (clock := self._grow.next_from(clock)) < end:
            if self._grow.count(clock) > self.cache.available:
                return clock - self.clock
            for sequence in self._grow.take(clock):
                self._grow_one(sequence)
        return steps

    def _grow_one(self, sequence: S) -> bool:
        if not self.cache.grow(sequence._table, 1):
            return False
        used = min(1, sequence._reserved)
        sequence._reserved -= used
        self._reserved -= used
        self._schedule_growth(sequence)
        return True

    def _pause(self, sequence: S) -> None:
        """Take a sequence's blocks; it waits first in the queue and recomputes its tokens once admitted again."""
        self._retire(sequence)
        self._expect(sequence, sequence._target)  # drop the rest of its prefill from the backlog
        sequence.phase = Phase.WAITING
        self._still += sequence.prompt + sequence.produced
        sequence._target = sequence._due = sequence.prompt + sequence.produced
        self._expect_prefill(sequence)
        self._want(sequence)
        self._waiting.appendleft(sequence)

    def _admit(self, now: float) -> None:
        while self._waiting and len(self._running) < self.limits.max_batch_size:
            sequence = self._waiting[0]
            if not self._take_blocks(sequence):
                return
            self._waiting.popleft()
            self._want_no_more(sequence)
            self._running[id(sequence)] = sequence
            again = sequence.admitted is not None
            if sequence.admitted is None:
                sequence.admitted = now
            if sequence.transferred and not again:
                sequence.phase = Phase.TRANSFER
                sequence._ready = now + self._timer.transfer_seconds(sequence.prompt)
                self._transferring[id(sequence)] = sequence
            else:
                sequence.phase = Phase.PREFILL
                self._prefilling[id(sequence)] = sequence

    def _take_blocks(self, sequence: S) -> bool:
        """Allocate blocks for its tokens, cached ones included, if the policy admits it."""
        cache, size = self.cache, self.limits.tokens_per_block
        # At least one token is computed, since the next one is sampled from its logits.
        matched, idle = cache.match(sequence._chain, (sequence._target - 1) // size)
        most = sequence.prompt + sequence.limit
        now, later = cache.blocks_for(sequence._target), cache.blocks_for(most)
        if sequence._wanted - matched > cache.available - idle - self._reserved:
            return False
        sequence._table = cache.open(sequence._chain[:matched])
        if not cache.grow(sequence._table, now - matched):
            raise AssertionError("the blocks were counted as available")
        if self._guaranteed:
            sequence._reserved = max(0, later - now)
            self._reserved += sequence._reserved
        sequence._computed = matched * size
        if sequence._due < sequence._target:
            self._expect(sequence, sequence._computed)
        if sequence.cached is None:
            sequence.cached = sequence._computed
        return True

    def _expect_prefill(self, sequence: S, after_leader: bool = False) -> None:
        """Add to the backlog what a waiting sequence must compute if the cache stays as it is."""
        if sequence.transferred and not sequence.admitted:
            return
        size = self.limits.tokens_per_block
        matched = most = (sequence._target - 1) // size if sequence._chain else 0
        if not after_leader:
            matched, _ = self.cache.match(sequence._chain, most)
        self._expect(sequence, matched * size)

    def _expect(self, sequence: S, start: int) -> None:
        """Set the sequence's part of the backlog to its tokens from `start` on."""
        before, sequence._due = sequence._due, start
        self._backlog_tokens += before - start
        self._backlog_pairs += (before * (before + 1) - start * (start + 1)) // 2

    def _want(self, sequence: S) -> None:
        """Count the blocks that a waiting sequence needs for admission."""
        most = sequence.prompt + sequence.limit
        tokens = most if self._guaranteed else min(most, sequence._target + 1)
        sequence._wanted = self.cache.blocks_for(tokens)
        self._wanted += sequence._wanted

    def _want_no_more(self, sequence: S) -> None:
        self._wanted -= sequence._wanted
        sequence._wanted = 0

    def _plan_prefill(self) -> Batch:
        """Distribute what decoding leaves of the step's token budget to prompts, oldest first, in chunks."""
        batch = Batch()
        budget = self.limits.max_num_tokens - len(self.decoding)
        for sequence in self._prefilling.values():
            if budget <= 0:
                break
            tokens = min(budget, sequence._target - sequence._computed)
            budget -= tokens
            batch.prefill += tokens
            batch.prefill_pairs += tokens * sequence._computed + tokens * (tokens + 1) // 2
            batch.outputs += sequence._computed + tokens == sequence._target
            self._chunks.append((sequence, tokens))
        return batch

    def _finish(self, sequence: S, now: float) -> None:
        self._steady = False
        self._expect(sequence, sequence._target)
        if sequence.phase is Phase.WAITING:
            self._still -= sequence.prompt + sequence.produced
            self._want_no_more(sequence)
        else:
            self._retire(sequence)
        sequence.phase = Phase.ENDED
        sequence.ended = now

    def _retire(self, sequence: S) -> None:
        """Remove a running sequence from all queues and counts; its full blocks stay reusable."""
        key = id(sequence)
        tokens = sequence.prompt + sequence.produced_at(self.clock)
        if sequence.phase is Phase.DECODE:
            sequence.produced = sequence.produced_at(self.clock)
            self._context -= tokens
            self._grow.drop(sequence._grow_at, sequence)
            self._end.drop(sequence._end_at, sequence)
            self._store(sequence, tokens - 1)  # the last token's KV was never computed
        else:
            self._still -= tokens
        self.cache.release(sequence._table)
        self._reserved -= sequence._reserved
        sequence._reserved = 0
        self._running.pop(key, None)
        self._prefilling.pop(key, None)
        self._transferring.pop(key, None)
        self.decoding.pop(key, None)

    def _store(self, sequence: S, written: int) -> None:
        """Make the full blocks among the first `written` tokens of the sequence reusable."""
        size = self.limits.tokens_per_block
        if sequence._chain and written // size > len(sequence._table.shared):
            ids = sequence.ids
            if written > sequence.prompt and ids:
                ids = (ids + sequence.content(written - sequence.prompt))[:written]
                extend_chain(sequence._chain, ids, size, sequence.salt)
            elif written > sequence.prompt:
                sequence._chain += sequence.further_blocks(written // size - len(sequence._chain))
            self.cache.store(sequence._table, sequence._chain[: written // size], ids, sequence.salt)
