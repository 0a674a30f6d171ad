"""Write answer details (token ids, prompt logprobs, echo) into chunks and bodies, under vLLM's names for them."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from orjson import dumps

from gateway.api.openai.chat_renderer import ChatRenderer
from gateway.api.openai.completion_api import CompletionApi, token_text
from gateway.api.writers.api_adapter import AnswerHead, Choice, Counts, Frame
from gateway.api.writers.parsed_encoder import StreamEncoder
from gateway.inference.detailed_generation import DetailedGeneration
from gateway.inference.generate_request import AnswerDetails
from gateway.inference.generation import Generation
from gateway.models.served_model import ServedModel
from gateway.text.parsing.delta import Delta, Reasoning, Text
from gateway.text.sequence_text import TokenEntry
from protos.errors import PenstockError
from protos.types import FinishReason, TokenLogprobs
from routing.contracts.transport import Event

#: Each choice in a chunk has it. No text can hold it: JSON escapes its quotes.
_FINISH: Final = b'"finish_reason":'
_CHOICES: Final = b',"choices":['
_END_OF_CHUNK: Final = b"\n\n"


def wanted_entries(entries: Sequence[TokenEntry], details: AnswerDetails) -> list[TokenEntry]:
    """Leave the alternatives that the client wants; the engine may have been asked for more."""
    most = details.logprobs or 0
    return [
        entry
        if len(entry.logprobs.top) <= most
        else entry._replace(logprobs=msgspec.structs.replace(entry.logprobs, top=entry.logprobs.top[:most]))
        for entry in entries
    ]


def details_of_prompt(generation: DetailedGeneration, index: int) -> dict[str, Any]:
    """Give what is to be told of the prompt of a sequence. Raises ReplicaFailed."""
    details, shown = generation.request.details, dict[str, Any]()
    if details is not None and details.token_ids:
        shown["prompt_token_ids"] = generation.prompt_ids(index)
    if details is not None and details.prompt_logprobs is not None:
        model, most = generation.request.model, details.prompt_logprobs
        scored = zip(generation.prompt_ids(index)[1:], generation.prompt_scores(index), strict=True)
        # Nothing comes before the first token that could make it likely.
        shown["prompt_logprobs"] = [None, *(_scores(token_id, one, most, model) for token_id, one in scored)]
    return shown


def details_of_choice(generation: DetailedGeneration, index: int) -> dict[str, Any]:
    """Give what a text completion's choice has beside, its prompt's details included. Raises ReplicaFailed."""
    return details_of_prompt(generation, index) | _own_ids(generation, index)


def _own_ids(generation: DetailedGeneration, index: int) -> dict[str, Any]:
    details = generation.request.details
    return {"token_ids": generation.answer_ids(index)} if details is not None and details.token_ids else {}


def _scores(token_id: int, scores: TokenLogprobs, most: int, model: ServedModel) -> dict[str, Any]:
    """Tell a token and its alternatives by their ids; a rank is known of the likeliest alone."""
    ranked = {other: (logprob, rank) for rank, (other, logprob) in enumerate(scores.top, 1)}
    shown = dict(list(ranked.items())[:most])
    shown.setdefault(token_id, ranked.get(token_id, (scores.chosen, None)))  # type: ignore[arg-type]
    return {
        str(one): {"logprob": logprob, "rank": rank, "decoded_token": token_text(one, model)}
        for one, (logprob, rank) in shown.items()
    }


class DetailedChatRenderer(ChatRenderer):
    """The `Renderer` of chats that show more than their text, or less."""

    def __init__(
        self,
        api: CompletionApi,
        model: ServedModel,
        head: AnswerHead,
        count: int,
        *,
        usage: bool,
        generation: Generation,
    ) -> None:
        super().__init__(api, model, head, count, usage=usage)
        self._generation = generation
        self._details = generation.request.details or AnswerDetails()

    def frame(self, index: int, kind: Delta) -> Frame | None:
        if isinstance(kind, Reasoning) and not self._details.thoughts:
            return None
        return super().frame(index, kind)

    def render(self, index: int, deltas: Sequence[Delta], finish: FinishReason | None) -> bytes:
        if not self._details.thoughts:
            deltas = [delta for delta in deltas if not isinstance(delta, Reasoning)]
        return super().render(index, deltas, finish)

    def answer(self, choices: Sequence[Choice], counts: Counts) -> dict[str, Any]:
        shown = super().answer(choices, counts)
        generation = self._generation
        return shown | details_of_prompt(generation, 0) if isinstance(generation, DetailedGeneration) else shown

    def choice(self, index: int, choice: Choice) -> dict[str, Any]:
        if not self._details.thoughts:
            parts = tuple(part for part in choice.parts if not isinstance(part, Reasoning))
            choice = msgspec.structs.replace(choice, parts=parts)
        if self._details.echo:
            choice = msgspec.structs.replace(choice, parts=(Text(self._details.echo[index]), *choice.parts))
        shown, generation = super().choice(index, choice), self._generation
        return shown | _own_ids(generation, index) if isinstance(generation, DetailedGeneration) else shown

    def logprobs(self, entries: list[TokenEntry]) -> dict[str, Any] | None:
        if self._details.logprobs is None:
            return None
        return super().logprobs(wanted_entries(entries, self._details))


def detailed_stream(encoder: StreamEncoder, generation: Generation, *, chat: bool) -> StreamEncoder:
    """Let the encoder of a `chat` or a text completion tell what is to be told beside the text."""
    details = generation.request.details
    if details is None:
        return encoder
    if chat and details.echo:
        encoder = EchoEncoder(encoder, details.echo)
    if not details.token_ids or not isinstance(generation, DetailedGeneration):
        return encoder
    return TokenIdsEncoder(encoder, generation, chat=chat)


class EchoEncoder:
    """The `StreamEncoder` of another one, of a chat whose answers begin with a text that is not the model's."""

    def __init__(self, encoder: StreamEncoder, echo: Sequence[str]) -> None:
        """`echo` has the text of each choice."""
        self._encoder = encoder
        self._echo = echo
        self.encode, self.render, self.finish = encoder.encode, encoder.render, encoder.finish
        self.closing, self.broken = encoder.closing, encoder.broken

    def opening(self) -> bytes:
        texts = [self._encoder.render(index, [Text(text)]) for index, text in enumerate(self._echo)]
        return self._encoder.opening() + b"".join(texts)


class TokenIdsEncoder:
    """The `StreamEncoder` of another one, which adds token ids: in each choice those of the answer that are new, and
    those of the prompt once, in a chat's first chunk, or in the first one of each choice of a text completion.
    """

    def __init__(self, encoder: StreamEncoder, generation: DetailedGeneration, *, chat: bool) -> None:
        self._encoder = encoder
        self._generation = generation
        self._chat = chat
        #: How many of a sequence's tokens have been told; None: not even its prompt's.
        self._told: list[int | None] = [None] * len(generation.sequences)

    def opening(self) -> bytes:
        chunks, count = self._encoder.opening().split(_END_OF_CHUNK)[:-1], len(self._told)
        # One of each choice, and then one for each text that is echoed.
        return b"".join([self._with_ids(number % count, chunk + _END_OF_CHUNK) for number, chunk in enumerate(chunks)])

    def encode(self, events: list[Event]) -> bytes:
        # One by one: each chunk has the tokens of its own event.
        return b"".join([self._with_ids(event[0], self._encoder.encode([event])) for event in events])

    def render(self, index: int, deltas: Sequence[Delta]) -> bytes:
        return self._with_ids(index, self._encoder.render(index, deltas))

    def finish(self, index: int, reason: FinishReason) -> bytes:
        return self._with_ids(index, self._encoder.finish(index, reason))

    def closing(self) -> bytes:
        return self._encoder.closing()

    def broken(self, error: PenstockError) -> bytes:
        return self._encoder.broken(error)

    def _with_ids(self, index: int, chunks: bytes) -> bytes:
        """Add the ids to the first of the chunks of a choice, and none to the others."""
        if not chunks:
            return chunks
        told, ids = self._told[index], self._generation.answer_ids(index)
        self._told[index] = len(ids or ())
        none = b"null" if ids is None else b"[]"
        new = b'"token_ids":%b,%b' % (none if ids is None else dumps(ids[told or 0 :]), _FINISH)
        if told is None:
            of_prompt = b'"prompt_token_ids":%b' % dumps(self._generation.prompt_ids(index))
            if not self._chat:
                new = b"%b,%b" % (of_prompt, new)
            elif index == 0:
                chunks = chunks.replace(_CHOICES, b",%b%b" % (of_prompt, _CHOICES), 1)
        first, *others = chunks.split(_FINISH)
        rest = (b'"token_ids":%b,%b' % (none, _FINISH)).join(others)
        return first + new + rest if others else first
