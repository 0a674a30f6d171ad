"""The Engine protocol: between a replica server and an engine that produces tokens."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from protos.launch_step import LaunchStep
from protos.types import Finish, KvEvent, Load, ReplicaInfo, Submit, TokenLogprobs, Work

#: Told that a step of a start begins.
Tell = Callable[[LaunchStep], None]


@dataclass(slots=True)
class Delta:
    """New tokens of one sequence; `logprobs` has one entry per token if they were requested.

    `cached_tokens` (of the prompt) comes with a sequence's first delta and is None in later ones.
    """

    handle: int
    index: int
    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None = None
    cached_tokens: int | None = None


@dataclass(slots=True)
class EngineStep:
    """The output of one engine step over all sequences that ran in it.

    A finish is (handle, index, Finish) and follows the sequence's last delta, in the same step or a later one.
    `started` are (handle, prompt tokens found in the KV cache) of requests that batch tokens into deltas and whose
    prompt was computed in this step; those with a delta in it may be left out. `work` is what was computed and how long
    it took, if the engine reports it. `adapters` are the loaded LoRA adapters, if that has changed.
    """

    deltas: list[Delta]
    finishes: list[tuple[int, int, Finish]]
    load: Load
    kv_events: list[KvEvent]
    started: list[tuple[int, int]] = field(default_factory=list)
    work: Work | None = None
    adapters: tuple[str, ...] | None = None


class Engine(Protocol):
    """An engine with continuous batching; one event loop calls every method.

    Every submitted (handle, index) gets exactly one finish, also when it is cancelled or refused.
    """

    @property
    def info(self) -> ReplicaInfo:
        """The engine's description, which changes with its shape."""
        ...

    def submit(self, handle: int, request: Submit) -> None:
        """Queue a request under the caller's handle; a refusal is a failed finish, never an exception."""
        ...

    def cancel(self, handle: int) -> None:
        """End every sequence of the request and free its KV blocks; unknown or finished handles are ignored."""
        ...

    async def run(self, emit: Callable[[EngineStep], None]) -> None:
        """Step until cancelled, giving each step to `emit`. Raises when the engine itself is lost."""
        ...


@runtime_checkable
class Launched(Protocol):
    """An engine that must load before it serves and release resources after."""

    async def start(self, tell: Tell) -> None:
        """Load until it can answer; then `info` is complete. An exception ends the process.

        `tell` gets each step as it begins, of those up to `warm_up`, in their order.
        """
        ...

    async def stop(self) -> None:
        """Release what `start` took, after all requests have ended; called once, also when `start` has failed."""
        ...
