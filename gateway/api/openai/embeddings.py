"""`POST /v1/embeddings` (OpenAI API reference, Embeddings). Many inputs go to the model's upstreams in batches."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.api.openai.prompt_texts import prompt_of_ids
from gateway.api.openai.vectors import VectorError, converted
from gateway.api.relay.forwarding import bad_answer, forward, prompt_count, read_request
from gateway.api.server.api_route import ApiRoute
from gateway.api.server.body_decoder import BodyDecoder
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from gateway.filtering.prompt_text import PromptText
from gateway.models.served_model import ServedModel
from protos.errors import InvalidRequest
from protos.features import Feature

#: The endpoint's name in a key's scope.
ENDPOINT: Final = "embeddings"
MAX_INPUTS: Final = 2048
#: Vectors that are decoded before the event loop runs other work.
AT_ONCE: Final = 4

_TokenId = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
Input = str | list[_TokenId]
_Truncate = Annotated[str, Meta(max_length=16)]


class EmbeddingsBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """The request body. `input_type` and the fields after it are extensions of vLLM and NVIDIA's NIM."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    input: str | Annotated[list[str | _TokenId | list[_TokenId]], Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1, le=65_536)] | None = None
    user: Annotated[str, Meta(max_length=512)] | None = None
    input_type: Annotated[str, Meta(max_length=64)] | None = None
    truncate: _Truncate | None = None
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1, le=0x7FFF_FFFF)] | None = None


class _Vector(msgspec.Struct, frozen=True):
    embedding: msgspec.Raw
    index: int | None = None


class _Answer(msgspec.Struct, frozen=True):
    data: list[_Vector]
    usage: Any = None
    #: Cohere tells its usage here.
    meta: Any = None


_decoder = BodyDecoder(EmbeddingsBody, {})
_answer: Final = msgspec.json.Decoder(_Answer)


async def embed(services: Services, exchange: HttpExchange) -> None:
    """Answer with the vectors of all inputs. Raises errors with a status."""
    async with services.intake.open(exchange, ENDPOINT) as incoming:
        forwarded = await read_request(services, incoming, _decoder, _texts)
        body, model = forwarded.body, forwarded.model
        inputs, settings = _inputs(body.input), model.embeddings
        batches = list(_batches(inputs, settings.batch))
        wanted = body.encoding_format or "float"
        written = body.encoding_format if settings.encoding == "asked" else settings.encoding
        vectors = _Vectors([len(batch) for batch in batches], wanted, body.dimensions)
        used = await forward(
            forwarded,
            Feature.EMBEDDINGS,
            "/embeddings",
            [_encoded(body, body.input if len(batches) == 1 else batch, written) for batch in batches],
            vectors.take,
            param="input",
            at_once=settings.parallel,
        )
    exchange.record.sequences = len(inputs)
    answer = msgspec.json.encode(
        {
            "object": "list",
            "data": vectors.all(),
            "model": model.shown,
            "usage": {"prompt_tokens": used.prompt, "total_tokens": used.prompt},
        }
    )
    await exchange.respond(200, answer)


class _Vectors:
    """The vectors of the upstreams' answers, which come batch by batch in any order."""

    def __init__(self, sizes: Sequence[int], encoding: Literal["float", "base64"], dimensions: int | None) -> None:
        """`sizes` of the batches; `dimensions` None: those of the first vector that comes."""
        self._sizes = sizes
        self._encoding = encoding
        self._dimensions = dimensions
        self._found: dict[int, list[msgspec.Raw]] = {}

    async def take(self, index: int, body: bytes) -> int | None:
        """Take the answer to one batch and return its token count. Raises ReplicaFailed for an invalid answer."""
        try:
            answer = _answer.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise bad_answer("its answer is no list of embeddings") from None
        size, data = self._sizes[index], answer.data
        places = [at if one.index is None else one.index for at, one in enumerate(data)]
        if sorted(places) != list(range(size)):
            raise bad_answer(f"it answers with {len(data)} embeddings or wrong places for {size} inputs")
        found: dict[int, msgspec.Raw] = {}
        for at, (place, one) in enumerate(zip(places, data, strict=True)):
            if at % AT_ONCE == AT_ONCE - 1:
                # Long vectors take a good part of a millisecond each; streams must not wait for all of them.
                await asyncio.sleep(0)
            try:
                vector, dimensions = converted(one.embedding, self._encoding)
            except VectorError as error:
                raise bad_answer(f"an embedding {error}") from None
            if self._dimensions is None:
                self._dimensions = dimensions
            elif dimensions != self._dimensions:
                raise bad_answer(f"an embedding has {dimensions} dimensions and not {self._dimensions}")
            found[place] = vector
        self._found[index] = [found[place] for place in range(size)]
        return prompt_count(answer.usage, answer.meta)

    def all(self) -> list[dict[str, Any]]:
        """Return the API's `data`."""
        vectors = [vector for index in range(len(self._sizes)) for vector in self._found[index]]
        return [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]


def _encoded(body: EmbeddingsBody, given: Any, encoding: Literal["float", "base64"] | None) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(body, input=given, encoding_format=encoding))


def _inputs(given: str | list[str | int | list[int]]) -> list[Input]:
    """Split the inputs. Raises InvalidRequest."""
    if isinstance(given, str):
        _check_some(given, "input")
        return [given]
    ids = [item for item in given if isinstance(item, int)]
    if len(ids) == len(given):
        return [ids]
    if len(given) > MAX_INPUTS:
        raise InvalidRequest(
            f"Invalid value for 'input': it has {len(given)} inputs, at most {MAX_INPUTS} are taken.", param="input"
        )
    inputs: list[Input] = []
    for index, item in enumerate(given):
        at = f"input[{index}]"
        if isinstance(item, int):
            raise InvalidRequest(f"Invalid value for '{at}': expected a string or token ids.", param=at)
        _check_some(item, at)
        inputs.append(item)
    return inputs


def _batches(inputs: Sequence[Input], size: int) -> Iterator[list[Input]]:
    """Batch the inputs in order; a batch has one kind of input, as upstreams require."""
    for _, run in groupby(inputs, type):
        alike = list(run)
        for start in range(0, len(alike), size):
            yield alike[start : start + size]


def _check_some(item: Input, at: str) -> None:
    if not item:
        raise InvalidRequest(f"Invalid value for '{at}': expected an input that is not empty.", param=at)


def _texts(body: EmbeddingsBody, model: ServedModel) -> list[PromptText]:
    given = body.input
    if isinstance(given, str):
        return [PromptText("user", "input", ("input",), given)]
    texts = []
    inputs = _inputs(given)
    if len(inputs) == 1 and isinstance(given[0], int):
        return [prompt_of_ids([item for item in given if isinstance(item, int)], "input", ("input",), model)]
    for index, item in enumerate(inputs):
        at = f"input[{index}]"
        if isinstance(item, str):
            texts.append(PromptText("user", at, ("input", index), item))
        else:
            texts.append(prompt_of_ids(item, at, ("input", index), model))
    return texts


ROUTES: Final = (ApiRoute("POST", "/v1/embeddings", embed, ENDPOINT),)
