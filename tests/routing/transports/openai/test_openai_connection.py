"""The transport to upstreams with OpenAI's API: good answers, whole and streamed, and how they are asked for."""

import asyncio
import json
import resource
from itertools import pairwise
from typing import Any

import pytest

from protos.errors import ReplicaUnavailable
from protos.features import Feature
from protos.types import Adapter, FinishReason, Payload, Submit
from tests.loops import until
from tests.routing_transports import Client, connected
from tests.upstreams import ANSWER, END, EVENT, LAST, STREAM, Caller, Heard, chunk, plain, streamed, upstream

OURS = EVENT.replace(b"theirs", b"ours")


async def test_a_stream_is_relayed_and_counted() -> None:
    async with upstream() as fake, connected(fake) as transport:
        fake.behaves = streamed(EVENT % b"a", b": ping\n\n", EVENT % b"b" + EVENT % b"c", END)
        client = transport.ask(temperature=0.5)
        shown = await client.answer()
        assert shown.startswith(OURS % b"a" + b": ping\n\n" + OURS % b"b" + OURS % b"c")
        assert shown.endswith(b"data: [DONE]\n\n")
        assert b"theirs" not in shown and b"usage" not in shown
        assert client.relay is not None and client.relay.streamed
        (finish,) = client.finishes
        assert (finish.reason, finish.prompt_tokens, finish.cached_tokens, finish.completion_tokens) == (
            FinishReason.STOP, 7, 5, 3,
        )  # fmt: skip
        assert json.loads(fake.heard[0].body) == {
            "model": "theirs", "messages": [], "stream": True, "temperature": 0.5,
            "stream_options": {"include_usage": True},
        }  # fmt: skip
        assert (fake.heard[0].method, fake.heard[0].target) == ("POST", "/v1/chat/completions")


async def test_the_counts_are_shown_to_those_who_ask() -> None:
    async with upstream() as fake, connected(fake) as transport:
        fake.behaves = streamed(EVENT % b"a", END)
        assert b'"usage":{"prompt_tokens":7' in await transport.ask(usage=True).answer()


@pytest.mark.parametrize("n", [1, 3])
async def test_a_whole_answer(n: int) -> None:
    async with upstream() as fake, connected(fake) as transport:
        client = transport.ask(stream=False, n=n)
        shown = await client.answer()
        assert json.loads(shown) == json.loads(ANSWER) | {"model": "ours"}
        assert client.relay is not None and not client.relay.streamed
        assert (client.relay.length, client.cached) == (len(shown), 5)
        assert [finish.reason for finish in client.finishes] == [
            FinishReason.LENGTH,
            *[FinishReason.STOP] * (n - 1),
        ]
        assert [finish.completion_tokens for finish in client.finishes] == [3] + [0] * (n - 1)
        assert "stream_options" not in json.loads(fake.heard[0].body)


async def test_requests_follow_each_other_on_a_kept_connection() -> None:
    async with upstream() as fake, connected(fake) as transport:
        for stream in (True, False) * 5:
            fake.behaves = streamed(EVENT % b"a", END) if stream else plain(ANSWER)
            await transport.ask(stream=stream).answer()
            await until(lambda: transport.connection._pool._idle)
        assert fake.accepted <= 2


async def test_our_key_and_headers_go_there_and_nothing_of_the_clients() -> None:
    keys: list[str | None] = ["sk-one", "sk-two", None]

    async with upstream() as fake:
        key: list[str | None] = [None]
        async with connected(fake, key=lambda: key[0], headers={"x-org": "acme"}) as transport:
            for value in keys:
                key[0] = value
                await transport.ask(stream=False).answer()
        sent = [heard.headers for heard in fake.heard]
        assert [one.get("authorization") for one in sent] == ["Bearer sk-one", "Bearer sk-two", None]
        assert sent[0] == {
            "host": fake.url.split("/")[2], "accept": "application/json", "accept-encoding": "identity",
            "user-agent": "penstock", "content-type": "application/json", "x-org": "acme",
            "authorization": "Bearer sk-one", "content-length": str(len(fake.heard[0].body)),
        }  # fmt: skip
        assert fake.looks[0].headers["x-org"] == "acme"


async def test_a_key_that_cannot_be_sent_is_not_and_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    key = ["sk-good"]
    async with upstream() as fake, connected(fake, key=lambda: key[0]) as transport:
        key[0] = "sk-secret\r\nx-evil: 1"
        with pytest.raises(ReplicaUnavailable):
            transport.ask()
        assert not fake.heard
    assert "p/0" in caplog.text and "secret" not in caplog.text


async def test_members_that_are_not_ours_keep_their_bytes() -> None:
    async with upstream() as fake, connected(fake) as transport:
        fake.behaves = streamed(EVENT % b"a", END)
        body = b'{"seed":12345678901234567890123, "t":1.10,"x":"\\u00e9","stream_options":{"a":1e5},"model":"ours"}'
        payload = Payload("/completions", body, True, False, "ours")
        client = Client()
        client.leg = transport.connection.open(Submit("r", [], 1, payload=payload), receiver=client)
        await client.answer()
        sent = fake.heard[0].body
        assert b'"seed":12345678901234567890123' in sent and b'"t":1.10' in sent and b'"x":"\\u00e9"' in sent
        assert b'"stream_options":{"a":1e5,"include_usage":true}' in sent and b'"model":"theirs"' in sent


async def test_an_upstream_that_does_not_count_is_not_asked_to_and_its_events_are_counted() -> None:
    async with upstream() as fake, connected(fake, counts_usage=False) as transport:
        fake.behaves = streamed(EVENT % b"a", EVENT % b"b", b"data: [DONE]\n\n")
        client = transport.ask(stream_options={"include_usage": True})
        await client.answer()
        assert "stream_options" not in json.loads(fake.heard[0].body)
        assert client.finishes[0].completion_tokens == 2


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_takes_its_request_away(stream: bool) -> None:
    async with upstream() as fake, connected(fake) as transport:
        left = asyncio.Event()

        async def behave(caller: Caller, heard: Heard) -> None:
            if stream:
                await caller.say(STREAM + chunk(EVENT % b"a"))
            await caller.gone()
            left.set()

        fake.behaves = behave
        client = transport.ask(stream=stream)
        await until(lambda: client.relay if stream else fake.heard)
        assert transport.connection.in_flight == 1
        assert client.leg is not None
        client.leg.close()
        client.leg.close()
        await left.wait()
        assert transport.is_empty
        assert client.relay is None or await client.relay.read() == b""


async def test_a_reader_that_waits_is_let_go_when_the_request_is_taken_away() -> None:
    async with upstream() as fake, connected(fake) as transport:

        async def behave(caller: Caller, heard: Heard) -> None:
            await caller.say(STREAM + chunk(EVENT % b"a"))
            await caller.gone()

        fake.behaves = behave
        client = await transport.ask().begun()
        reader = asyncio.create_task(client.read())
        await asyncio.sleep(0)
        assert client.leg is not None
        client.leg.close()
        assert await reader == OURS % b"a"


async def test_a_long_answer_comes_in_parts_as_fast_as_it_is_read() -> None:
    size = 32 << 20

    resident_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async with upstream() as fake, connected(fake) as transport:
        sent = 0

        async def behave(caller: Caller, heard: Heard) -> bool:
            nonlocal sent
            start = b'{"model":"theirs","choices":[{"index":0,"message":{"content":"'
            end = b'"}}],"usage":{"prompt_tokens":1,"completion_tokens":9},"more":{"usage":null}}'
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            await caller.say(head % (len(start) + size + len(end)) + start)
            for _ in range(size >> 16):
                await caller.say(b"x" * 65536)
                sent += 65536
            await caller.say(end)
            return True

        fake.behaves = behave
        client = await transport.ask(stream=False).begun()
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.05)
        assert sent < size / 2
        length = 0
        assert client.relay is not None and client.relay.length is None
        first = await client.relay.read()
        assert first.startswith(b'{"model":"ours"')
        part = first
        while part:
            length += len(part)
            last, part = part, await client.relay.read()
            assert len(last) < 4 << 20
        assert length == len(b'{"model":"ours","choices":[{"index":0,"message":{"content":"') + size + 77
        assert last.endswith(b'"more":{"usage":null}}')
        assert client.finishes[0].completion_tokens == 9
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident_before < 40 * 1024


async def test_what_cannot_be_asked_is_refused_at_once() -> None:
    async with upstream() as fake, connected(fake, max_in_flight=1) as transport:

        async def behave(caller: Caller, heard: Heard) -> None:
            await caller.gone()

        fake.behaves = behave
        with pytest.raises(ReplicaUnavailable):
            transport.connection.open(Submit("r", [1], 1))
        payload = Payload("/completions", b"{", True, False, "ours")
        with pytest.raises(ReplicaUnavailable):
            transport.connection.open(Submit("r", [1], 1, payload=payload), receiver=Client())
        client = transport.ask()
        with pytest.raises(ReplicaUnavailable, match="as many"):
            transport.ask()
        assert transport.connection.view.max_batch_size == 1
        assert client.leg is not None
        client.leg.close()


METRICS = b"""# HELP vllm:num_requests_running x
vllm:num_requests_running{model_name="m"} 4.0
vllm:num_requests_waiting{model_name="m"} 2.0
vllm:kv_cache_usage_perc{model_name="m"} 0.25
vllm:cache_config_info{block_size="16",num_gpu_blocks="1000"} 1.0
"""


async def test_its_load_is_read_from_its_metrics() -> None:
    async with upstream() as fake:
        fake.pages["/metrics"] = plain(METRICS, kind="text/plain")
        async with connected(fake, metrics_of="auto", health="/health") as transport:
            load = transport.connection.view.load
            assert (load.running, load.waiting, load.kv_blocks_used, load.kv_blocks_total) == (4, 2, 250, 1000)
            assert transport.connection.view.kv_block_tokens == 16
            assert transport.connection.view.features & Feature.WHOLE_API
            assert [look.target for look in fake.looks] == ["/health", "/metrics"]


@pytest.mark.parametrize(("kind", "again"), [("auto", False), ("vllm", True)])
async def test_metrics_that_are_not_there_leave_the_load_to_be_counted(kind: Any, again: bool) -> None:
    async with upstream() as fake:
        fake.pages["/metrics"] = plain(b"", "404 Not Found")
        async with connected(fake, metrics_of=kind) as transport:
            await transport.connection._provider.look()
            assert [look.target for look in fake.looks].count("/metrics") == 1 + again
            fake.behaves = streamed(EVENT % b"a", END)
            client = transport.ask()
            assert transport.connection.view.load.running + transport.connection.view.load.waiting == 1
            await client.begun()
            assert client.error is None


async def test_a_probe_is_a_look_and_costs_nothing() -> None:
    async with upstream() as fake, connected(fake) as transport:
        probe = transport.connection._ask()
        assert probe is not None
        assert await probe.problem() == ""
        probe.tick()
        fake.health = plain(b"", "503 Service Unavailable")
        asked = "GET /v1/models is answered with status 503; upstream.health names what is asked for"
        assert await probe.problem() == asked
        assert not fake.heard


async def test_each_change_of_its_state_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with upstream() as fake, connected(fake, health_seconds=0.0) as transport:
        transport.connection.health.prove_first = True  # as a worker's are
        fake.health = plain(b"", "503 Service Unavailable")
        await until(lambda: not transport.connection.connected)
        fake.health = plain(b"{}")
        await until(lambda: transport.connection.health.serves)
    said = [record.getMessage() for record in caplog.records if " is " in record.getMessage()]
    assert sum("is probing" in line for line in said) == 1
    assert all(one != another for one, another in pairwise(said))


async def test_several_answers_have_one_count() -> None:
    async with upstream() as fake, connected(fake) as transport:
        cut = b'data: {"model":"theirs","choices":[{"index":1,"delta":{},"finish_reason":"length"}]}\n\n'
        fake.behaves = STREAM + chunk(EVENT % b"a" + cut + END) + LAST
        client = transport.ask(n=2)
        await client.answer()
        assert [(finish.reason, finish.completion_tokens) for finish in client.finishes] == [
            (FinishReason.STOP, 3), (FinishReason.LENGTH, 0),
        ]  # fmt: skip


async def test_an_adapter_is_a_model_there() -> None:
    async with upstream() as fake, connected(fake) as transport:
        payload = Payload("/chat/completions", b'{"model":"ours:customer"}', False, False, "ours:customer")
        client = Client()
        submit = Submit("r", [1], 1, adapter=Adapter("customer"), payload=payload)
        client.leg = transport.connection.open(submit, receiver=client)
        assert json.loads(await client.answer())["model"] == "ours:customer"
        assert json.loads(fake.heard[0].body)["model"] == "customer"
