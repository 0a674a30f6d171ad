"""The replica as a pure step function: continuous batching with chunked prefill over a paged KV cache.

`begin(now)` admits what fits and returns the step's duration, `end(now)` returns what it produced; no clock, no
randomness, no I/O, so that the simulated engine and the fleet simulator run the same code. Every decoding sequence
gains one token a step. That is counted, not carried out: a sequence is touched only when it starts, needs a block or
ends, hence the cost of a step does not grow with the number of running sequences. For the same reason `forward` can do
many steps at once while only decoding goes on.
"""

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from protos.types import Load, Work
from replicas.backlog import Backlog
from replicas.chunking import plan_prefill
from replicas.engine_limits import CapacityPolicy, Limits
from replicas.kv_cache import KvCache, extend_chain
from replicas.schedule import Schedule
from replicas.sequence import Carried, Phase, Sequence
from replicas.timing import StepTimer

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
        self._backlog = Backlog()
        self._reserved = 0
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
            prefill_tokens=self._backlog.tokens,
            kv_blocks_reserved=self._reserved + self._backlog.wanted,
            prefill_pairs=self._backlog.pairs,
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
            sequence.target = sequence.due = sequence.prompt
            self._still += sequence.prompt + sequence.produced
            self._want(sequence)
        leader.hashes = list(leader.chain)
        if leader.ids:
            extend_chain(leader.hashes, leader.ids, self.limits.tokens_per_block, leader.salt)
        self._expect_prefill(leader)
        for sequence in group[1:]:
            sequence.hashes = leader.hashes.copy()
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

    def take_out(self) -> list[Carried[S]]:
        """Remove all unfinished sequences, in the order in which they are served, with the KV that they have.

        Call it between `end` and `begin`. Reusable blocks that no sequence holds stay behind.
        """
        carried = []
        for sequence in self.unfinished:
            siblings = self._siblings.pop(id(sequence), [])
            self._held -= len(siblings)
            for sibling in siblings:
                self._leave(sibling)
            kept = self._leave(sequence)
            carried.append(Carried(sequence, kept, siblings))
        self._waiting.clear()
        self._steady = False
        return carried

    def take_in(self, carried: Iterable[Carried[S]], now: float) -> None:
        """Go on with sequences that other models had, in this order; those without room for their KV compute it anew.

        Raises ValueError for one that this cache could never hold, before anything is taken in.
        """
        carried = list(carried)
        for one in carried:
            if max(s.prompt + s.limit for s in (one.sequence, *one.siblings)) > self.limits.kv_tokens:
                raise ValueError("a sequence must fit the cache")
        again: list[S] = []
        for one in carried:
            sequence = one.sequence
            if one.siblings:
                self._siblings[id(sequence)] = one.siblings
                self._held += len(one.siblings)
                for sibling in one.siblings:
                    self._still += sibling.prompt + sibling.produced
                    self._expect_prefill(sibling, after_leader=True)
                    self._want(sibling)
            if not (one.kept and self._resume(sequence, one.kept, now)):
                self._still += sequence.prompt + sequence.produced
                if one.kept:
                    sequence.phase = Phase.WAITING
                    sequence.target = sequence.due = sequence.prompt + sequence.produced
                self._expect_prefill(sequence)
                self._want(sequence)
                again.append(sequence)
        self._waiting.extendleft(reversed(again))
        self._steady = False

    def begin(self, now: float) -> float | None:
        """Plan the next step and return its duration in seconds; None when there is nothing to do."""
        self._steady, self.work = False, None
        for sequence in [s for s in self._transferring.values() if s.ready_at <= now]:
            del self._transferring[id(sequence)]
            sequence.first_token = now
            self._store(sequence, sequence.prompt)
            self._free_siblings(sequence)
            self._start_decode(sequence, now)
        self._grow_decoding()
        self._admit(now)
        batch, self._chunks = plan_prefill(self._prefilling.values(), self.limits.max_num_tokens - len(self.decoding))
        if not self.decoding and not batch.prefill:
            if self._ended:
                return 0.0
            if not self._transferring:
                return None
            return max(0.0, min(s.ready_at for s in self._transferring.values()) - now)
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
            sequence.computed += tokens
            self._backlog.expect(sequence, sequence.computed)
            if sequence.computed == sequence.target:
                self._complete_prefill(sequence, now)
        self._chunks.clear()
        ended, self._ended = self._ended, []
        return ended

    def _leave(self, sequence: S) -> int:
        """Remove an unfinished sequence from all queues and counts but the waiting; return its tokens with KV."""
        phase = sequence.phase
        self._backlog.expect(sequence, sequence.target)
        if phase is Phase.WAITING:
            self._still -= sequence.prompt + sequence.produced
            self._backlog.want_no_more(sequence)
            return 0
        self._retire(sequence)
        if phase is Phase.DECODE:
            return sequence.prompt + sequence.produced - 1
        return sequence.computed if phase is Phase.PREFILL else sequence.prompt

    def _resume(self, sequence: S, kept: int, now: float) -> bool:
        """Go on with a sequence whose first `kept` tokens have their KV here; False: there is no room for it."""
        decodes = sequence.phase is Phase.DECODE
        tokens = sequence.prompt + sequence.produced if decodes else sequence.target
        cache = self.cache
        matched, idle = cache.match(sequence.hashes, min(kept, tokens - 1) // self.limits.tokens_per_block)
        most, held = cache.blocks_for(sequence.prompt + sequence.limit), cache.blocks_for(tokens)
        needed = most if self._guaranteed else held
        if len(self._running) >= self.limits.max_batch_size:
            return False
        if needed - matched > cache.available - idle - self._reserved:
            return False
        self._hold(sequence, matched, held, most)
        self._running[id(sequence)] = sequence
        if decodes:
            self._still += tokens
            self._store(sequence, kept)
            self._start_decode(sequence, now)
            return True
        self._still += sequence.prompt + sequence.produced
        if sequence.phase is Phase.TRANSFER:
            self._transferring[id(sequence)] = sequence
        else:
            sequence.computed = max(kept, matched * self.limits.tokens_per_block)
            self._backlog.expect(sequence, sequence.computed)
            self._prefilling[id(sequence)] = sequence
        return True

    def _hold(self, sequence: S, matched: int, blocks: int, most: int) -> None:
        """Give a sequence its blocks, the first `matched` of them shared, and reserve those up to `most`."""
        sequence.table = self.cache.open(sequence.hashes[:matched])
        if not self.cache.grow(sequence.table, blocks - matched):
            raise AssertionError("the blocks were counted as available")
        if self._guaranteed:
            sequence.reserved = max(0, most - blocks)
            self._reserved += sequence.reserved

    def _complete_prefill(self, sequence: S, now: float) -> None:
        del self._prefilling[id(sequence)]
        if sequence.first_token is None:
            sequence.first_token = now
        self._store(sequence, sequence.target)
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
        sequence.end_at = sequence.base + sequence.steps
        self._end.add(sequence.end_at, sequence)
        self._schedule_growth(sequence)
        self.decoding[id(sequence)] = sequence

    def _schedule_growth(self, sequence: S) -> None:
        """Schedule the next block: the step that starts at clock c writes token prompt + c - base."""
        capacity = len(sequence.table) * self.limits.tokens_per_block
        sequence.grow_at = sequence.base + capacity + 1 - sequence.prompt
        if sequence.grow_at < sequence.end_at:
            self._grow.add(sequence.grow_at, sequence)

    def _grow_decoding(self) -> None:
        """Give each sequence that crosses a block boundary its next block, pausing the newest if none is left."""
        for sequence in self._grow.take(self.clock):
            while sequence.phase is Phase.DECODE and sequence.grow_at == self.clock:
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
        if not self.cache.grow(sequence.table, 1):
            return False
        used = min(1, sequence.reserved)
        sequence.reserved -= used
        self._reserved -= used
        self._schedule_growth(sequence)
        return True

    def _pause(self, sequence: S) -> None:
        """Take a sequence's blocks; it waits first in the queue and recomputes its tokens once admitted again."""
        self._retire(sequence)
        self._backlog.expect(sequence, sequence.target)  # drop the rest of its prefill from the backlog
        sequence.phase = Phase.WAITING
        self._still += sequence.prompt + sequence.produced
        sequence.target = sequence.due = sequence.prompt + sequence.produced
        self._expect_prefill(sequence)
        self._want(sequence)
        self._waiting.appendleft(sequence)

    def _admit(self, now: float) -> None:
        while self._waiting and len(self._running) < self.limits.max_batch_size:
            sequence = self._waiting[0]
            if not self._take_blocks(sequence):
                return
            self._waiting.popleft()
            self._backlog.want_no_more(sequence)
            self._running[id(sequence)] = sequence
            again = sequence.admitted is not None
            if sequence.admitted is None:
                sequence.admitted = now
            if sequence.transferred and not again:
                sequence.phase = Phase.TRANSFER
                sequence.ready_at = now + self._timer.transfer_seconds(sequence.prompt)
                self._transferring[id(sequence)] = sequence
            else:
                sequence.phase = Phase.PREFILL
                self._prefilling[id(sequence)] = sequence

    def _take_blocks(self, sequence: S) -> bool:
        """Allocate blocks for its tokens, cached ones included, if the policy admits it."""
        cache, size = self.cache, self.limits.tokens_per_block
        # At least one token is computed, since the next one is sampled from its logits.
        matched, idle = cache.match(sequence.hashes, (sequence.target - 1) // size)
        most = sequence.prompt + sequence.limit
        now, later = cache.blocks_for(sequence.target), cache.blocks_for(most)
        if sequence.wanted - matched > cache.available - idle - self._reserved:
            return False
        self._hold(sequence, matched, now, later)
        sequence.computed = matched * size
        if sequence.due < sequence.target:
            self._backlog.expect(sequence, sequence.computed)
        if sequence.cached is None:
            sequence.cached = sequence.computed
        return True

    def _expect_prefill(self, sequence: S, after_leader: bool = False) -> None:
        """Add to the backlog what a waiting sequence must compute if the cache stays as it is."""
        if sequence.transferred and not sequence.admitted:
            return
        size = self.limits.tokens_per_block
        matched = most = (sequence.target - 1) // size if sequence.hashes else 0
        if not after_leader:
            matched, _ = self.cache.match(sequence.hashes, most)
        self._backlog.expect(sequence, matched * size)

    def _want(self, sequence: S) -> None:
        """Count the blocks that a waiting sequence needs for admission."""
        most = sequence.prompt + sequence.limit
        tokens = most if self._guaranteed else min(most, sequence.target + 1)
        self._backlog.want(sequence, self.cache.blocks_for(tokens))

    def _finish(self, sequence: S, now: float) -> None:
        self._steady = False
        self._backlog.expect(sequence, sequence.target)
        if sequence.phase is Phase.WAITING:
            self._still -= sequence.prompt + sequence.produced
            self._backlog.want_no_more(sequence)
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
            self._grow.drop(sequence.grow_at, sequence)
            self._end.drop(sequence.end_at, sequence)
            self._store(sequence, tokens - 1)  # the last token's KV was never computed
        else:
            self._still -= tokens
        self.cache.release(sequence.table)
        self._reserved -= sequence.reserved
        sequence.reserved = 0
        self._running.pop(key, None)
        self._prefilling.pop(key, None)
        self._transferring.pop(key, None)
        self.decoding.pop(key, None)

    def _store(self, sequence: S, written: int) -> None:
        """Make the full blocks among the first `written` tokens of the sequence reusable."""
        size = self.limits.tokens_per_block
        if sequence.hashes and written // size > len(sequence.table.shared):
            ids = sequence.ids
            if written > sequence.prompt and ids:
                ids = (ids + sequence.content(written - sequence.prompt))[:written]
                extend_chain(sequence.hashes, ids, size, sequence.salt)
            elif written > sequence.prompt:
                sequence.hashes += sequence.further_blocks(written // size - len(sequence.hashes))
            self.cache.store(sequence.table, sequence.hashes[: written // size], ids, sequence.salt)
