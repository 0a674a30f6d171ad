"""The API of a running gateway, for `penstock replay`: entries of a corpus, questions to a judge, embeddings."""

import json
import time
from collections.abc import Callable, Mapping
from http.client import HTTPResponse
from typing import Any, Final, NamedTuple

from gateway.cli.live_gateway import LiveGateway, LiveGatewayError
from gateway.rollouts.comparison.answer import Answer
from gateway.rollouts.comparison.read_answer import NotAnAnswer, read_answer
from gateway.rollouts.replay.corpus import Entry
from gateway.rollouts.replay.run_file import Failure, Result

#: Attempts at a request that the gateway has no room for, or no connection, and the longest wait between two.
_TRIES: Final = 6
_LONGEST_WAIT: Final = 10.0
#: Statuses that another attempt may change.
_LATER: Final = frozenset({429, 503})
_MOST_BYTES: Final = 64 << 20
#: How the answers are asked for in one piece.
_STREAMING: Final = frozenset({"stream", "stream_options"})
_NO_ROOM_FOR: Final = 0.25
#: Statuses that are about one request, as where it is too long or a filter finds something in it.
_OF_REQUEST: Final = frozenset({400, 413, 422})


class QuestionRefused(LiveGatewayError):
    """The gateway refuses one request for what is in it; others may be served."""


class _Reply(NamedTuple):
    """An answer of any status; `headers` have small letters, and `seconds` is what its attempt took."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float


class ReplayClient:
    """Asks one version of a model; safe to call by several threads. Every request is in the background, so that
    clients' come first.
    """

    def __init__(
        self,
        gateway: LiveGateway,
        *,
        model: str,
        version: str,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`model`, if any, takes the place of the bodies'; `version` empty: the gateway chooses. `seconds` bounds each
        request.
        """
        self._gateway = gateway
        self._model = model
        self._version = version
        self._clock = clock
        self._sleep = sleep
        self._headers = {
            "content-type": "application/json",
            "x-penstock-background": "true",
            "x-request-timeout": f"{seconds:g}s",
        }
        if version:
            self._headers["x-penstock-version"] = version

    def ask(self, entry: Entry) -> Result:
        """Ask one entry. Raises LiveGatewayError where the gateway is not there, or another version answers."""
        body = {name: value for name, value in entry.body.items() if name not in _STREAMING}
        if self._model:
            body["model"] = self._model
        reply = self._send(entry.path, body)
        version, seconds = reply.headers.get("x-penstock-version", ""), reply.seconds
        if reply.status != 200:
            failure = _failure(reply.status, reply.body)
            return Result(id=entry.id, failure=failure, version=version, seconds=seconds)
        if self._version and version != self._version:
            raise LiveGatewayError(f"{version or 'no version that is named'} answered in place of {self._version}")
        try:
            found = read_answer(reply.body)
        except NotAnAnswer as error:
            failure = Failure(reply.status, "not_an_answer", str(error))
            return Result(id=entry.id, failure=failure, version=version, seconds=seconds)
        prompt, completion = _usage(reply.body)
        return Result(
            id=entry.id,
            answer=found,
            version=version,
            seconds=seconds,
            prompt_tokens=prompt,
            completion_tokens=completion,
        )

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """Ask a chat. Raises QuestionRefused and LiveGatewayError."""
        reply = self._send("/v1/chat/completions", body)
        if reply.status != 200:
            refusal = self._gateway.refusal(reply.status, reply.body)
            if reply.status in _OF_REQUEST:
                raise QuestionRefused(str(refusal), refusal.code)
            raise refusal
        try:
            return read_answer(reply.body)
        except NotAnAnswer as error:
            raise LiveGatewayError(f"{body['model']}: {error}") from error

    def embeddings(self, model: str, texts: list[str]) -> list[list[float]]:
        """Embed texts. Raises LiveGatewayError."""
        reply = self._send("/v1/embeddings", {"model": model, "input": texts, "encoding_format": "float"})
        if reply.status != 200:
            raise self._gateway.refusal(reply.status, reply.body)
        try:
            data = sorted(json.loads(reply.body)["data"], key=lambda each: each["index"])
            found = [[float(number) for number in each["embedding"]] for each in data]
        except (ValueError, KeyError, TypeError) as error:
            raise LiveGatewayError(f"what the model {model} answered are no embeddings") from error
        if len(found) != len(texts):
            raise LiveGatewayError(f"the model {model} gave {len(found)} embeddings for {len(texts)} texts")
        return found

    def _send(self, path: str, body: Mapping[str, Any]) -> _Reply:
        data = json.dumps(body).encode()
        for number in range(_TRIES):
            last = number == _TRIES - 1
            began = self._clock()
            try:
                with self._gateway.open_response("POST", path, data, self._headers) as response:
                    status, answer = response.status, response.read(_MOST_BYTES)
                    if status not in _LATER or last or response.headers.get("x-should-retry") == "false":
                        headers = {name.lower(): value for name, value in response.headers.items()}
                        return _Reply(status, headers, answer, round(self._clock() - began, 6))
                    wait = _wait(response, number)
            except LiveGatewayError:
                if last:
                    raise
                wait = _NO_ROOM_FOR * 2.0**number
            self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")


def _wait(response: HTTPResponse, number: int) -> float:
    try:
        told = float(response.headers.get("retry-after-ms", 0)) / 1000.0
    except ValueError:
        told = 0.0
    return min(_LONGEST_WAIT, max(told, _NO_ROOM_FOR * 2.0**number))


def _failure(status: int, answer: bytes) -> Failure:
    try:
        error = json.loads(answer)["error"]
        return Failure(status, str(error["code"] or ""), str(error["message"])[:1000])
    except (ValueError, KeyError, TypeError):
        return Failure(status, "", "")


def _usage(answer: bytes) -> tuple[int, int]:
    try:
        usage = json.loads(answer)["usage"]
        return int(usage["prompt_tokens"]), int(usage["completion_tokens"])
    except (ValueError, KeyError, TypeError):
        return 0, 0
