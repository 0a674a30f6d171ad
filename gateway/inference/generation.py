"""A generation: a request being answered, with its sequences, token counts and event stream."""

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from gateway.filtering.filters.answer_text import FindingSource
from gateway.filtering.filters.filter_policy import NewScreen
from gateway.inference.generate_request import GenerateRequest, NewParser
from gateway.inference.parsed_answer import ParsedAnswer
from gateway.inference.prompt_encoding import EncodedPrompt, prompt_end
from gateway.inference.screened_deltas import ScreenedDeltas, hash_into
from gateway.scheduling.admission import Admission
from gateway.tenancy.limits.limiter import Lease, Usage
from gateway.text.parsing.delta import Delta
from gateway.text.sequence_text import SequenceText, TokenEntry
from gateway.text.tokens.detokenizer import TokenTable
from observability.digests import TextDigest
from protos.types import FinishReason, Timing
from routing.contracts.transport import Event, Relay
from routing.dispatch.dispatch import Dispatched
from routing.estimates.decode_length import Origin


def new_answers(
    new_parser: NewParser,
    table: TokenTable,
    prompt_ids: Sequence[int],
    count: int,
    new_screen: NewScreen | None,
    patient: bool,
) -> list[ParsedAnswer] | None:
    """Make `count` parsers with their screens; None where the answer needs no parsing."""
    end = prompt_end(table, prompt_ids)
    parsers = [new_parser(end, whole=patient) for _ in range(count)]
    answers = [
        ParsedAnswer(parser, None if new_screen is None else ScreenedDeltas(new_screen, patient=patient))
        for parser in parsers
        if parser is not None
    ]
    return answers or None


class Generation:
    """A request that is being answered: its sequences, token counts and event stream.

    Its events are `first`, then what `stream.receive` returns, until `open_sequences` is 0.
    """

    # Defaults of what most requests never set: they cost a request nothing.
    #: The parsers of the sequences; None: the sequences are plain text.
    answers: list[ParsedAnswer] | None = None
    #: Digests of each sequence's shown text, where the sequences do not compute them.
    digests: list[TextDigest] | None = None
    #: Timing of the sequence that ended last, by the engine's clock.
    timing = Timing()
    #: Makes whoever gathers a whole answer forget a sequence, which then begins again.
    on_begin_again: Callable[[int], None] | None = None
    #: The counts, once it is closed.
    _final: Usage | None = None

    def __init__(
        self,
        request: GenerateRequest,
        prompt: EncodedPrompt,
        dispatched: Dispatched,
        lease: Lease,
        admission: Admission,
        origin: Origin,
    ) -> None:
        """By `origin` the answer's length is learned."""
        self.request = request
        self.lease = lease
        self.admission = admission
        self._origin = origin
        self.prompt_tokens = prompt.tokens
        self.stream = dispatched.stream
        self.first = dispatched.first
        self.fingerprint = dispatched.fingerprint
        table, stops, screening = request.model.table, request.stops, None
        if request.filter is not None:
            screening = request.filter.screening
        patient = not request.stream
        if request.parser is not None and dispatched.stream.relay is None:
            table = request.model.marked_table or table
            self.answers = new_answers(request.parser, table, prompt.ids, request.sampling.n, screening, patient)
            if self.answers is not None:
                # Screens see the parsed text that clients get, not the model's marks around it.
                screening = None
        #: The table that turns the sequences' tokens into text.
        self.table = table
        self.sequences = [SequenceText(table, stops, screening, patient=patient)]
        self.open_sequences = count = request.sampling.n
        if count > 1:
            self.sequences += [SequenceText(table, stops, screening, patient=patient) for _ in range(1, count)]
        if request.guide is not None and patient:
            self.stream.begin_again = partial(self._begin_again, prompt.ids)

    @property
    def replica_id(self) -> str:
        """The replica that answers now, or answered last."""
        return self.stream.replica_id

    @property
    def reasoning_tokens(self) -> int:
        """Tokens of reasoning in the answers so far, as far as they can be counted."""
        if self.stream.relay is not None:
            counts = self.stream.relay.counts
            return 0 if counts is None else counts.reasoning
        return sum(answer.reasoning_tokens for answer in self.answers or ())

    @property
    def usage(self) -> Usage:
        """The token counts so far; for a relayed answer the upstream's own, once it has reported them."""
        if self._final is not None:
            return self._final
        stream, sequences = self.stream, self.sequences
        if stream.relay is not None:
            return self._relayed(stream.relay)
        completion = sequences[0].completion_tokens
        if len(sequences) > 1:
            completion = sum([sequence.completion_tokens for sequence in sequences])
        return Usage(self.prompt_tokens, completion, self.stream.cached_tokens)

    def _relayed(self, relay: Relay) -> Usage:
        """The upstream's counts as far as it has told them, in place of the gateway's estimates."""
        told, completion = relay.counts, relay.seen
        if told is None:
            return Usage(self.prompt_tokens, completion, 0)
        if told.completion is not None and (told.completion > completion or self.stream.counts is not None):
            completion = told.completion
        prompt = self.prompt_tokens if told.prompt is None else told.prompt
        return Usage(prompt, completion, told.cached, self.request.model.price.extra_nano(told))

    def advance(self, event: Event) -> tuple[str, list[TokenEntry]]:
        """Take in one event; return the text and the logprob entries that may be shown now."""
        index, token_ids, logprobs, finish = event
        sequence = self.sequences[index]
        if finish is not None:
            self.timing = finish.timing
        if sequence.finish_reason is not None:
            return "", []
        if finish is not None:
            shown = sequence.feed_last(token_ids, logprobs, finish)
            self._ended(sequence)
            return shown
        shown = sequence.feed(token_ids, logprobs)
        if sequence.is_over():
            self.cut_off(index)
        return shown

    def cut_off(self, index: int) -> None:
        """End a sequence before its engine has ended it; called once."""
        self._ended(self.sequences[index])
        self.stream.dismiss(index)

    def _begin_again(self, prompt_ids: Sequence[int], index: int) -> None:
        """Forget all of a sequence, of which nothing has been shown."""
        request, lost = self.request, self.sequences[index]
        screening = None if request.filter is None else request.filter.screening
        self.first = [event for event in self.first if event[0] != index]
        if self.answers is not None and request.parser is not None:
            made = new_answers(request.parser, self.table, prompt_ids, 1, screening, patient=True)
            assert made is not None, "the same prompt had a parser before"
            before = self.answers[index].screened
            if before is not None and before.shown is not None and made[0].screened is not None:
                made[0].screened.shown = before.shown.begin_again()
                if self.digests is not None:
                    self.digests[index] = made[0].screened.shown
            self.answers[index], screening = made[0], None
        self.sequences[index] = SequenceText(self.table, request.stops, screening, patient=True)
        if lost.shown is not None:
            self.sequences[index].shown = lost.shown.begin_again()
        if self.on_begin_again is not None:
            self.on_begin_again(index)

    def note_shown(self, index: int, deltas: Sequence[Delta]) -> None:
        """Add deltas that guards let pass to the digest of what is shown."""
        if self.digests is not None:
            hash_into(self.digests[index], deltas)

    def _ended(self, sequence: SequenceText) -> None:
        self.open_sequences -= 1
        if not self.open_sequences:
            self.request.record.last_token = monotonic()
        cut = sequence.finish_reason is FinishReason.LENGTH
        self.request.model.lengths.learn(self._origin, self.prompt_tokens, sequence.completion_tokens, cut=cut)

    def close(self) -> None:
        """End the stream, also upstream, and settle what was used. Idempotent."""
        if self._final is not None:
            return
        usage = self.usage
        if self.stream.relay is not None and self.stream.counts is not None:
            cut = self.stream.counts.reason is FinishReason.LENGTH
            tokens = usage.completion // len(self.sequences)
            self.request.model.lengths.learn(self._origin, self.prompt_tokens, tokens, cut=cut)
        self.stream.close()
        self.lease.settle(usage)
        self.admission.release(usage.completion)
        self._final = usage

    def record_findings(self) -> None:
        """Record what filters found in the answers."""
        filter_ = self.request.filter
        if filter_ is None:
            return
        sources: dict[int, list[FindingSource]] = {}
        for index, sequence in enumerate(self.sequences):
            screen = sequence.screen
            if screen is not None and screen.noted:
                sources[index] = [screen]
        for index, answer in enumerate(self.answers or ()):
            if answer.screened is not None:
                sources[index] = answer.screened.sources
        if sources:
            filter_.record(sources)
        if filter_.guarded:
            filter_.record_guarded()
