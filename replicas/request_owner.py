"""The owner of an engine's handle: whom its output goes to, and what of it may be held back."""

from protos.types import Submit
from replicas.consumer import Consumer
from replicas.engine import Delta

#: Prompts from this length on occupy an engine so long that their start and end are reported to every worker at once:
#: workers with waiting requests cannot wait for the next heartbeat.
LONG_PROMPT_TOKENS = 2048


class RequestOwner:
    """The consumer of an engine handle, its open sequences, and whether its prompt is computed.

    Where the request allows it, tokens are `held`, by sequence, until `hold_until`.
    """

    __slots__ = (
        "consumer",
        "first_stream",
        "held",
        "hold_seconds",
        "hold_until",
        "long",
        "open",
        "outbox",
        "started",
    )

    def __init__(self, consumer: Consumer, first_stream: int, submit: Submit) -> None:
        self.consumer = consumer
        self.outbox = consumer.outbox
        self.first_stream = first_stream
        self.open = set(range(submit.sampling.n))
        self.started = False
        self.hold_seconds = submit.hold_ms * 1e-3
        self.hold_until = 0.0
        self.held: dict[int, list[int]] = {}
        self.long = len(submit.prompt_ids) >= LONG_PROMPT_TOKENS

    def start(self, cached_tokens: int, now: float) -> None:
        """Note that the prompt has been computed, `cached_tokens` of it cached."""
        self.started = True
        self.hold_until = now + self.hold_seconds
        self.outbox.add_start(self.first_stream, cached_tokens)

    def hold(self, delta: Delta, now: float) -> bool:
        """Hold a delta's tokens; return whether the time is over, and all that were held are in the outbox."""
        held = self.held.get(delta.index)
        if held is None:
            self.held[delta.index] = delta.token_ids
        else:
            held += delta.token_ids
        if now < self.hold_until:
            return False
        for index in list(self.held):
            self.release(index)
        self.hold_until = now + self.hold_seconds
        return True

    def release(self, index: int) -> None:
        """Put the tokens that a sequence holds into the outbox."""
        held = self.held.pop(index, None)
        if held:
            self.outbox.add_tokens(self.first_stream + index, held, None)
