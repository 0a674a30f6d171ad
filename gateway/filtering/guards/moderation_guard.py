"""A guard that asks a service with OpenAI's moderation API (OpenAI API reference, Moderations)."""

import os
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Final

import msgspec

from gateway.config.safety.guards import HttpGuard
from gateway.config.secrets import ApiKeySource
from gateway.filtering.guards.verdicts import label_of
from gateway.tenancy.providers.provider_keys import KeyOf
from routing.transports.http.buffered_exchange import ask
from routing.transports.http.connection_pool import ConnectionPool
from routing.transports.http.http1_request import HttpFailure
from routing.transports.http.origin import head, origin_of
from routing.transports.http.proxied_origin import proxied
from routing.transports.http.upstream_timeouts import Timeouts
from routing.transports.replica_tls import SslContexts, TlsFiles
from safety.guard import GuardFailed
from safety.match import Match

#: Bound on an answer; one about one text has a few kilobytes.
MAX_ANSWER_BYTES: Final = 256 * 1024
_OK: Final = 200
#: The label of a text that the service flags without a category.
_FLAGGED: Final = "flagged"


class _Question(msgspec.Struct, frozen=True, omit_defaults=True):
    input: str
    model: str | None = None


class _Result(msgspec.Struct, frozen=True):
    flagged: bool
    # Services send null for categories that their model does not know.
    categories: dict[str, bool | None] = {}
    category_scores: dict[str, float | None] = {}


class _Answer(msgspec.Struct, frozen=True):
    results: list[_Result]


_ENCODER: Final = msgspec.json.Encoder()
_ANSWER: Final = msgspec.json.Decoder(_Answer)


class ModerationGuard:
    """A `Guard` that posts each text to the service. A match is about the text as a whole, one for each category."""

    def __init__(self, settings: HttpGuard, key_of: KeyOf) -> None:
        """`key_of` as `ProviderKeys.key_of`. Raises ValueError for an invalid address. Needs a running event loop."""
        origin = proxied(origin_of(settings.url), None, os.environ)
        self._origin = origin
        self._model = settings.model
        self._key = key_of(_as_api_key(settings))
        self._threshold = settings.threshold
        self._categories = settings.categories
        seconds = settings.timeout_seconds
        tls = TlsFiles(ca=None if settings.ca is None else Path(settings.ca))
        self._pool = ConnectionPool(
            origin,
            contexts=SslContexts(tls).get if origin.tls else None,
            timeouts=Timeouts(min(seconds, Timeouts().connect), seconds, seconds),
            # Twice the concurrency: connections that are being closed still count.
            most=2 * settings.concurrency,
        )

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return self._pool.connections

    async def ask(self, text: str, prompt: str | None, tenant: str) -> list[Match]:
        """Post the text alone: the service sees neither the prompt nor the tenant."""
        status, answer = await self._post(_ENCODER.encode(_Question(text, self._model)))
        if status != _OK:
            raise GuardFailed(f"it answered with status {status}")
        return [Match(0, len(text), label, score) for score, label in self._found(_result_in(answer))]

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        try:
            start = head("POST", self._origin.path or "/", self._origin, _headers(self._key(), len(body)))
        except ValueError as error:
            raise GuardFailed(str(error)) from None
        try:
            return await ask(self._pool, start + b"\r\n" + body, MAX_ANSWER_BYTES)
        except HttpFailure as failure:
            raise GuardFailed(failure.problem) from None

    def _found(self, result: _Result) -> list[tuple[float, str]]:
        """List score and label of each category that counts, the likeliest first. Raises GuardFailed."""
        scores = {name: _score(score) for name, score in result.category_scores.items() if score is not None}
        if self._threshold is not None:
            names = self._counted(scores)
            found = [name for name in names if scores[name] >= self._threshold]
        else:
            names = self._counted(result.categories)
            found = [name for name in names if result.categories[name]]
            if result.flagged and not found and not self._categories:
                found = [_FLAGGED]
        labels: dict[str, float] = {}
        for name in found:
            label = label_of(name)
            labels[label] = max(labels.get(label, 0.0), scores.get(name, 1.0))
        return sorted(((score, label) for label, score in labels.items()), key=lambda each: (-each[0], each[1]))

    def _counted(self, reported: Mapping[str, object]) -> list[str]:
        """List the categories that count; each must be in the answer, since a missing one would never match."""
        if not self._categories:
            if not reported and self._threshold is not None:
                raise GuardFailed("its answer has no scores")
            return list(reported)
        for name in self._categories:
            if reported.get(name) is None:
                raise GuardFailed(f"its answer says nothing of the category {name}")
        return list(self._categories)


def _as_api_key(settings: HttpGuard) -> ApiKeySource | None:
    source = settings.api_key
    return None if source is None else ApiKeySource(env=source.env, file=source.file)


def _headers(key: str | None, length: int) -> dict[str, str]:
    headers = {
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "penstock",
        "content-type": "application/json",
        "content-length": str(length),
    }
    return headers | ({"authorization": f"Bearer {key}"} if key else {})


def _result_in(answer: bytes) -> _Result:
    try:
        results = _ANSWER.decode(answer).results
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise GuardFailed("its answer is not the moderation API's") from None
    if len(results) != 1:
        raise GuardFailed(f"its answer has {len(results)} results for one text")
    return results[0]


def _score(score: float) -> float:
    if not isfinite(score) or not 0 <= score <= 1:
        raise GuardFailed("a score that is not from 0 to 1")
    return score
