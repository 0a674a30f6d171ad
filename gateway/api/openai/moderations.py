"""`POST /v1/moderations` (OpenAI API reference, Moderations), answered by the configured filters."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, Protocol

import msgspec
import orjson
from msgspec import Meta

from gateway.api.server.body_decoder import BodyDecoder
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from gateway.tenancy.tenants.caller import Caller
from protos.errors import InvalidRequest, PenstockError, UnsupportedParameter
from routing.dispatch.dispatch import RequestHandle
from safety.screen import Finding

#: The endpoint's name in a key's scope.
ENDPOINT: Final = "moderations"
#: Bounds on one request: its inputs, and the characters of all of them.
MAX_INPUTS: Final = 256
MAX_CHARACTERS: Final = 1_000_000

#: Names of OpenAI's own models: they mean the filters of the caller's policy.
_LATEST: Final = "omni-moderation-latest"
_THEIRS: Final = re.compile(r"(omni|text)-moderation-(latest|stable|\d{3}|\d{4}-\d{2}-\d{2})")
#: The categories of the API's answers, whichever filter looked at the text.
_CATEGORIES: Final = (
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)
#: The same categories by the labels of findings.
_BY_LABEL: Final = {re.sub(r"[/-]", "_", name): name for name in _CATEGORIES}


class TextScanner(Protocol):
    """The filters of a worker, as far as moderations need them."""

    async def scan_texts(self, caller: Caller, name: str | None, texts: Sequence[str]) -> list[list[Finding]]:
        """Scan each text with the filter of that name, or with the filters of the caller's prompts.

        Raises ModelNotFound where there is no such filter, and FilterFailed.
        """
        ...


class InputPart(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A part of an input; images are refused by their type."""

    type: Annotated[str, Meta(max_length=64)]
    text: str | None = None
    image_url: Any = None


class ModerationBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The request body."""

    input: str | Annotated[list[str | InputPart], Meta(min_length=1, max_length=MAX_INPUTS)]
    model: Annotated[str, Meta(min_length=1, max_length=256)] | None = None


_decoder = BodyDecoder(ModerationBody, {})


async def moderate(services: Services, exchange: HttpExchange) -> None:
    """Scan the texts and answer with the findings. Raises errors with a status."""
    async with services.intake.open(exchange, ENDPOINT) as incoming:
        body = _decoder.decode(await incoming.body())
        inputs = _inputs(body)
        incoming.begin()
        name = None if body.model is None or _THEIRS.fullmatch(body.model) else body.model
        texts = [text for parts in inputs for text in parts]
        found = iter(await _Scanning(services.policies, incoming.caller, name, texts).run(exchange.handle))
    answer = {
        "id": "modr-" + exchange.request_id[4:],
        "model": body.model or _LATEST,
        "results": [_result(finding for _ in parts for finding in next(found)) for parts in inputs],
    }
    await exchange.respond(200, orjson.dumps(answer))


class _Scanning:
    """A scan that ends when its request is ended from outside: by a deadline, or because the client left."""

    def __init__(self, guard: TextScanner, caller: Caller, name: str | None, texts: Sequence[str]) -> None:
        self._task = asyncio.ensure_future(guard.scan_texts(caller, name, texts))
        self._error: PenstockError | None = None

    @property
    def failed(self) -> bool:
        return self._error is not None

    def fail(self, error: PenstockError) -> None:
        if self._task.cancel():
            self._error = error

    async def run(self, handle: RequestHandle) -> list[list[Finding]]:
        """Return the findings. Raises the error that `handle` is failed with."""
        handle.follow(self)
        try:
            return await self._task
        except asyncio.CancelledError:
            if self._error is None:
                raise
            raise self._error from None


def _inputs(body: ModerationBody) -> list[list[str]]:
    """List the texts of each input; a list of parts is one input. Raises InvalidRequest or UnsupportedParameter."""
    given = [body.input] if isinstance(body.input, str) else body.input
    texts = [each if isinstance(each, str) else _text_of(each, f"input[{i}]") for i, each in enumerate(given)]
    characters = sum(map(len, texts))
    if characters > MAX_CHARACTERS:
        raise InvalidRequest(
            f"The input has {characters} characters; at most {MAX_CHARACTERS} are looked at together.", param="input"
        )
    parts = [isinstance(each, InputPart) for each in given]
    if not any(parts):
        return [[text] for text in texts]
    if not all(parts):
        raise InvalidRequest("Invalid value for 'input': expected strings alone, or parts alone.", param="input")
    return [texts]


def _text_of(part: InputPart, param: str) -> str:
    if part.type != "text":
        raise UnsupportedParameter(
            f"Unsupported value: '{param}' has type '{part.type}'; only text is supported here.", param=f"{param}.type"
        )
    if part.text is None:
        raise InvalidRequest(f"Missing required parameter: '{param}.text'.", param=f"{param}.text")
    return part.text


def _result(findings: Iterable[Finding]) -> dict[str, Any]:
    """Make the result: the API's categories, then the labels that it does not know."""
    scores = dict.fromkeys(_CATEGORIES, 0.0)
    flagged = dict.fromkeys(_CATEGORIES, False)
    for finding in findings:
        name = _BY_LABEL.get(finding.label, finding.label)
        flagged[name] = True
        scores[name] = max(scores.get(name, 0.0), finding.score)
    return {
        "flagged": any(flagged.values()),
        "categories": flagged,
        "category_scores": scores,
        "category_applied_input_types": {name: ["text"] for name in flagged},
    }
