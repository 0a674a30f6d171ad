"""A front for the tests: its body is a chat's, and its answer a line of JSON for everything that it is told."""

import functools
from collections.abc import Sequence
from typing import Any

import orjson

from gateway.api.openai.chat import CHAT
from gateway.api.openai.infer import infer
from gateway.api.server.internal_exchange import InternalExchange
from gateway.api.server.run_handler import serve
from gateway.api.writers.api_adapter import AnswerHead, Choice, Counts, Frame
from gateway.tenancy.tenants.caller import Caller
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from protos.errors import PenstockError
from protos.types import FinishReason
from tests.asgi import Client

KINDS = {Text: "text", Reasoning: "reasoning", CallStart: "start", CallArguments: "arguments"}


def line(*parts: Any) -> bytes:
    return orjson.dumps(parts) + b"\n"


class LineRenderer:
    """A `Renderer`."""

    def opening(self) -> bytes:
        return line("opening")

    def frame(self, index: int, kind: Delta) -> Frame:
        assert not isinstance(kind, CallStart)
        call = f"{kind.call}," if isinstance(kind, CallArguments) else ""
        return f'["{KINDS[type(kind)]}",{call}"'.encode(), b'"]\n'

    def render(self, index: int, deltas: Sequence[Delta], finish: FinishReason | None) -> bytes:
        shown = b"".join(line(KINDS[type(delta)], *delta[: 1 if isinstance(delta, Text) else 3]) for delta in deltas)
        return shown + (b"" if finish is None else line("finish", index, finish.value))

    def closing(self, counts: Counts) -> bytes:
        return line("closing", counts.prompt, counts.completion, counts.cached, counts.reasoning, counts.stopped_by)

    def broken(self, error: PenstockError) -> bytes:
        return line("broken", error.code)

    def whole(self, choices: Sequence[Choice], counts: Counts) -> bytes:
        lines = [
            line("choice", choice.text, choice.reasoning, [[c.name, c.arguments] for c in choice.calls], choice.finish)
            for choice in choices
        ]
        return b"".join(lines) + self.closing(counts)


class LineAdapter:
    """A `ApiAdapter`."""

    endpoint = "chat"
    adjusted: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.heads: list[AnswerHead] = []
        self.kept = 0

    async def translate(self, caller: Caller, body: bytes) -> bytes:
        return body

    def renderer(self, head: AnswerHead) -> LineRenderer:
        self.heads.append(head)
        return LineRenderer()

    async def store_answer(self) -> None:
        self.kept += 1


async def through_adapter(client: Client, **fields: Any) -> tuple[InternalExchange, LineAdapter, list[Any]]:
    """What such a request gets: the exchange, the front, and the lines."""
    gateway, adapter = client.gateway, LineAdapter()
    caller = await gateway.authenticator.authenticate(b"Bearer " + client.key.encode())
    exchange = InternalExchange(caller, "/v1/inner", orjson.dumps(fields), gateway.services.sampler, adapter.endpoint)
    await serve(gateway.services, exchange, functools.partial(infer, api=CHAT, adapter=adapter), named=True)
    body = exchange.answer
    lines = [orjson.loads(part) for part in body.splitlines()]
    return exchange, adapter, lines
