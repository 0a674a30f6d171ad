"""Warms replicas up over connections of the controller's own, with the transports that workers use."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from gateway.config.models.settings import Model, Pool
from gateway.config.settings import Config
from gateway.fleets.replica_specs import discovered_host, replica_spec
from gateway.rollouts.warmup.prompts import warmup_submit
from gateway.rollouts.warmup.timed_answer import AnswerTimes, timed_answer
from gateway.tenancy.providers.provider_keys import KeyOf
from gateway.text.tokens.loader import load_tokenizer
from gateway.text.tokens.tokenizer import Tokenizer, TokenizerError
from protos.errors import PenstockError
from routing.health.patience import TICK_SECONDS
from routing.rollouts.facts import GateResult, ReplicaFacts, VersionFacts, WarmupResult
from routing.rollouts.rollout import Rollout, Warmed
from routing.rollouts.settings import Warmup
from routing.transports.replica_connection import Listener, ReplicaConnection, TransportContext
from routing.transports.replica_spec import ReplicaSpec
from routing.transports.transport_registry import connection_to

#: Seconds until a replica that workers reach is connected here, too.
CONNECT_SECONDS: Final = 30.0
#: Seconds for one answer.
ANSWER_SECONDS: Final = 120.0


class ReplicaWarmer:
    """Sends warm-up requests, one after the other, and compares the last one of each shape with the targets."""

    def __init__(
        self,
        config: Config,
        key_of: KeyOf,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        connect: Callable[[ReplicaSpec, TransportContext], ReplicaConnection] = connection_to,
    ) -> None:
        """`name` is how replicas see this process."""
        self._key_of, self._name, self._clock, self._connect = key_of, name, clock, connect
        self._tokenizers: dict[str, Tokenizer] = {}
        self.use(config)

    def use(self, config: Config) -> None:
        """Find replicas by another configuration."""
        self._config = config

    async def warm_up(self, rollout: Rollout, replica: ReplicaFacts) -> WarmupResult:
        """Warm one replica up: slow where the last answer to any shape was later than the targets allow."""
        settings = rollout.settings.warmup
        try:
            answers = await self._ask(rollout, replica, settings.requests)
        except (PenstockError, TokenizerError, TimeoutError) as error:
            problem = f"warm-up of {replica.id}: {_said(error)}"
            return WarmupResult(replica=replica.id, warmed=None, problem=problem)
        model = self._model(rollout.model)
        if model is not None and (late := _late(settings, model, answers)):
            return WarmupResult(replica=replica.id, warmed=None, problem=f"{replica.id} {late}", slow=True)
        warmed = Warmed(
            requests=len(answers),
            ttft_seconds=round(max(times.ttft for times in answers), 4),
            tpot_seconds=round(max(times.tpot for times in answers), 5),
        )
        return WarmupResult(replica=replica.id, warmed=warmed)

    async def smoke(self, rollout: Rollout, candidate: VersionFacts) -> GateResult:
        """Send the smoke test's requests to the candidate's replicas in turn; one failure is enough."""
        count, ready = rollout.settings.gates.smoke, list(candidate.ready)
        for place, replica in enumerate(ready):
            share = len(range(place, count, len(ready)))
            try:
                await self._ask(rollout, replica, share)
            except (PenstockError, TokenizerError, TimeoutError) as error:
                reason = f"smoke test at {replica.id}: {_said(error)}"
                return GateResult(gate="smoke", passing="failed", reason=reason)
        if not ready:
            return GateResult(gate="smoke", passing="failed", reason=f"no replica of {rollout.candidate} is ready")
        return GateResult(gate="smoke", passing="passed", reason=f"{count} requests were answered without an error")

    async def _ask(self, rollout: Rollout, replica: ReplicaFacts, count: int) -> list[AnswerTimes]:
        """Ask a replica so often, by the shapes in turn. Raises PenstockError, TokenizerError and TimeoutError."""
        shapes, model = rollout.settings.warmup.shapes, self._model(rollout.model)
        pool = self._pool(model, replica.pool)
        if model is None or pool is None:
            raise TimeoutError("the configuration has no such pool any more")
        tokenizer = None if pool.engine == "openai" else await self._tokenizer(model.tokenizer)
        connection = await self._connected(model, pool, replica, tokenizer)
        ticks = asyncio.create_task(_tick(connection))
        answers = []
        try:
            for number in range(count):
                name = f"warm-up-{rollout.id}-{number}"
                submit = warmup_submit(name, shapes[number % len(shapes)], model.context, tokenizer)
                async with asyncio.timeout(ANSWER_SECONDS):
                    answers.append(await timed_answer(connection, submit, self._clock))
        except TimeoutError:
            raise TimeoutError(f"an answer took longer than {ANSWER_SECONDS:.0f} s") from None
        finally:
            ticks.cancel()
            await connection.aclose()
        return answers

    async def _connected(
        self, model: Model, pool: Pool, replica: ReplicaFacts, tokenizer: Tokenizer | None
    ) -> ReplicaConnection:
        changed = asyncio.Event()
        listed = list(pool.addresses).index(replica.address) if replica.address in pool.addresses else 0
        spec = replica_spec(
            self._config,
            self._config.models.index(model),
            model.pools.index(pool),
            replica.id.partition("/")[2],
            replica.address,
            self._key_of,
            host=discovered_host(pool),
            tokenizer=tokenizer,
            number=listed,
        )
        connection = self._connect(spec, TransportContext(self._name, Listener(changed=changed.set)))
        connection.start()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                while not connection.connected:
                    changed.clear()
                    await changed.wait()
        except BaseException as error:
            why = connection.health.reason
            await connection.aclose()
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"it cannot be reached{f': {why}' if why else ''}") from None
            raise
        return connection

    async def _tokenizer(self, source: str | None) -> Tokenizer:
        """Load a tokenizer, off the event loop, the first time that it is needed. Raises TokenizerError."""
        key = source or ""
        if key not in self._tokenizers:
            loaded = await asyncio.to_thread(load_tokenizer, source)
            self._tokenizers[key] = loaded.tokenizer
        return self._tokenizers[key]

    def _model(self, name: str) -> Model | None:
        return next((model for model in self._config.models if model.name == name), None)

    def _pool(self, model: Model | None, name: str) -> Pool | None:
        return next((pool for pool in (model.pools if model is not None else ()) if pool.name == name), None)


async def _tick(connection: ReplicaConnection) -> None:
    """Run a connection's timers, as a fleet does."""
    while True:
        await asyncio.sleep(TICK_SECONDS)
        connection.tick(probes=False)


def _late(settings: Warmup, model: Model, answers: list[AnswerTimes]) -> str:
    """Say what was later than the targets allow, of the last answer to each shape; empty: nothing."""
    targets = model.routing.targets
    last = dict(enumerate(answers))
    for number in sorted(last)[-len(settings.shapes) :]:
        shape, times = settings.shapes[number % len(settings.shapes)], last[number]
        bound = None if targets is None else targets.first_token(shape.prompt_tokens)
        if settings.ttft_ms is not None:
            bound = settings.ttft_ms * 1e-3
        if bound is not None and times.ttft > bound:
            return (
                f"took {1e3 * times.ttft:.0f} ms to the first token of {shape.prompt_tokens} prompt tokens, and may "
                f"take {1e3 * bound:.0f} ms"
            )
        if targets is not None and times.tpot > targets.tpot:
            return f"took {1e3 * times.tpot:.1f} ms for a token, and may take {1e3 * targets.tpot:.1f} ms"
    return ""


def _said(error: Exception) -> str:
    return error.message if isinstance(error, PenstockError) else str(error)
