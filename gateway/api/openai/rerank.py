"""`POST /v1/rerank` (as in Jina, Cohere and vLLM) and vLLM's `POST /v1/score`, forwarded to upstreams."""

import math
import time
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta

from gateway.api.relay.forwarding import bad_answer, forward, prompt_count, read_request
from gateway.api.server.api_route import ApiRoute
from gateway.api.server.body_decoder import BodyDecoder
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from gateway.filtering.prompt_text import PromptText
from gateway.models.served_model import ServedModel
from protos.errors import InvalidRequest
from protos.features import Feature

#: Bound on the documents, or texts, of one request.
MAX_DOCUMENTS: Final = 2048

_Text = Annotated[str, Meta(min_length=1)]
_Texts = _Text | Annotated[list[_Text], Meta(min_length=1, max_length=MAX_DOCUMENTS)]
_Truncation = Annotated[int, Meta(ge=-1, le=0x7FFF_FFFF)]


class Document(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A document in the object form of Jina and Cohere; plain strings are allowed, too."""

    text: _Text


class RerankBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """The request body."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    query: _Text
    documents: Annotated[list[_Text | Document], Meta(min_length=1, max_length=MAX_DOCUMENTS)]
    top_n: Annotated[int, Meta(ge=1, le=0x7FFF_FFFF)] | None = None
    return_documents: bool | None = None
    max_tokens_per_doc: Annotated[int, Meta(ge=1, le=0x7FFF_FFFF)] | None = None
    truncate_prompt_tokens: _Truncation | None = None
    user: Annotated[str, Meta(max_length=512)] | None = None

    @property
    def texts(self) -> list[str]:
        """The documents' texts."""
        return [one if isinstance(one, str) else one.text for one in self.documents]


class ScoreBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """The request body: texts of both lists are scored in pairs, or one text with all of the other list."""

    model: Annotated[str, Meta(min_length=1, max_length=256)]
    text_1: _Texts
    text_2: _Texts
    truncate_prompt_tokens: _Truncation | None = None
    user: Annotated[str, Meta(max_length=512)] | None = None


class PromptUsage(msgspec.Struct, frozen=True):
    """Input tokens; there are no output tokens."""

    prompt_tokens: int
    total_tokens: int


class RankedDocument(msgspec.Struct, frozen=True):
    """The text of a ranked document."""

    text: str


class Ranked(msgspec.Struct, frozen=True, omit_defaults=True):
    """One document, by its place in the request."""

    index: int
    relevance_score: float
    document: RankedDocument | None = None


class Ranking(msgspec.Struct, frozen=True):
    """The documents, the most relevant first."""

    id: str
    model: str
    results: list[Ranked]
    usage: PromptUsage


class Score(msgspec.Struct, frozen=True):
    """The similarity of two texts."""

    index: int
    object: Literal["score"]
    score: float


class Scores(msgspec.Struct, frozen=True):
    """The scores of all pairs, in order."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[Score]
    usage: PromptUsage


class _Ranked(msgspec.Struct, frozen=True):
    index: int
    relevance_score: float


class _Ranking(msgspec.Struct, frozen=True):
    results: list[_Ranked]
    usage: Any = None
    #: Cohere tells its usage here.
    meta: Any = None


class _Scored(msgspec.Struct, frozen=True):
    score: float
    index: int | None = None


class _Scores(msgspec.Struct, frozen=True):
    data: list[_Scored]
    usage: Any = None


_rerank_decoder = BodyDecoder(RerankBody, {})
_score_decoder = BodyDecoder(ScoreBody, {})
_ranking: Final = msgspec.json.Decoder(_Ranking)
_scores: Final = msgspec.json.Decoder(_Scores)


async def rerank(services: Services, exchange: HttpExchange) -> None:
    """Answer with the documents, the most relevant first. Raises errors with a status."""
    found: list[_Ranked] = []
    async with services.intake.open(exchange, "rerank") as incoming:
        forwarded = await read_request(services, incoming, _rerank_decoder, _rerank_texts)
        body = forwarded.body
        texts, wanted = body.texts, min(body.top_n or len(body.documents), len(body.documents))

        async def read(_: int, answer: bytes) -> int | None:
            try:
                ranking = _ranking.decode(answer)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise bad_answer("its answer is no ranking") from None
            places = {one.index for one in ranking.results}
            fits = len(places) == len(ranking.results) >= wanted and all(0 <= place < len(texts) for place in places)
            if not fits or not all(math.isfinite(one.relevance_score) for one in ranking.results):
                raise bad_answer("its ranking is not one of the documents")
            found.extend(sorted(ranking.results, key=lambda one: -one.relevance_score)[:wanted])
            return prompt_count(ranking.usage, ranking.meta)

        sent = msgspec.structs.replace(body, documents=cast("list[str | Document]", texts), return_documents=None)
        used = await forward(forwarded, Feature.RERANK, "/rerank", [msgspec.json.encode(sent)], read, param="documents")
    with_documents = body.return_documents is not False
    results = [
        Ranked(one.index, one.relevance_score, RankedDocument(texts[one.index]) if with_documents else None)
        for one in found
    ]
    usage = PromptUsage(used.prompt, used.prompt)
    answer = Ranking("rerank-" + exchange.request_id[4:], forwarded.model.shown, results, usage)
    await exchange.respond(200, msgspec.json.encode(answer))


async def score(services: Services, exchange: HttpExchange) -> None:
    """Answer with the similarity of pairs of texts. Raises errors with a status."""
    found: list[float] = []
    async with services.intake.open(exchange, "score") as incoming:
        forwarded = await read_request(services, incoming, _score_decoder, _score_texts)
        pairs = _pairs(forwarded.body)

        async def read(_: int, answer: bytes) -> int | None:
            try:
                scores = _scores.decode(answer)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise bad_answer("its answer is no list of scores") from None
            places = [at if one.index is None else one.index for at, one in enumerate(scores.data)]
            if sorted(places) != list(range(pairs)) or not all(math.isfinite(one.score) for one in scores.data):
                raise bad_answer(f"its scores are not those of {pairs} pairs")
            found.extend(one.score for _, one in sorted(zip(places, scores.data, strict=True), key=lambda at: at[0]))
            return prompt_count(scores.usage)

        used = await forward(
            forwarded, Feature.SCORE, "/score", [msgspec.json.encode(forwarded.body)], read, param="text_2"
        )
    answer = Scores(
        "score-" + exchange.request_id[4:],
        "list",
        int(time.time()),
        forwarded.model.shown,
        [Score(at, "score", value) for at, value in enumerate(found)],
        PromptUsage(used.prompt, used.prompt),
    )
    await exchange.respond(200, msgspec.json.encode(answer))


def _pairs(body: ScoreBody) -> int:
    """Count the pairs. Raises InvalidRequest."""
    first = 1 if isinstance(body.text_1, str) else len(body.text_1)
    second = 1 if isinstance(body.text_2, str) else len(body.text_2)
    if first != second and first != 1:
        raise InvalidRequest(
            f"Invalid value for 'text_2': expected {first} texts as in 'text_1', not {second}.", param="text_2"
        )
    return second


def _rerank_texts(body: RerankBody, model: ServedModel) -> list[PromptText]:
    del model
    texts = [PromptText("user", "query", ("query",), body.query)]
    for index, one in enumerate(body.documents):
        at = f"documents[{index}]"
        if isinstance(one, str):
            texts.append(PromptText("user", at, ("documents", index), one))
        else:
            texts.append(PromptText("user", f"{at}.text", ("documents", index, "text"), one.text))
    return texts


def _score_texts(body: ScoreBody, model: ServedModel) -> list[PromptText]:
    del model
    texts = []
    for name, given in (("text_1", body.text_1), ("text_2", body.text_2)):
        if isinstance(given, str):
            texts.append(PromptText("user", name, (name,), given))
        else:
            texts += [PromptText("user", f"{name}[{at}]", (name, at), text) for at, text in enumerate(given)]
    return texts


ROUTES: Final = (
    ApiRoute("POST", "/v1/rerank", rerank, "rerank"),
    ApiRoute("POST", "/v1/score", score, "score"),
)
