"""Streams of events as upstreams send them, and what a client makes of them once they are screened."""

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import orjson

from gateway.api.relay.answer_texts import AnswerTexts
from gateway.api.relay.screened_events import ScreenedEvents
from gateway.filtering.filters.answer_filter import AnswerFilter
from gateway.filtering.filters.finding_records import Recorder
from gateway.inference.generate_request import scratch_record
from safety.action import Action
from safety.match import Match
from safety.screen import Rule
from safety.screening import Screening
from safety.terms import TermFilter

TERMS = ("forbidden", "blue moon", "geheim")
DONE = b"data: [DONE]\n\n"


class Raises:
    """A filter that does not work."""

    signs = None
    window = 0
    batch = 1

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        raise RuntimeError(text)

    def stream(self) -> Any:
        raise RuntimeError


def rules(action: Action, **more: Action) -> list[Rule]:
    found = [Rule("list", TermFilter("term", TERMS, words=True), action)]
    return found + [Rule(name, TermFilter(name, [name], words=True), other) for name, other in more.items()]


def pieces(text: str, cuts: Sequence[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:stop] for start, stop in pairwise(places)]


def filter_of(found: Sequence[Rule], *, fail_open: bool = False) -> AnswerFilter:
    return AnswerFilter(
        Screening(found, fail_open=fail_open), (), "", fail_open, Recorder(scratch_record(), "acme", False)
    )


def event(choices: Any, **members: Any) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": choices} | members
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def delta(text: str, index: int = 0, name: str = "content", **members: Any) -> bytes:
    return event([{"index": index, "delta": {name: text}, "logprobs": None, "finish_reason": None}], **members)


def call(arguments: str | None, place: int = 0, index: int = 0, **more: Any) -> bytes:
    function = ({} if arguments is None else {"arguments": arguments}) | more.pop("function", {})
    calls = [{"index": place, "function": function} | more]
    return event([{"index": index, "delta": {"tool_calls": calls}, "logprobs": None, "finish_reason": None}])


def end(index: int = 0, reason: str = "stop", **said: Any) -> bytes:
    return event([{"index": index, "delta": said, "logprobs": None, "finish_reason": reason}])


class Shown:
    """What a client makes of a stream."""

    def __init__(self, sent: bytes) -> None:
        self.texts: dict[Any, str] = {}
        self.reasons: dict[int, str] = {}
        self.chunks: list[Any] = []
        self.done = sent.endswith(DONE)
        for part in sent.split(b"\n\n"):
            data = part[part.find(b"data: ") + 6 :]
            if not data.startswith(b"{"):
                continue
            chunk = json.loads(data)
            self.chunks.append(chunk)
            for choice in chunk.get("choices") or ():
                index = choice["index"]
                assert index not in self.reasons, "nothing comes after the end"
                said = choice.get("delta", {"text": choice.get("text")})
                for name, value in said.items():
                    if name == "tool_calls":
                        for one in value:
                            self._add((index, one["index"]), one.get("function", {}).get("arguments"))
                    elif isinstance(value, str) and name != "role":
                        self._add((index, name), value)
                if choice.get("finish_reason"):
                    self.reasons[index] = choice["finish_reason"]

    def _add(self, key: Any, text: str | None) -> None:
        if text:
            self.texts[key] = self.texts.get(key, "") + text

    @property
    def text(self) -> str:
        return self.texts.get((0, "content"), "")


def stream(
    events: Sequence[bytes], filter_: AnswerFilter, *, n: int | None = 1, usage: bool = False, at_once: bool = False
) -> tuple[Shown, AnswerTexts]:
    texts = AnswerTexts(filter_)

    async def main() -> bytes:
        screened_events = ScreenedEvents(texts, n, usage=usage)
        sent = b""
        for part in [b"".join(events)] if at_once else events:
            sent += await screened_events.feed(part)
            if screened_events.cut:
                return sent + screened_events.closing({"completion_tokens": 1})
        return sent + await screened_events.end()

    return Shown(asyncio.run(main())), texts
