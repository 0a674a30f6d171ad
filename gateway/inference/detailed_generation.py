"""A generation whose answers show more than their text, or less."""

from collections.abc import Sequence

import msgspec

from gateway.inference.generate_request import Begun, Chat, GenerateRequest
from gateway.inference.generation import Generation
from gateway.inference.parsed_answer import ParsedAnswer
from gateway.inference.prompt_encoding import EncodedPrompt
from gateway.scheduling.admission import Admission
from gateway.tenancy.limits.limiter import Lease
from gateway.text.parsing.plain import PlainParser
from gateway.text.sequence_text import SequenceText, TokenEntry
from protos.errors import ReplicaFailed
from protos.types import Finish, FinishReason, TokenLogprobs
from routing.contracts.transport import Event
from routing.dispatch.dispatch import Dispatched
from routing.estimates.decode_length import Origin

#: In place of the logprobs of a prompt's first token, which has none.
_NONE = TokenLogprobs(0.0)
_END = Finish(FinishReason.LENGTH)


class DetailedGeneration(Generation):
    """A generation of a request with `details`, which knows its prompts' tokens and, where asked for, their logprobs.

    Engines make one token at least: of a silent request it is neither shown nor counted.
    """

    def __init__(
        self,
        prompts: Sequence[EncodedPrompt],
        request: GenerateRequest,
        prompt: EncodedPrompt,
        dispatched: Dispatched,
        lease: Lease,
        admission: Admission,
        origin: Origin,
    ) -> None:
        super().__init__(request, prompt, dispatched, lease, admission, origin)
        self.prompts = [one.ids for one in prompts]
        #: The logprobs of prompts by their number.
        self._scores: dict[int, tuple[TokenLogprobs, ...]] = {}
        if self.answers is None and isinstance(request.prompt, Chat | Begun):
            # What writes a chat's details takes deltas.
            self.answers = [ParsedAnswer(PlainParser()) for _ in self.sequences]

    def advance(self, event: Event) -> tuple[str, list[TokenEntry]]:
        """Take in one event, as any generation does, and keep the logprobs of its prompt."""
        index, _, _, finish = event
        if finish is not None and finish.prompt_logprobs:
            self._scores[self._prompt_of(index)] = finish.prompt_logprobs
        details = self.request.details
        if details is not None and details.silent:
            if finish is not None and finish.reason is FinishReason.STOP:
                finish = msgspec.structs.replace(finish, reason=FinishReason.LENGTH)
            event = (index, (), None, finish)
        return super().advance(event)

    def prompt_ids(self, index: int) -> list[int]:
        """Give the token ids of the prompt of a sequence."""
        return list(self.prompts[self._prompt_of(index)])

    def answer_ids(self, index: int) -> list[int] | None:
        """Give the token ids of a sequence so far; None where filters look at answers: they would tell what those hide.

        Engines that leave out the token which ends an answer leave it out here.
        """
        if self.request.filter is not None:
            return None
        return self.stream.tokens[index][: self.sequences[index].completion_tokens]

    def prompt_scores(self, index: int) -> Sequence[TokenLogprobs]:
        """Give the logprobs of the prompt's tokens after the first one.

        Raises ReplicaFailed where the engine has not given all of them.
        """
        prompt = self._prompt_of(index)
        found, count = self._scores.get(prompt, ()), len(self.prompts[prompt]) - 1
        if len(found) < count:
            raise ReplicaFailed("The model's engine gave no logprobs of the prompt.")
        # An answer that has gone on elsewhere has its own tokens after those of the prompt.
        return found[:count]

    def prompt_entries(self, index: int) -> list[TokenEntry]:
        """Give the tokens of the prompt of a sequence with their logprobs; those of the first one mean nothing.

        Raises ReplicaFailed where the engine has not given all of them.
        """
        text = SequenceText(self.table, ())
        _, entries = text.feed_last(self.prompt_ids(index), [_NONE, *self.prompt_scores(index)], _END)
        return entries

    def _prompt_of(self, index: int) -> int:
        return index * len(self.prompts) // len(self.sequences)
