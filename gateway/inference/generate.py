"""THE request path: from a decoded request to a generation under way."""

import asyncio
from collections.abc import Sequence
from time import monotonic

import msgspec

from gateway.filtering.filters.answer_text import Looked
from gateway.filtering.filters.filter_policy import NewScreen
from gateway.inference.explained_candidates import explained_desk
from gateway.inference.generate_request import GenerateRequest, NewParser, unrecorded
from gateway.inference.needs import checked_needs, name_guide
from gateway.inference.parsed_answer import ParsedAnswer
from gateway.inference.prompt_encoding import EncodedPrompt, encode_prompt, estimated_prompt
from gateway.inference.screened_deltas import ScreenedDeltas, hash_into
from gateway.inference.token_bounds import bound_to_tell, output_bound
from gateway.scheduling.admission import Turn, TurnRequest
from gateway.scheduling.encoding_turns import EncodingTurns
from gateway.tenancy.limits.limiter import Ask, Lease, Limiter, Usage
from gateway.text.parsing.delta import Delta
from gateway.text.sequence_text import SequenceText, TokenEntry
from gateway.text.tokens.detokenizer import TokenTable, whole_text
from observability.digests import TextDigest
from observability.tracing.trace_context import context_to_send
from protos.errors import ClientGone, DeadlineExceeded, Overloaded, PenstockError, SlowClient
from protos.types import FinishReason, Payload, Submit, Timing
from routing.contracts.explained_policy import ExplainedPolicy
from routing.contracts.policy import RouteRequest, RoutingPolicy
from routing.contracts.transport import Event
from routing.dispatch.dispatch import Attempt, Dispatched, dispatch
from routing.estimates.decode_length import Origin

#: Longer bodies are tokenized off the event loop: at 20 MB/s this much holds it up for under a millisecond.
INLINE_BYTES = 16 * 1024
#: Of an answer that is not streamed, at most so many tokens less one are not known of when it is cut short.
UNSEEN_TOKENS = 32
#: Of a prompt so many tokens tell whether its answer begins within a thought.
PROMPT_END_TOKENS = 16


async def generate(
    request: GenerateRequest,
    limiter: Limiter,
    encoding: EncodingTurns,
    attempt: Attempt,
    wait_until: float,
    deadline: float,
    explained: ExplainedPolicy | None = None,
    payload: Payload | None = None,
) -> "Generation":
    """Start a generation; it has begun to answer when this returns, and its owner must `close` it.

    It waits for its turn until `wait_until` and must have ended at `deadline`, both on the monotonic clock;
    `attempt.fail` ends it from outside at any moment. `explained` notes why it goes where it goes; `payload` is the
    request for replicas that speak its API. Raises the errors of protos/errors.py.
    """
    model, caller, sampling, record = request.model, request.caller, request.sampling, request.record
    # The stages are those of the first model that came so far as to ask a replica.
    stages = unrecorded() if record.sent else record
    stages.reserved = stages.admitted = 0.0
    needs = checked_needs(request)
    prompt = await encoded(request, encoding, attempt)
    stages.encoded = monotonic()
    prompt_tokens, max_tokens = prompt.tokens, output_bound(request, prompt.tokens)
    ask = Ask(model.plans.of(caller), prompt_tokens, max_tokens * sampling.n, sampling.n)
    try:
        lease = await limiter.reserve(ask)
    except PenstockError:
        record.rejected_tokens = prompt_tokens
        raise
    stages.reserved, record.reserved_tokens = monotonic(), prompt_tokens + lease.output
    turn: Turn | None = None
    try:
        route = route_request(request, prompt, max_tokens, deadline, needs)
        wanted = turn_request(request, route, lease.output, wait_until, explained)
        desk = model.desk if explained is None else explained_desk(model, wanted, explained)
        turn = model.turnstile.try_enter(wanted) or await model.turnstile.enter(wanted, attempt)
        stages.admitted = monotonic()
        record.policy = model.policy_name
        if payload is not None and request.max_tokens is None:
            payload = msgspec.structs.replace(payload, max_tokens=bound_to_tell(request, max_tokens))
        submit = Submit(
            request_id=request.id,
            prompt_ids=prompt.ids,
            max_tokens=max_tokens,
            sampling=sampling,
            delta_interval=delta_interval(request),
            cache_salt=model.salt(caller.cache_owner),
            adapter=model.adapter,
            guide=request.guide,
            payload=payload,
            trace=context_to_send(record),
        )
        stages.sent = monotonic()
        dispatched = await dispatch(desk, turn.route, submit, attempt, turn, record)
    except BaseException as error:
        end_unanswered(lease, turn, prompt_tokens, error, request)
        name_guide(error, request)
        raise
    record.first_token = monotonic()
    return Generation(request, prompt, dispatched, lease, turn)


async def encoded(request: GenerateRequest, encoding: EncodingTurns, attempt: Attempt) -> EncodedPrompt:
    """The prompt's token ids, or how many there may be. Raises InvalidRequest, or what `attempt` is failed with."""
    if request.opaque:
        return estimated_prompt(request.size)
    if request.size > INLINE_BYTES:
        tenant = request.caller.tenant.name
        ids = await encoding.run(attempt, tenant, encode_prompt, request.model, request.prompt)
    else:
        ids = encode_prompt(request.model, request.prompt)
    return EncodedPrompt(ids, len(ids))


def route_request(
    request: GenerateRequest, prompt: EncodedPrompt, max_tokens: int, deadline: float, needs: int
) -> RouteRequest:
    """What a decision must know of a request. Tenants do not share cached prefixes, so theirs alone are looked up."""
    model, caller = request.model, request.caller
    prefix = model.desk.look_up(prompt.ids, model.salt(caller.cache_owner))
    return RouteRequest(
        request_id=request.id,
        prompt_tokens=prompt.tokens,
        max_tokens=max_tokens,
        n=request.sampling.n,
        expected_output=model.lengths.expected(origin_of(request), prompt.tokens, max_tokens),
        cached=prefix.cached,
        chain=prefix.chain,
        arrived=request.arrived,
        now=model.desk.clock(),
        deadline=deadline,
        rank=caller.rank,
        may_wait=True,
        needs=needs,
        adapter=model.adapter_name,
    )


def origin_of(request: GenerateRequest) -> Origin:
    """What answers' lengths are told apart by."""
    return Origin(request.model.name, request.caller.tenant.name, request.id)


def turn_request(
    request: GenerateRequest,
    route: RouteRequest,
    expected_output: int,
    wait_until: float,
    policy: RoutingPolicy | None = None,
) -> TurnRequest:
    """What the queue must know of a request and its tenant; `policy` decides instead of the model's."""
    caller, tier = request.caller, request.caller.tier
    waiting = caller.tenant.waiting
    return TurnRequest(
        request_id=request.id,
        tenant=caller.queue_name,
        rank=caller.rank,
        weight=tier.weight,
        reserved=tier.reserved,
        route=route,
        expected_output=expected_output,
        n=request.sampling.n,
        wait_until=min(wait_until, request.arrived + waiting.max_seconds),
        max_waiting=waiting.max_requests,
        policy=policy,
    )


def end_unanswered(
    lease: Lease, turn: Turn | None, prompt_tokens: int, error: BaseException, request: GenerateRequest
) -> None:
    """End what was taken for a request that came to nothing.

    A client that left, or a deadline, does not undo a prefill that has been asked for; a replica's failure or refusal
    is not the tenant's to pay for.
    """
    record = request.record
    left = isinstance(error, ClientGone | DeadlineExceeded | SlowClient | asyncio.CancelledError)
    if left and turn is not None and turn.sent:
        lease.settle(Usage(prompt_tokens, 0, 0))
        record.prompt_tokens, record.cost_nano_usd = prompt_tokens, request.model.price.nano(prompt_tokens, 0, 0)
    else:
        lease.release(rejected=isinstance(error, Overloaded))
        record.rejected_tokens = prompt_tokens if isinstance(error, Overloaded) else 0
    if turn is not None:
        turn.release(0)


def delta_interval(request: GenerateRequest) -> int:
    """How many tokens the engine gathers before it tells."""
    if request.stream or request.stops:
        return 1
    # Not all at once: what an answer has used must be known when its client leaves in the middle. Logprobs are large.
    return UNSEEN_TOKENS if request.sampling.logprobs is None else UNSEEN_TOKENS // 2


def new_answers(
    new_parser: NewParser,
    table: TokenTable,
    prompt_ids: list[int],
    count: int,
    new_screen: NewScreen | None,
    patient: bool,
) -> list[ParsedAnswer] | None:
    """What takes so many answers apart, each from its begin, and screens it; None: there is nothing to take apart."""
    ends = prompt_ids[-PROMPT_END_TOKENS:]
    # What a control token that is no mark parts from the end is a message's, and may say anything.
    begin = next((place for place in range(len(ends), 0, -1) if not table.token_bytes(ends[place - 1])), 0)
    prompt_end = whole_text(table, ends[begin:])
    parsers = [new_parser(prompt_end) for _ in range(count)]
    answers = [
        ParsedAnswer(parser, None if new_screen is None else ScreenedDeltas(new_screen, patient=patient))
        for parser in parsers
        if parser is not None
    ]
    return answers or None


class Generation:
    """A request that is being answered: its sequences, its counts and the stream of their tokens.

    Its events are `first`, then what `stream.receive` gives, until `open_sequences` is 0.
    """

    __slots__ = (
        "_closed",
        "answers",
        "digests",
        "fingerprint",
        "first",
        "lease",
        "open_sequences",
        "prompt_tokens",
        "request",
        "sequences",
        "stream",
        "table",
        "timing",
        "turn",
    )

    def __init__(
        self, request: GenerateRequest, prompt: EncodedPrompt, dispatched: Dispatched, lease: Lease, turn: Turn
    ) -> None:
        self.request = request
        self.lease = lease
        self.turn = turn
        self.prompt_tokens = prompt.tokens
        table, stops = request.model.table, request.stops
        screening = None if request.filter is None else request.filter.screening
        patient = not request.stream
        #: What takes the sequences apart; None: they are text.
        self.answers: list[ParsedAnswer] | None = None
        if request.parser is not None and dispatched.stream.relay is None:
            table = request.model.marked_table or table
            self.answers = new_answers(request.parser, table, prompt.ids, request.sampling.n, screening, patient)
        if self.answers is not None:
            # What clients see is screened, and not the marks that models put around it.
            screening = None
        #: What their tokens write.
        self.table = table
        self.sequences = [SequenceText(table, stops, screening, patient=patient) for _ in range(request.sampling.n)]
        #: Hashes of what is shown of each, where others know it than the sequences.
        self.digests: list[TextDigest] | None = None
        self.open_sequences = len(self.sequences)
        self.first = dispatched.first
        self.stream = dispatched.stream
        self.fingerprint = dispatched.fingerprint
        #: Of the sequence that ended last, by the engine's clock.
        self.timing = Timing()
        self._closed = False

    @property
    def replica_id(self) -> str:
        """Where it is answered now, or was last."""
        return self.stream.replica_id

    @property
    def reasoning_tokens(self) -> int:
        """How many of the answers' tokens so far were thoughts, as far as that is known."""
        if self.stream.relay is not None:
            return self.stream.relay.reasoning_tokens
        return sum(answer.reasoning_tokens for answer in self.answers or ())

    @property
    def usage(self) -> Usage:
        """The counts so far: of a relayed answer, the upstream's once it has told them."""
        stream = self.stream
        if stream.relay is not None:
            counts = stream.counts
            if counts is None:
                return Usage(self.prompt_tokens, stream.relay.seen, 0)
            return Usage(counts.prompt_tokens or self.prompt_tokens, counts.completion_tokens, counts.cached_tokens)
        completion = sum([sequence.completion_tokens for sequence in self.sequences])
        return Usage(self.prompt_tokens, completion, self.stream.cached_tokens)

    def advance(self, event: Event) -> tuple[str, list[TokenEntry]]:
        """Take in one event; returns the text and the logprob entries that may be shown now."""
        index, token_ids, logprobs, finish = event
        sequence = self.sequences[index]
        if finish is not None:
            self.timing = finish.timing
        if sequence.is_over():
            return "", []
        text, entries = sequence.feed(token_ids, logprobs)
        if finish is not None:
            rest, more = sequence.finish(finish)
            text, entries = text + rest, entries + more
        if sequence.is_over():
            if finish is None:
                self.cut_off(index)
            else:
                self._ended(sequence)
        return text, entries

    def cut_off(self, index: int) -> None:
        """A sequence is over before its engine has ended it; called once."""
        self._ended(self.sequences[index])
        self.stream.dismiss(index)

    def note_shown(self, index: int, deltas: Sequence[Delta]) -> None:
        """Judges have let that pass."""
        if self.digests is not None:
            hash_into(self.digests[index], deltas)

    def _ended(self, sequence: SequenceText) -> None:
        self.open_sequences -= 1
        if not self.open_sequences:
            self.request.record.last_token = monotonic()
        self._learn(sequence)

    def _learn(self, sequence: SequenceText) -> None:
        self._learn_length(sequence.completion_tokens, cut=sequence.finish_reason is FinishReason.LENGTH)

    def _learn_length(self, tokens: int, *, cut: bool) -> None:
        self.request.model.lengths.learn(origin_of(self.request), self.prompt_tokens, tokens, cut=cut)

    def close(self) -> None:
        """End it, upstream too if it is still running, and settle what it used. Idempotent."""
        if self._closed:
            return
        usage = self.usage
        if self.stream.relay is not None and self.stream.counts is not None:
            cut = self.stream.counts.reason is FinishReason.LENGTH
            self._learn_length(usage.completion // len(self.sequences), cut=cut)
        self.stream.close()
        self.lease.settle(usage)
        self.turn.release(usage.completion)
        self._closed = True

    def record_findings(self) -> None:
        """Write down what filters found in the answers."""
        filter_ = self.request.filter
        if filter_ is None:
            return
        looked: dict[int, list[Looked]] = {}
        for index, sequence in enumerate(self.sequences):
            screen = sequence.screen
            if screen is not None and screen.noted:
                looked[index] = [screen]
        for index, answer in enumerate(self.answers or ()):
            if answer.screened is not None:
                looked[index] = answer.screened.looked
        if looked:
            filter_.record(looked)
        if filter_.judged:
            filter_.record_judged()
