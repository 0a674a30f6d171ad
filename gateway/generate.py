"""THE request path: from a decoded request to a generation under way."""

import asyncio
from typing import Any

import msgspec

from gateway.sequence import SequenceText, TokenEntry
from gateway.served_model import ServedModel
from gateway.tokens.chat_format import TemplateError
from protos.errors import ContextLengthExceeded, InvalidRequest
from protos.types import Sampling, Submit, Timing
from routing.dispatch import Attempt, Dispatched, check, dispatch
from routing.policy import RouteRequest
from routing.transport import Event

#: Longer bodies are tokenized off the event loop: at 20 MB/s this much holds it up for under a millisecond.
INLINE_BYTES = 16 * 1024
#: Of one request, over all its tokens and sequences.
MAX_LOGPROB_ENTRIES = 100_000


class Chat(msgspec.Struct, frozen=True):
    """A prompt as messages, for the model's chat template."""

    messages: list[dict[str, Any]]


class GenerateRequest(msgspec.Struct, frozen=True):
    """One request, free of any API's dialect. `size` is the body's length in bytes, `max_tokens` None: all that fits,
    `arrived` is on the monotonic clock. `max_tokens_param` is what the client called the limit.

    `prompt` is messages, text to be tokenized as it is, or token ids.
    """

    id: str
    model: ServedModel
    prompt: Chat | str | list[int]
    size: int
    sampling: Sampling
    max_tokens: int | None
    stops: tuple[str, ...]
    stream: bool
    arrived: float
    max_tokens_param: str = "max_tokens"


class Usage(msgspec.Struct, frozen=True):
    """Token counts over all sequences; `cached` of the prompt's tokens were in the replica's KV cache."""

    prompt: int
    completion: int
    cached: int


async def generate(request: GenerateRequest, attempt: Attempt) -> "Generation":
    """Start a generation; it has begun to answer when this returns, and its owner must `close` it.

    `attempt.fail` ends it from outside at any moment. Raises the errors of protos/errors.py.
    """
    model = request.model
    if request.size > INLINE_BYTES:
        prompt_ids = await asyncio.to_thread(encode_prompt, model, request.prompt)
    else:
        prompt_ids = encode_prompt(model, request.prompt)
    max_tokens = logprobs_budget(request, output_budget(request, len(prompt_ids)))
    submit = Submit(
        request_id=request.id,
        prompt_ids=prompt_ids,
        max_tokens=max_tokens,
        sampling=request.sampling,
        delta_interval=delta_interval(request),
    )
    route = RouteRequest(request.id, len(prompt_ids), max_tokens)
    dispatched = await dispatch(model.fleet, model.policy, route, submit, attempt)
    return Generation(request, len(prompt_ids), dispatched)


def encode_prompt(model: ServedModel, prompt: Chat | str | list[int]) -> list[int]:
    """Token ids of a prompt. Raises InvalidRequest for what the chat template or the vocabulary refuses."""
    if isinstance(prompt, Chat):
        try:
            return model.chat_format.encode_chat(model.tokenizer, prompt.messages)
        except TemplateError as error:
            raise InvalidRequest(
                f"The model's chat template refuses these messages: {error}", param="messages"
            ) from None
    if isinstance(prompt, str):
        ids = model.tokenizer.encode(prompt, special=False)
        return ids if model.tokenizer.bos_id is None else [model.tokenizer.bos_id, *ids]
    outside = next((token for token in prompt if not 0 <= token < model.tokenizer.vocab_size), None)
    if outside is not None:
        raise InvalidRequest(
            f"Invalid value for 'prompt': token id {outside} is not in the vocabulary.", param="prompt"
        )
    return prompt


def output_budget(request: GenerateRequest, prompt_tokens: int) -> int:
    """Tokens the answer may have. Raises ContextLengthExceeded with both figures and the parameter at fault."""
    context, max_tokens = request.model.context, request.max_tokens
    room = context - prompt_tokens
    if room < 1:
        raise ContextLengthExceeded(
            f"This model's maximum context length is {context} tokens. However, your prompt resulted in "
            f"{prompt_tokens} tokens. Please reduce the length of the prompt.",
            param="messages" if isinstance(request.prompt, Chat) else "prompt",
        )
    if max_tokens is None:
        return room
    if max_tokens > room:
        raise ContextLengthExceeded(
            f"This model's maximum context length is {context} tokens. However, you requested "
            f"{prompt_tokens + max_tokens} tokens ({prompt_tokens} in the prompt, {max_tokens} in the completion). "
            "Please reduce the length of the prompt or completion.",
            param=request.max_tokens_param,
        )
    return max_tokens


def logprobs_budget(request: GenerateRequest, max_tokens: int) -> int:
    """Tokens the answer may have when each carries logprobs, which take 500 bytes an entry in a worker.

    Raises InvalidRequest when the client asks for more by name; a limit that it left to us is lowered instead.
    """
    alternatives = request.sampling.logprobs
    if alternatives is None:
        return max_tokens
    most = max(1, MAX_LOGPROB_ENTRIES // (request.sampling.n * (1 + alternatives)))
    if request.max_tokens is not None and max_tokens > most:
        raise InvalidRequest(
            f"With these logprobs an answer may have at most {most} tokens here; ask for fewer tokens or alternatives.",
            param=request.max_tokens_param,
        )
    return min(max_tokens, most)


def delta_interval(request: GenerateRequest) -> int:
    """How many tokens the engine gathers before it tells; 0: all of them."""
    if request.stream or request.stops:
        return 1
    # Logprobs are large: in one piece a long answer's would exceed a message.
    return 0 if request.sampling.logprobs is None else 16


class Generation:
    """A request that is being answered: its sequences, its counts and the stream of their tokens.

    Its events are `first`, then what `stream.receive` gives, until `open_sequences` is 0.
    """

    __slots__ = (
        "fingerprint",
        "first",
        "open_sequences",
        "prompt_tokens",
        "replica_id",
        "request",
        "sequences",
        "stream",
        "timing",
    )

    def __init__(self, request: GenerateRequest, prompt_tokens: int, dispatched: Dispatched) -> None:
        self.request = request
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
        """End it, upstream too if it is still running. Idempotent."""
        self.stream.close()
