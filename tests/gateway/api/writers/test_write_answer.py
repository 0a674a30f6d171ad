"""Which writer an answer has, by where it comes from, what it is taken apart into and how it goes out."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.api.openai.chat import CHAT
from gateway.api.openai.chat_renderer import ChatRenderer
from gateway.api.relay.translated_relay import TranslatedRelay
from gateway.api.writers import write_answer as module
from gateway.api.writers.chunk_encoder import ChunkEncoder
from gateway.api.writers.guarded_stream import GuardedStream
from gateway.api.writers.parsed_encoder import ParsedEncoder
from gateway.api.writers.write_answer import write_answer
from gateway.filtering.filters.answer_filter import AnswerFilter
from observability.digests import Digests
from observability.record import RequestRecord
from protos.types import Sampling, Timing
from tests.models import model_of, request_of

MODEL = model_of()
GUARDS = cast("Any", (SimpleNamespace(window=10),))


class Exchange:
    """Where the answer goes, and in which order what happens."""

    request_id = "req_0123"

    def __init__(self, happened: list[str]) -> None:
        self.record = RequestRecord("r", "chat", 0.0, 0.0)
        self.answer_headers: list[tuple[bytes, bytes]] = []
        self.answered: list[tuple[int, bytes]] = []
        self._happened = happened

    def unwatch(self) -> None:
        self._happened.append("unwatched")

    async def respond(self, status: int, body: bytes, *, headers: Any) -> None:
        self._happened.append("answered")
        self.answered.append((status, body))


class Renderer:
    def __init__(self) -> None:
        self.rendered: list[Any] = []

    def whole(self, choices: Any, counts: Any) -> bytes:
        self.rendered.append(choices)
        return b"rendered"


class Adapter:
    adjusted: tuple[str, ...] = ()

    endpoint = "messages"

    def __init__(self, happened: list[str]) -> None:
        self.heads: list[Any] = []
        self.made = Renderer()
        self._happened = happened

    def renderer(self, head: Any) -> Renderer:
        self.heads.append(head)
        return self.made

    async def store_answer(self) -> None:
        self._happened.append("kept")


class Bench:
    """A generation of a kind, what writes it, and what happened."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        *,
        stream: bool = False,
        relay: bool = False,
        parsed: bool = False,
        adapted: bool = False,
        guards: Any = (),
        digests: Digests | None = None,
    ) -> None:
        self.happened: list[str] = []
        self.written: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.exchange = Exchange(self.happened)
        self.adapter = Adapter(self.happened) if adapted else None
        filter_ = AnswerFilter(None, guards, None, False, cast("Any", None)) if guards else None
        request = request_of(MODEL, "Hello", 7, stream=stream, filter=filter_, sampling=Sampling(n=1))
        self.generation = cast(
            "Any",
            SimpleNamespace(
                request=request,
                stream=SimpleNamespace(relay=object() if relay else None),
                answers=[SimpleNamespace(screened=None)] if parsed else None,
                sequences=[SimpleNamespace(plain=True, shown=None)],
                replica_id="p/0",
                fingerprint="fp",
                prompt_tokens=3,
                timing=Timing(),
                table=MODEL.table,
                digests=None,
                admission=SimpleNamespace(waited_seconds=0.0),
                close=lambda: self.happened.append("closed"),
            ),
        )
        self.pipeline = cast(
            "Any",
            SimpleNamespace(
                incoming=SimpleNamespace(exchange=self.exchange),
                reading=SimpleNamespace(api=CHAT, include_usage=False),
                services=SimpleNamespace(digests=digests, describes=True),
                include_usage=adapted,
            ),
        )
        for name, gives in (
            ("stream_answer", None),
            ("relay_answer", None),
            ("collect", b"collected"),
            ("collect_choices", ["choice"]),
        ):
            patch.setattr(module, name, self._writer(name, gives))
        patch.setattr(module, "counts_of", lambda generation: None)

    def _writer(self, name: str, gives: Any) -> Any:
        async def write(*arguments: Any, **options: Any) -> Any:
            self.written.append((name, arguments, options))
            return gives

        return write

    async def write(self) -> tuple[Any, ...]:
        """The arguments of the one writer that was chosen."""
        await write_answer(self.pipeline, self.generation, cast("Any", self.adapter))
        ((_, arguments, _),) = self.written
        return arguments


async def test_a_stream_of_text_is_encoded_chunk_by_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, stream=True)
    exchange, generation, encoder, adapter, guarded = await bench.write()
    assert bench.written[0][0] == "stream_answer"
    assert (exchange, generation) == (bench.exchange, bench.generation)
    assert type(encoder) is ChunkEncoder
    assert (adapter, guarded) == (None, None)
    assert bench.happened == [], "it ends with the stream"


async def test_a_stream_with_parts_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, encoder, adapter, guarded = await Bench(monkeypatch, stream=True, parsed=True).write()
    assert type(encoder) is ParsedEncoder
    assert type(encoder._renderer) is ChatRenderer
    assert (adapter, guarded) == (None, None)


@pytest.mark.parametrize("parsed", [False, True])
async def test_an_adapter_renders_its_own_streams(monkeypatch: pytest.MonkeyPatch, parsed: bool) -> None:
    bench = Bench(monkeypatch, stream=True, adapted=True, parsed=parsed)
    _, _, encoder, adapter, _ = await bench.write()
    assert bench.adapter is not None
    assert adapter is bench.adapter
    assert type(encoder) is ParsedEncoder
    assert encoder._renderer is bench.adapter.made
    (head,) = bench.adapter.heads
    assert (head.suffix, head.model, head.streamed, head.fingerprint, head.prompt_tokens) == (
        "0123",
        "m",
        True,
        "fp",
        3,
    )


async def test_guards_of_answers_stand_before_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, guarded = await Bench(monkeypatch, stream=True, guards=GUARDS).write()
    assert type(guarded) is GuardedStream


async def test_a_whole_text_is_collected_and_ends_before_it_goes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    api, generation, answer_id, _ = await bench.write()
    assert bench.written[0][0] == "collect"
    assert (api, generation, answer_id) == (CHAT, bench.generation, "chatcmpl-0123")
    assert bench.exchange.answered == [(200, b"collected")]
    assert bench.happened == ["closed", "unwatched", "answered"]


async def test_a_whole_answer_with_parts_is_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChatRenderer, "whole", lambda self, choices, counts: b"%d choices" % len(choices))
    bench = Bench(monkeypatch, parsed=True)
    await bench.write()
    assert bench.written[0][0] == "collect_choices"
    assert bench.exchange.answered == [(200, b"1 choices")]


async def test_an_adapter_keeps_a_whole_answer_before_its_client_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, adapted=True)
    await bench.write()
    assert bench.adapter is not None
    assert bench.adapter.made.rendered == [["choice"]]
    assert bench.exchange.answered == [(200, b"rendered")]
    assert bench.happened == ["closed", "unwatched", "kept", "answered"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("adapted", [False, True])
async def test_an_upstreams_bytes_are_relayed(monkeypatch: pytest.MonkeyPatch, stream: bool, adapted: bool) -> None:
    bench = Bench(monkeypatch, stream=stream, relay=True, adapted=adapted)
    target, generation, relay, digest = await bench.write()
    name, _, options = bench.written[0]
    assert (name, options) == ("relay_answer", {"include_usage": adapted})
    assert (generation, relay, digest) == (bench.generation, bench.generation.stream.relay, None)
    if adapted:
        assert type(target) is TranslatedRelay
    else:
        assert target is bench.exchange
    assert bench.exchange.record.answer_hash == ""


async def test_what_is_relayed_is_hashed_where_the_journal_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = Digests(b"k" * 32)
    bench = Bench(monkeypatch, relay=True, digests=digests)
    *_, digest = await bench.write()
    assert bench.exchange.record.answer_hash == digest.hexdigest() == digests.begin().hexdigest()
