"""THE request path: from a decoded request to a generation under way."""

import asyncio

from gateway.encoding_turns import EncodingTurns
from gateway.limits.limiter import Ask, Lease, Limiter, Usage
from gateway.prompt import encode_prompt
from gateway.queue.turn import Turn, TurnRequest
from gateway.request import GenerateRequest
from gateway.sequence import SequenceText, TokenEntry
from gateway.token_bounds import output_bound
from protos.errors import ClientGone, DeadlineExceeded, Overloaded, SlowClient
from protos.types import Submit, Timing
from routing.dispatch import Attempt, Dispatched, check, dispatch
from routing.policy import RouteRequest
from routing.transport import Event

#: Longer bodies are tokenized off the event loop: at 20 MB/s this much holds it up for under a millisecond.
INLINE_BYTES = 16 * 1024
#: Of an answer that is not streamed, at most so many tokens less one are not known of when it is cut short.
UNSEEN_TOKENS = 32


async def generate(
    request: GenerateRequest, limiter: Limiter, encoding: EncodingTurns, attempt: Attempt, wait_until: float
) -> "Generation":
    """Start a generation; it has begun to answer when this returns, and its owner must `close` it.

    It waits for its turn until `wait_until` on the monotonic clock; `attempt.fail` ends it from outside at any moment.
    Raises the errors of protos/errors.py.
    """
    model, caller, sampling = request.model, request.caller, request.sampling
    if request.size > INLINE_BYTES:
        prompt_ids = await encoding.run(attempt, caller.tenant.name, encode_prompt, model, request.prompt)
    else:
        prompt_ids = encode_prompt(model, request.prompt)
    prompt_tokens, max_tokens = len(prompt_ids), output_bound(request, len(prompt_ids))
    ask = Ask(model.plans.of(caller), prompt_tokens, max_tokens * sampling.n, sampling.n)
    lease = await limiter.reserve(ask)
    turn: Turn | None = None
    try:
        route = RouteRequest(request.id, prompt_tokens, max_tokens)
        wanted = turn_request(request, route, lease.output, wait_until)
        turn = model.turnstile.try_enter(wanted) or await model.turnstile.enter(wanted, attempt)
        submit = Submit(
            request_id=request.id,
            prompt_ids=prompt_ids,
            max_tokens=max_tokens,
            sampling=sampling,
            delta_interval=delta_interval(request),
        )
        dispatched = await dispatch(model.fleet, model.policy, route, submit, attempt, turn)
    except BaseException as error:
        end_unanswered(lease, turn, prompt_tokens, error)
        raise
    return Generation(request, prompt_tokens, dispatched, lease, turn)


def turn_request(request: GenerateRequest, route: RouteRequest, expected_output: int, wait_until: float) -> TurnRequest:
    """What the queue must know of a request and its tenant."""
    caller, tier = request.caller, request.caller.tier
    waiting = caller.tenant.waiting
    return TurnRequest(
        request_id=request.id,
        tenant=caller.tenant.name,
        rank=caller.rank,
        weight=tier.weight,
        reserved=tier.reserved,
        route=route,
        expected_output=expected_output,
        n=request.sampling.n,
        wait_until=min(wait_until, request.arrived + waiting.max_seconds),
        max_waiting=waiting.max_requests,
    )


def end_unanswered(lease: Lease, turn: Turn | None, prompt_tokens: int, error: BaseException) -> None:
    """End what was taken for a request that came to nothing.

    A client that left, or a deadline, does not undo a prefill that has been asked for; a replica's failure or refusal
    is not the tenant's to pay for.
    """
    left = isinstance(error, ClientGone | DeadlineExceeded | SlowClient | asyncio.CancelledError)
    if left and turn is not None and turn.sent:
        lease.settle(Usage(prompt_tokens, 0, 0))
    else:
        lease.release(rejected=isinstance(error, Overloaded))
    if turn is not None:
        turn.release(0)


def delta_interval(request: GenerateRequest) -> int:
    """How many tokens the engine gathers before it tells."""
    if request.stream or request.stops:
        return 1
    # Not all at once: what an answer has used must be known when its client leaves in the middle. Logprobs are large.
    return UNSEEN_TOKENS if request.sampling.logprobs is None else UNSEEN_TOKENS // 2


class Generation:
    """A request that is being answered: its sequences, its counts and the stream of their tokens.

    Its events are `first`, then what `stream.receive` gives, until `open_sequences` is 0.
    """

    __slots__ = (
        "fingerprint",
        "first",
        "lease",
        "open_sequences",
        "prompt_tokens",
        "replica_id",
        "request",
        "sequences",
        "stream",
        "timing",
        "turn",
    )

    def __init__(
        self, request: GenerateRequest, prompt_tokens: int, dispatched: Dispatched, lease: Lease, turn: Turn
    ) -> None:
        self.request = request
        self.lease = lease
        self.turn = turn
        self.prompt_tokens = prompt_tokens
        self.sequences = [SequenceText(request.model.table, request.stops) for _ in range(request.sampling.n)]
        self.open_sequences = len(self.sequences)
        self.first = dispatched.first
        self.stream = dispatched.stream
        self.replica_id = dispatched.replica_id
        self.fingerprint = dispatched.fingerprint
        #: Of the sequence that ended last, by the engine's clock.
        self.timing = Timing()

    @property
    def usage(self) -> Usage:
        """The counts so far."""
        completion = sum(sequence.completion_tokens for sequence in self.sequences)
        return Usage(self.prompt_tokens, completion, self.stream.cached_tokens)

    def advance(self, event: Event) -> tuple[str, list[TokenEntry]]:
        """Take in one event; returns the text and the logprob entries that may be shown now.

        Raises the error that a finish reports.
        """
        index, token_ids, logprobs, finish = event
        sequence = self.sequences[index]
        if finish is not None:
            check(finish)
            self.timing = finish.timing
        if sequence.is_over():
            return "", []
        text, entries = sequence.feed(token_ids, logprobs)
        if finish is not None:
            rest, more = sequence.finish(finish)
            text, entries = text + rest, entries + more
        if sequence.is_over():
            self.open_sequences -= 1
        return text, entries

    def close(self) -> None:
        """End it, upstream too if it is still running, and settle what it used. Idempotent."""
        usage = self.usage
        self.stream.close()
        self.lease.settle(usage)
        self.turn.release(usage.completion)
