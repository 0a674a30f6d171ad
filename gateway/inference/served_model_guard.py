"""A guard that is a model served by this gateway; its requests are charged to nobody."""

import re
import secrets
import time
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any, Final

import msgspec

from gateway.caching.lru import Lru
from gateway.config.safety.guards import ModelGuard
from gateway.config.tenants import Tenant, Tier, Waiting
from gateway.inference.generate import generate
from gateway.inference.generate_request import Chat, GenerateRequest
from gateway.inference.generation import Generation
from gateway.inference.request_context import RequestContext
from gateway.models.served_model import ServedModel
from gateway.scheduling.encoding_queue import EncodingQueue
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.limits.no_limits import NO_LIMITS
from gateway.tenancy.tenants.caller import Caller
from protos.errors import ContextLengthExceeded, InvalidRequest, PenstockError
from protos.types import Payload, Sampling
from routing.contracts.transport import Relay
from routing.dispatch.dispatch import RequestHandle
from routing.estimates.text_tokens import text_tokens
from safety.guard import GuardFailed
from safety.match import Match

#: A text that does not fit the context is split into at most this many parts, sent one after the other.
MAX_PARTS: Final = 16
#: How much of a part repeats the one before: this fraction of it, up to so many characters.
_OVERLAP, _MAX_OVERLAP = 8, 256
#: Bound on an upstream's answer; one of a few tokens has less than a kilobyte.
_MAX_ANSWER_BYTES: Final = 256 * 1024
_PATH: Final = "/chat/completions"
#: The label of a text that is unsafe in no named category.
_GUARD: Final = "guard"
#: Categories of guards where none are configured: `S1`, `O3`. Other words may come from the text itself.
_CATEGORY: Final = re.compile(r"[a-z]{1,3}[0-9]{1,3}")
_BETWEEN: Final = re.compile(r"[\s,;:|]+")
_TEXT: Final = "{text}"
_MAX_CALLERS: Final = 4096
#: Prefix of the guards' own tenants. Names of real tenants have no slash, so they cannot collide.
_TENANT: Final = "safety/"


class ServedModelGuard:
    """A `Guard` that sends its questions to a served model.

    Its requests run in tenants of their own, one for each tenant whose texts they hold, in the highest tier: they queue
    apart from the tenant's requests, and KV blocks cached for one tenant's texts are not shared with another's.
    """

    def __init__(self, settings: ModelGuard, model: ServedModel, tier: Tier, encoding: EncodingQueue) -> None:
        """`tier` is the highest one."""
        self._settings = settings
        self._model = model
        self._tier = tier
        self._encoding = encoding
        self._callers: Lru[str, Caller] = Lru(_MAX_CALLERS)

    async def ask(self, text: str, prompt: str | None, tenant: str) -> list[Match]:
        """Ask the model about a text.

        A text that exceeds the model's context is halved until the parts fit. Of an answer's prompt the end is kept, no
        longer than the answer; each part repeats the end of the one before it.
        """
        caller, count = self._caller(tenant), 1
        while True:
            try:
                return await self._matches(text, prompt, caller, count)
            except ContextLengthExceeded:
                if prompt and len(prompt) > len(text) // count:
                    prompt = prompt[ceil(len(prompt) / 2) :]
                    continue
                count *= 2
                if count > min(MAX_PARTS, len(text)):
                    raise GuardFailed(f"the text does not fit into its model's context in {MAX_PARTS} parts") from None
            except InvalidRequest:
                raise GuardFailed("its model, or its chat template, refuses the question") from None
            except PenstockError as error:
                raise GuardFailed(f"its model gave no answer: {type(error).__name__}") from None

    async def aclose(self) -> None:
        """Close nothing: running requests end with their questions."""

    async def _matches(self, text: str, prompt: str | None, caller: Caller, count: int) -> list[Match]:
        runs: list[tuple[int, int, list[str]]] = []
        for start, end in _parts(len(text), count):
            answer = await self._answer(self._messages(text[start:end], prompt), caller)
            labels = verdict_in(answer, self._settings)
            if labels and runs and start <= runs[-1][1]:
                first, _, before = runs.pop()
                runs.append((first, end, list(dict.fromkeys(before + labels))))
            elif labels:
                runs.append((start, end, labels))
        return [Match(start, end, label) for start, end, labels in runs for label in labels]

    def _messages(self, text: str, prompt: str | None) -> list[dict[str, Any]]:
        instruction = self._settings.instruction
        if instruction is not None:
            return [{"role": "user", "content": instruction.replace(_TEXT, text)}]
        if prompt is None:
            return [{"role": "user", "content": text}]
        return [{"role": "user", "content": prompt}, {"role": "assistant", "content": text}]

    async def _answer(self, messages: list[dict[str, Any]], caller: Caller) -> str:
        model, most, now = self._model, self._settings.max_tokens, time.monotonic()
        body = msgspec.json.encode({"model": model.shown, "messages": messages, "temperature": 0, "stream": False})
        request = GenerateRequest(
            id="guard_" + secrets.token_hex(12),
            caller=caller,
            model=model,
            prompt=Chat(messages),
            size=len(body),
            sampling=Sampling(temperature=0.0),
            max_tokens=most,
            stops=(),
            stream=False,
            arrived=now,
            estimate=text_tokens(body) if model.opaque else 0,
        )
        payload = Payload(_PATH, body, False, False, model.shown, most) if model.relays else None
        until = now + self._settings.timeout_seconds
        context = RequestContext(NO_LIMITS, self._encoding, RequestHandle(), until, until)
        generation = await generate(request, context, payload)
        try:
            relay = generation.stream.relay
            return await _text_of(generation) if relay is None else await _relayed_text(generation, relay)
        finally:
            generation.close()

    def _caller(self, tenant: str) -> Caller:
        caller = self._callers.get(tenant)
        if caller is None:
            name = _TENANT + tenant
            # The wait is bounded by the guard's time limit, the queue by its concurrency.
            waiting = Waiting(max_requests=self._settings.concurrency, max_seconds=self._settings.timeout_seconds)
            key = ApiKey(key_id=name, name=name, tenant=name, created_at=0.0)
            caller = Caller(key, Tenant(name=name, tier=self._tier.name, waiting=waiting), self._tier, 0)
            self._callers.put(tenant, caller)
        return caller


def served_model_guard(
    find: Callable[[str], ServedModel | None], tier: Tier, encoding: EncodingQueue, settings: ModelGuard
) -> ServedModelGuard | None:
    """Make the guard of the model that the settings name; None where `find` knows no such model."""
    model = find(settings.name)
    return None if model is None else ServedModelGuard(settings, model, tier, encoding)


def verdict_in(answer: str, settings: ModelGuard) -> list[str]:
    """Read the labels of a guard's findings in its answer; none: safe. Raises GuardFailed for any other answer.

    Categories follow the verdict. Where some are configured, only those count; an unsafe answer without any is labelled
    all the same.
    """
    words = answer.strip().casefold()
    # The longer one first: the shorter may be its prefix.
    verdicts = sorted(((settings.unsafe, True), (settings.safe, False)), key=lambda each: -len(each[0]))
    for verdict, unsafe in verdicts:
        start = verdict.strip().casefold()
        rest = words.removeprefix(start)
        if rest is not words and not rest[:1].isalnum():
            return _categories(rest, settings) if unsafe else []
    raise GuardFailed("its model said neither that the text is safe nor that it is not")


def _categories(rest: str, settings: ModelGuard) -> list[str]:
    named = list(dict.fromkeys(word for word in _BETWEEN.split(rest) if word))
    configured = {category.casefold() for category in settings.categories}
    counted = [word for word in named if word in configured]
    others = [word for word in named if _CATEGORY.fullmatch(word)]
    if configured:
        return [_label(word) for word in counted] if counted or others else [_GUARD]
    return others or [_GUARD]


def _label(category: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", category).strip("_") or _GUARD


def _parts(length: int, count: int) -> Iterator[tuple[int, int]]:
    size = ceil(length / count)
    overlap = min(size // _OVERLAP, _MAX_OVERLAP)
    for start in range(0, length, size):
        yield max(0, start - overlap), min(length, start + size)


async def _text_of(generation: Generation) -> str:
    texts: list[str] = []
    events = generation.first
    while True:
        for event in events:
            text, _ = generation.advance(event)
            texts.append(text)
        if not generation.open_sequences:
            return "".join(texts)
        events = await generation.stream.receive()


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message


class _Answer(msgspec.Struct, frozen=True):
    choices: list[_Choice]


_ANSWER: Final = msgspec.json.Decoder(_Answer)


async def _relayed_text(generation: Generation, relay: Relay) -> str:
    parts: list[bytes] = []
    size = 0
    while part := await relay.read():
        parts.append(part)
        size += len(part)
        if size > _MAX_ANSWER_BYTES:
            raise GuardFailed(f"an answer of more than {_MAX_ANSWER_BYTES} bytes")
    generation.stream.check()
    try:
        choices = _ANSWER.decode(b"".join(parts)).choices
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise GuardFailed("its answer is not the chat API's") from None
    return (choices[0].message.content or "") if choices else ""
