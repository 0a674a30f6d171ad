"""A simulated engine whose tensor-parallel degree changes while requests run.

It moves as "Amoeba" does (replicas/reshape/cost.py): what a change takes is spread over steps, which get slower by it.
Then, between two steps, the KV cache changes hands, in the form of what its reusable blocks hold.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from protos.reshape import MemberWidth
from protos.types import Failure, FinishReason, Shape, Submit
from replicas.engine import EngineStep
from replicas.engine_limits import Limits
from replicas.engines.kv_contents import Block, KvContents, blocks_in, first_piece, runs_of
from replicas.engines.pausable_model import PausableModel
from replicas.engines.simulated import Answer, SimulatedEngine, fingerprint_of, finish_of
from replicas.profiles import H100, Gpu
from replicas.reshape.cost import Cost, Method, cost_of
from replicas.reshape.dealing import dealt
from replicas.reshape.held_up_timer import HeldUpTimer
from replicas.reshape.reshapable import Share
from replicas.reshape.width_limits import reshaped_kv_blocks, spare_bytes
from replicas.reshape.width_rates import rate_of
from replicas.sequence import Carried
from replicas.timing import RooflineTimer, StepTimer

#: Prompt and answer, in tokens, of the requests by which widths are compared.
_USUAL_LENGTHS: Final = (1000.0, 200.0)


async def next_turn() -> None:
    """Let the event loop do what else there is to do."""
    await asyncio.sleep(0)


class ReshapableEngine(SimulatedEngine):
    """The simulated engine as `Reshapable`, and its own `AtRest`."""

    _model: PausableModel[Answer]

    def __init__(
        self, *, gpus: int, gpu: Gpu = H100, method: Method = Method.OVERLAPPED, shape: Shape, **options: Any
    ) -> None:
        """Make an engine of `shape`, on up to `gpus` GPUs; the other options are those of the simulated engine.

        `kv_blocks_total` counts for `shape`, and in proportion for other widths. Raises ValueError for a model that
        does not fit the GPUs of `shape`, and for a shape that is more than tensor parallel.
        """
        if shape != Shape(shape.tp):
            raise ValueError("a shape that can change has no expert and no pipeline parallelism")
        self._contents = KvContents()
        self._kept: set[int] | None = None  # the blocks of the share that was dealt to stay
        self._coming: deque[list[Block]] = deque()
        self._settles = False  # after a change: what has come is taken in, and all that is new told
        self._gpu, self._method = gpu, method
        self._width = shape.tp
        blocks = options.pop("kv_blocks_total", None)
        profile = self.profile_of(options["model"], options.get("profile"))
        self._limits: dict[int, Limits] = {}
        for width in (shape.tp << power for power in range((gpus // shape.tp).bit_length())):
            found = blocks * width // shape.tp if blocks else reshaped_kv_blocks(profile, gpu, width)
            self._limits[width] = Limits(found)
        super().__init__(shape=shape, kv_blocks_total=self._limits[shape.tp].kv_blocks, **options)
        base = self._model.limits
        self._longest = options.get("max_sequence_tokens") or profile.context
        speed = options.get("speed", 1.0)
        self._cost_speed = float("inf") if self._instant else speed
        own: StepTimer = self._model.timer
        paced = not isinstance(own, RooflineTimer)
        self._timers = {
            w: own if paced else RooflineTimer(profile, Shape(w), gpu=gpu, speed=speed) for w in self._limits
        }
        self._limits = {
            width: Limits(known.kv_blocks, base.tokens_per_block, base.max_batch_size, base.max_num_tokens, base.policy)
            for width, known in self._limits.items()
        }
        rates = {
            width: rate_of(RooflineTimer(profile, Shape(width), gpu=gpu), limits.kv_tokens, *_USUAL_LENGTHS) / width
            for width, limits in self._limits.items()
        }
        self._rates = {width: rate / rates[shape.tp] for width, rate in rates.items()}

    @property
    def widths(self) -> tuple[MemberWidth, ...]:
        """The widths that it can have; steps would be held up as its `Cost` says."""
        return tuple(
            MemberWidth(width, limits.kv_tokens, self._rates[width], round(1000 * self._cost(width).seconds))
            for width, limits in self._limits.items()
        )

    def problem_of(self, widths: Sequence[int]) -> str:
        """Describe why what runs cannot go on so: a width, a request's length, all of them, memory for the move."""
        for width in widths:
            if width not in self._limits:
                return f"the engine can be TP{', TP'.join(map(str, self._limits))}, not TP{width}"
        load, size = self._model.load, self._model.limits.tokens_per_block
        most = max(self._limits[width].kv_tokens for width in widths)
        running = [answer.prompt + answer.limit for group in self._requests.values() for answer in group]
        longest = max([*running, *map(self._most, self._guided.requests.values())], default=0)
        if longest > most:
            return f"memory: a request of {longest} tokens runs, and TP{max(widths)} holds {most}"
        needed = load.kv_blocks_used + self._model.reserved
        room = sum(self._limits[width].kv_blocks for width in widths)
        if needed > room:
            return f"memory: running requests need {needed * size} tokens of KV, and there is room for {room * size}"
        if max(widths) != self._width:
            spare = self._spare_bytes()
            extra = self._cost(max(widths)).extra_bytes
            if extra > spare:
                return (
                    f"memory: the move needs {extra / 2**20:.0f} MiB of a GPU, of which {spare / 2**20:.0f} are spare"
                )
        return ""

    async def reach(self, width: int) -> "ReshapableEngine":
        """Hold steps up as the change to this width costs; where none runs, its time passes by itself."""
        cost, model = self._cost(width), self._model
        while self._settles:
            model.looked.clear()
            await model.looked.wait()
        try:
            if cost.seconds:
                model.timer = timer = HeldUpTimer(self._timers[self._width], cost)
                while timer.left:
                    if model.unfinished:
                        model.looked.clear()
                        await model.looked.wait()
                    else:
                        await self._sleep(timer.part)
                        timer.skip()
            # The step that is under way ends as it began.
            model.paused = True
            model.looked.clear()
            self._wake.set()
            await model.looked.wait()
        except BaseException:
            self.resume()
            raise
        finally:
            model.timer = self._timers[self._width]
        return self

    async def deal(self, widths: Sequence[int], keep: int | None) -> list[Share]:
        """Deal requests out whole, the largest first, and the cache with them."""
        for _ in self._model.publish():
            await self._told()
        await self._told()
        rooms = [self._limits[width] for width in widths]
        groups = [Carried(group[0], 0, group[1:]) for group in self._requests.values()]
        parts = dealt(groups, [limits.kv_tokens for limits in rooms])
        needed = [[s.hashes for one in part for s in (one.sequence, *one.siblings)] for part in parts]
        handles = [frozenset(one.sequence.handle for one in part) for part in parts]
        names: list[set[int]] = [set() for _ in widths]
        for _ in self._contents.dealt(needed, [limits.kv_blocks for limits in rooms], names):
            await next_turn()
        content: list[list[bytes]] = [[] for _ in widths]
        sent = [() if at == keep else share for at, share in enumerate(names)]
        for found in self._contents.encoded(sent):
            if found is not None:
                content[found[0]].append(found[1])
            await next_turn()
        self._kept = None if keep is None else names[keep]
        return [Share(own, tuple(bytes_)) for own, bytes_ in zip(handles, content, strict=True)]

    def become(self, width: int, gone: Collection[int] | None, taken: Sequence[list[Block]] = ()) -> None:
        """Go on at another width; as none, it keeps nothing, and no request should come."""
        kept, self._kept = self._kept, None
        for handle in [*self._requests, *self._guided.requests] if gone is None else gone:
            self._forget(handle)
        cache = self._model.cache
        if not width:
            cache.keep_only(frozenset())
            # It is as it was created, which makes a step by which all hear that nothing is left.
            cache.resize(cache.blocks_total)
        else:
            if kept is not None:
                cache.keep_only(kept)
            self._take_shape(width)
        self._settle(taken)

    def opened(self, part: bytes) -> list[Block]:
        """Return the blocks of a part."""
        return blocks_in(part)

    def resume(self) -> None:
        """Let steps begin."""
        self._kept = None
        self._model.paused = self._settles
        self._wake.set()

    def reset(self, width: int, taken: Sequence[list[Block]] = ()) -> None:
        """Serve at this width, with what is `taken` and nothing else."""
        self.become(0, None)
        self._take_shape(width)
        self._settle(taken)

    async def _told(self) -> None:
        """Let the engine's own task tell what is new in the cache."""
        self._model.looked.clear()
        self._wake.set()
        await self._model.looked.wait()

    def _settle(self, taken: Sequence[list[Block]]) -> None:
        """Take these blocks, and say what has changed, in pieces; steps begin after that."""
        self._coming = deque(taken)
        self._settles = self._model.paused = True
        self._wake.set()

    async def _idle(self, seconds: float | None) -> None:
        if not self._settles:
            await super()._idle(seconds)
        elif self._events:
            await next_turn()
        elif self._coming:
            self._model.cache.adopt(runs_of(self._coming.popleft()))
            await next_turn()
        else:
            self._settles = False
            self.resume()

    def _model_of(self, limits: Limits, timer: StepTimer) -> PausableModel[Answer]:
        return PausableModel(limits, timer)

    def _step(self, ended: list[Answer]) -> EngineStep:
        # While much changes hands, it is told in pieces.
        events = self._events + self._model.cache.drain_events()
        told = first_piece(events) if self._settles else len(events)
        self._events, later = events[:told], events[told:]
        self._contents.take(self._events)
        step = super()._step(ended)
        self._events = later
        if isinstance(self._model.timer, HeldUpTimer):
            # It would tell of the change, and not of what was computed.
            step.work = None
        return step

    def _take_shape(self, width: int) -> None:
        """Take limits, step times and description of a width; what it can no longer hold ends."""
        limits, longest = self._limits[width], self._limits[width].kv_tokens
        for handle, group in list(self._requests.items()):
            if max(answer.prompt + answer.limit for answer in group) > longest:
                ended = [
                    finish_of(answer, FinishReason.ERROR, _too_long(width)) for answer in group if not answer.finished
                ]
                indexes = [answer.index for answer in group if not answer.finished]
                self._forget(handle)
                self._finishes += [(handle, index, finish) for index, finish in zip(indexes, ended, strict=True)]
        for handle, request in self._guided.requests.items():
            if self._most(request) > longest:
                self._guided.drop(handle)
                self._end(handle, request, FinishReason.ERROR, _too_long(width))
        self._model.change(limits, self._timers[width], self._clock())
        self._width = width
        longest = min(self._longest, longest)
        self._planner.max_sequence_tokens = longest
        self.info = msgspec.structs.replace(
            self.info,
            shape=Shape(width),
            fingerprint=fingerprint_of(self.profile, Shape(width)),
            kv_blocks_total=limits.kv_blocks,
            max_sequence_tokens=longest,
        )

    def _most(self, request: Submit) -> int:
        """The tokens that a sequence of a request comes to at most that is still to be composed."""
        return len(request.prompt_ids) + (1 if request.prefill_only else self._planner.room(request))

    def _forget(self, handle: int) -> None:
        """Drop a request without a finish."""
        group = self._requests.pop(handle, None)
        if group is None:
            self._guided.drop(handle)
            return
        if not self._adapters.drop(handle):
            self._model.cancel(group, self._clock())
        self._adapters.ended(handle)
        for answer in group:
            answer.finished = True

    def _cost(self, width: int) -> Cost:
        """The cost of a change to this width now, by the engine's clock."""
        if width == self._width:
            return Cost(0.0, 1, 0.0, 0.0)
        tokens = self._model.cache.used * self._model.limits.tokens_per_block
        fullest = tokens if width > self._width else tokens * width // self._width
        cost = cost_of(self.profile, self._gpu, self._width, width, fullest, self._method)
        return Cost(cost.seconds / self._cost_speed, cost.steps, cost.sent_bytes, cost.extra_bytes)

    def _spare_bytes(self) -> float:
        """Memory of a GPU that no weights and no running request need."""
        model = self._model
        block = self.profile.kv_bytes_per_token / self._width * model.limits.tokens_per_block
        unused = model.cache.blocks_total - model.cache.used - model.reserved
        return spare_bytes(self.profile, self._gpu, self._width) + unused * block


def _too_long(width: int) -> Failure:
    return Failure("moved", f"the replica has become TP{width}, which cannot hold the request")
