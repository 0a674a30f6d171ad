"""What the record of a request says once it has ended, through the whole application."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from gateway.telemetry.answer_record import describe
from gateway.telemetry.record_publisher import RecordPublisher
from observability.digests import Digests
from observability.outcome import Outcome
from observability.record import RequestRecord, Verdict
from protos.script import Line
from replicas.engine import Engine
from replicas.engines.answer_lengths import Corpus
from tests.asgi import CHAT, HELLO, Answer, Client, gateway_of
from tests.fakes import DiesAfter, SilentEngine
from tests.gateway.api.answers import shown
from tests.harness import MODEL, engine_of, gated_engine, readable_corpus, readable_vocabulary, tekken
from tests.loops import until
from tests.upstreams import plain, upstream

PRICE = {"input": 1.0, "output": 2.0}
DIGESTS = Digests(b"k" * 32)
LIST = {"name": "list", "terms": {"terms": ["frobnicate"]}}


class Kept:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []

    def take(self, records: Sequence[RequestRecord]) -> None:
        self.records += records

    async def aclose(self) -> None:
        pass


def watched(client: Client) -> Kept:
    """From now on the worker's records go here."""
    kept = Kept()
    client.gateway.services.record_publisher = RecordPublisher([kept])
    client.gateway.services.digests = DIGESTS
    client.gateway.services.describe = lambda generation: describe(generation, DIGESTS)
    return kept


def told(client: Client, kept: Kept) -> RequestRecord:
    """The one record since the last look."""
    client.gateway.services.record_publisher.flush()
    assert len(kept.records) == 1
    return kept.records.pop()


def says(sentence: str) -> Engine:
    tokenizer = tekken().tokenizer
    return engine_of(corpus=Corpus((tuple(tokenizer.encode(sentence, special=False)),), eos=min(tokenizer.eos_ids)))


def text_of(answer: Answer) -> str:
    choices = {index: choice for index, choice in shown(answer).items() if index != "usage"}
    return "".join(choice["text"] for choice in choices.values())


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer(store_url: str, stream: bool) -> None:
    async with gateway_of(store_url, engine_of(), price=PRICE) as client:
        kept = watched(client)
        options = {"stream_options": {"include_usage": True}} if stream else {}
        answer = await client.chat(stream=stream, **options)
        record = told(client, kept)
        usage = shown(answer)["usage"]
        assert (record.outcome, record.status, record.code, record.finish) == (Outcome.OK, 200, "", "length")
        assert record.id == answer.headers["x-request-id"]
        assert (record.endpoint, record.model, record.asked_model) == ("chat", MODEL, MODEL)
        assert (record.tenant, record.tier) == ("default", "bronze")
        assert record.key_id
        assert (record.stream, record.sequences) == (stream, 1)
        assert (record.prompt_tokens, record.completion_tokens) == (usage["prompt_tokens"], 20)
        assert record.cost_nano_usd == 1000 * record.prompt_tokens + 2000 * 20
        assert (record.pool, record.replica) == ("pool", "pool/0")
        assert record.policy
        assert (record.retries, record.migrations, record.hedges, record.rejected_tokens) == (0, 0, 0, 0)
        moments = [
            *(record.arrived, record.identified, record.screened, record.encoded, record.reserved),
            *(record.admitted, record.sent, record.first_token, record.last_token, record.ended),
        ]
        assert moments == sorted(moments)
        assert moments[0] > 0
        assert stream or not sum(record.gaps)
        text = text_of(answer)
        assert record.answer_characters == len(text)
        assert record.answer_hash == DIGESTS.of(text.encode())


async def test_gaps_are_between_the_events_of_a_stream(store_url: str) -> None:
    engine, gate = gated_engine(corpus=readable_corpus())
    async with gateway_of(store_url, engine) as client:
        kept = watched(client)
        call = client.call("POST", CHAT)
        call.put(orjson.dumps({"model": MODEL, "messages": HELLO, "max_tokens": 20, "stream": True}))
        gate.let(5)
        # Its head, the event with the role, and one with text.
        await until(lambda: len(call.sent) > 2)
        gate.open()
        await call.answer()
        assert sum(told(client, kept).gaps) > 0


@pytest.mark.parametrize("fields", [{"stop": ["e"]}, {"n": 3}, {"n": 2, "stop": ["a"]}], ids=str)
@pytest.mark.parametrize("stream", [False, True])
async def test_the_hash_is_of_what_was_shown(store_url: str, fields: dict[str, Any], stream: bool) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        kept = watched(client)
        answer = await client.chat(stream=stream, temperature=0, **fields)
        record = told(client, kept)
        choices = {index: choice for index, choice in shown(answer).items() if index != "usage"}
        texts = [choices[index]["text"] for index in sorted(choices, key=str)]
        assert record.sequences == len(texts) == fields.get("n", 1)
        assert record.answer_characters == sum(map(len, texts))
        hashes = [DIGESTS.of(text.encode()) for text in texts]
        assert record.answer_hash == (hashes[0] if len(hashes) == 1 else DIGESTS.of("".join(hashes).encode()))


async def test_answers_that_judges_did_not_come_to(store_url: str) -> None:
    own = {"name": "own", "plugin": {"target": "tests.plugins:Raises", "timeout_seconds": 5.0}}
    safety = {"filters": [own], "output": [{"filter": "own", "action": "block"}], "on_failure": "fail_closed"}
    async with gateway_of(store_url, says("Fine. "), safety=safety) as client:
        kept = watched(client)
        answer = await client.chat(n=3, max_tokens=20)
        assert (answer.status, answer.error["code"]) == (503, "filter_failed")
        record = told(client, kept)
        assert (record.sequences, record.answer_characters) == (3, 0)
        assert record.answer_hash == DIGESTS.of((DIGESTS.of(b"") * 3).encode())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fields", [{}, {"logprobs": True}, {"stop": ["zzz"]}], ids=str)
async def test_an_answer_that_is_taken_apart_has_one_hash(store_url: str, stream: bool, fields: dict[str, Any]) -> None:
    said = 'Well. [TOOL_CALLS]find[ARGS]{"n": 5}'
    engine = engine_of(corpus=readable_corpus(), vocabulary=readable_vocabulary(), script=(Line("call", said),))
    tools = [{"type": "function", "function": {"name": "find"}}]

    async with gateway_of(store_url, engine, model_fields={"output": {"tools": "mistral"}}) as client:
        kept = watched(client)
        messages = [{"role": "user", "content": "call"}]
        await client.chat(messages=messages, stream=stream, max_tokens=100, tools=tools, **fields)
        record = told(client, kept)
        assert record.answer_characters == len(said)
        assert record.answer_hash == DIGESTS.of(said.encode())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("action", "outcome"), [("block", Outcome.CUT), ("redact", Outcome.OK), ("flag", Outcome.OK)])
async def test_what_filters_did_to_an_answer(store_url: str, action: str, outcome: Outcome, stream: bool) -> None:
    safety = {"output": [{"filter": "list", "action": action}], "filters": [LIST]}

    async with gateway_of(store_url, says("Never frobnicate it."), safety=safety) as client:
        kept = watched(client)
        answer = await client.chat(stream=stream, max_tokens=50)
        record = told(client, kept)
        assert (record.outcome, record.status) == (outcome, 200)
        verdict = record.verdicts[0]
        assert verdict._replace(times=1) == Verdict("list", action, "answer", "list", 1)
        text = text_of(answer)
        assert (record.answer_hash, record.answer_characters) == (DIGESTS.of(text.encode()), len(text))


async def test_requests_that_came_to_nothing(store_url: str) -> None:
    safety = {"input": ["list"], "filters": [LIST]}

    async with gateway_of(store_url, engine_of(), safety=safety) as client:
        kept = watched(client)

        async def outcome(answer: Answer) -> tuple[Outcome, int, str, str]:
            record = told(client, kept)
            assert record.status == answer.status
            assert record.ended >= record.arrived > 0
            assert record.completion_tokens == 0
            return record.outcome, record.status, record.code, record.endpoint

        bad_key = [(b"authorization", b"Bearer nonsense")]
        assert await outcome(await client.request("POST", CHAT, b"{}", bad_key)) == (
            *(Outcome.DENIED, 401, "invalid_api_key", "chat"),
        )
        assert (await outcome(await client.chat(model="nope")))[:3] == (Outcome.INVALID, 404, "model_not_found")
        assert (await outcome(await client.request("GET", CHAT)))[:2] == (Outcome.INVALID, 405)
        assert await outcome(await client.request("GET", "/nowhere")) == (
            *(Outcome.INVALID, 404, "unknown_url", "other"),
        )
        assert (await outcome(await client.request("GET", "/v1/models")))[::3] == (Outcome.OK, "models")
        answer = await client.chat(messages=[{"role": "user", "content": "frobnicate"}])
        client.gateway.services.record_publisher.flush()
        assert kept.records[-1].filter_seconds > 0
        assert (await outcome(answer))[:3] == (Outcome.FILTERED, 400, "content_filter")
        # Probes of load balancers are nobody's requests.
        await client.request("GET", "/healthz")
        client.gateway.services.record_publisher.flush()
        assert kept.records == []


async def test_a_refusal_tells_the_tokens_that_were_not_computed(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(), key_limits={"rpm": 1}) as client:
        await client.chat()
        kept = watched(client)
        await client.chat()
        record = told(client, kept)
        assert (record.outcome, record.status) == (Outcome.LIMITED, 429)
        assert record.rejected_tokens > 0
        assert (record.prompt_tokens, record.reserved) == (0, 0.0)


async def test_a_stream_that_breaks(store_url: str) -> None:
    async with gateway_of(store_url, DiesAfter(3)) as client:
        kept = watched(client)
        answer = await client.chat(stream=True)
        assert answer.events[-1] != "[DONE]"
        record = told(client, kept)
        assert (record.outcome, record.status) == (Outcome.REPLICA_ERROR, 502)
        assert 1 <= record.completion_tokens <= 3
        assert record.detail


async def test_a_client_that_leaves(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        kept = watched(client)
        call = client.call("POST", CHAT)
        call.put(b'{"model": "%b", "messages": [{"role": "user", "content": "Hi"}]}' % MODEL.encode())
        await until(lambda: client.active == 1)
        call.disconnect()
        await until(lambda: client.active == 0)
        assert told(client, kept).outcome in (Outcome.CLIENT_GONE, Outcome.OK)


async def test_a_request_that_failed_everywhere_tells_where_it_was(store_url: str) -> None:
    async with gateway_of(store_url, DiesAfter(0), DiesAfter(0)) as client:
        await client.proven(2)
        kept = watched(client)
        await client.chat()
        record = told(client, kept)
        assert record.outcome is Outcome.REPLICA_ERROR
        assert (record.pool, record.retries) == ("pool", 1)
        assert record.replica.startswith("pool/")
        assert record.policy
        assert (record.prompt_tokens, record.cost_nano_usd) == (0, 0)


async def test_a_client_that_leaves_before_the_first_token_pays_for_the_prompt(store_url: str) -> None:
    async with gateway_of(store_url, SilentEngine(), price=PRICE) as client:
        for model in client.gateway.models.values():
            await until(model.fleet.candidates)
        kept = watched(client)
        call = client.call("POST", CHAT)
        call.put(b'{"model": "%b", "messages": [{"role": "user", "content": "Hi"}]}' % MODEL.encode())
        await until(lambda: any(exchange.record.sent for exchange in client.gateway.watchdog.active))
        call.disconnect()
        await until(lambda: client.active == 0)
        record = told(client, kept)
        assert record.outcome is Outcome.CLIENT_GONE
        assert record.prompt_tokens > 0
        assert record.cost_nano_usd == 1000 * record.prompt_tokens


async def test_only_what_was_read_counts_as_shown(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        kept = watched(client)
        call = client.call("POST", CHAT)
        # The whole answer comes at once; of this client's stream the first event has gone out when it leaves.
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 500, "stream": True}
        call.put(orjson.dumps(body))
        await until(lambda: len(call.sent) > 2)
        call.disconnect()
        await until(lambda: client.active == 0)
        record = told(client, kept)
        text = b"".join(message.get("body", b"") for message in call.sent).decode()
        events = [orjson.loads(part[6:]) for part in text.split("\n\n") if part.startswith("data: {")]
        deltas = [event["choices"][0]["delta"].get("content", "") for event in events if event.get("choices")]
        assert record.answer_characters == len("".join(deltas))
        assert record.answer_hash == DIGESTS.of("".join(deltas).encode())


async def test_what_cannot_be_described_has_been_answered_all_the_same(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> int:
        raise RuntimeError("no price")

    async with gateway_of(store_url, engine_of()) as client:
        monkeypatch.setattr("gateway.config.models.price.Price.nano", fails)
        kept = watched(client)
        answer = await client.chat(stream=True)
        assert answer.events[-1] == "[DONE]"
        assert told(client, kept).outcome is Outcome.OK
    assert "cannot be described" in caplog.text


async def test_an_answer_in_another_models_place_has_the_stages_of_the_one_that_was_asked_first(store_url: str) -> None:
    async with upstream() as broken:
        broken.behaves = plain(b"oops", "500 Internal Server Error", kind="text/plain")
        pool = {"name": "up", "engine": "openai", "replicas": [broken.url]}
        first = {"name": "first", "context": 4096, "pools": [pool], "fallbacks": {"models": [MODEL]}}
        async with gateway_of(store_url, engine_of(), more_models=[first], price=PRICE) as client:
            kept = watched(client)
            answer = await client.chat(model="first", max_tokens=4)
            record = told(client, kept)
            assert answer.status == 200
            assert (record.outcome, record.asked_model, record.model) == (Outcome.OK, "first", MODEL)
            assert (record.pool, record.completion_tokens, record.rejected_tokens) == ("pool", 4, 0)
            assert record.cost_nano_usd > 0
            moments = [
                *(record.arrived, record.identified, record.screened, record.encoded, record.reserved),
                *(record.admitted, record.sent, record.first_token, record.last_token, record.ended),
            ]
            assert moments == sorted(moments)
