"""Recording live requests: a real worker, and the command's side of the store."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.api.candidates.recorder import Recorder
from gateway.rollouts.comparison.answer import Answer
from gateway.rollouts.replay import recording as recordings_module
from gateway.rollouts.replay.corpus import CorpusHead, corpus_line, read_corpus
from gateway.rollouts.replay.recording import Recording, Recordings
from gateway.rollouts.replay.redaction import Redaction
from gateway.store.store_client import Store
from gateway.tenancy.tenants.caller import Caller
from safety.action import Action
from safety.screen import Rule
from safety.terms import TermFilter
from tests.asgi import Client, gateway_of
from tests.harness import MODEL, engine_of, readable_corpus
from tests.loops import until
from tests.models import CALLER

RECORDING = Recording(id="one", model=MODEL, share=1.0)
QUESTION = [{"role": "user", "content": "Write to anna@example.com"}]


def recorder_of(client: Client) -> Any:
    copying = client.gateway._copying
    assert copying is not None
    recorder = copying.copies._recorder
    assert recorder is not None
    recorder._redacted._redaction = Redaction(
        [Rule("terms", TermFilter("terms", ["anna@example.com"], words=True), Action.FLAG)]
    )
    return recorder


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.candidates.recorder.LOOK_SECONDS", 0.01)


async def test_a_recording_has_what_tenants_allow_redacted(store_url: str, tmp_path: Path) -> None:
    tenant = {"name": "a", "data": {"text": True}}
    async with gateway_of(store_url, engine_of(corpus=readable_corpus()), tenant=tenant) as client:
        recorder = recorder_of(client)
        recordings = Recordings(client.gateway._store)
        assert (await client.chat(messages=QUESTION)).status == 200
        assert await recordings.renew(RECORDING)
        # One at a time.
        assert not await recordings.renew(Recording(id="two", model=MODEL, share=1.0))
        await until(lambda: recorder._running == RECORDING)
        answers = [await client.chat(messages=QUESTION, stream=stream, user="anna") for stream in (False, True)]
        assert {answer.status for answer in answers} == {200}
        lines: list[bytes] = []
        while len(lines) < 2:
            lines += await recordings.take(10)
            await asyncio.sleep(0.001)
        await recordings.end(RECORDING)
        await until(lambda: recorder._running is None)
        assert (await client.chat(messages=QUESTION)).status == 200
        assert await recordings.take(10) == []
    path = tmp_path / "corpus"
    head = corpus_line(CorpusHead(model=MODEL, source="live", redacted=True))
    path.write_bytes(head + b"".join(line + b"\n" for line in lines))
    assert b"anna" not in path.read_bytes()
    first, second = read_corpus(path).entries
    assert first.answer is not None
    assert first.answer.text == answers[0].json["choices"][0]["message"]["content"]
    assert second.answer is not None
    assert second.answer.text
    assert first.body["messages"] != QUESTION


async def test_a_tenant_that_does_not_allow_it_is_not_recorded(store_url: str) -> None:
    tenants = {"name": "a", "data": {"text": True}}
    async with gateway_of(store_url, engine_of(), tenant=tenants) as client:
        recorder = recorder_of(client)
        recordings = Recordings(client.gateway._store)
        await recordings.renew(RECORDING)
        await until(lambda: recorder._running == RECORDING)
        for caller, share in ((CALLER, 0.0), (await authenticated(client), 1.0)):
            request = SimpleNamespace(caller=caller, model=client.gateway.models[MODEL])
            assert recorder.share_of(request) == share


async def authenticated(client: Client) -> Caller:
    return await client.gateway.authenticator.authenticate(b"Bearer " + client.key.encode())


async def test_what_waits_of_another_models_recording_is_left_out() -> None:
    class Lines:
        async def hand_in(self, running: Recording, lines: list[bytes]) -> None:
            raise AssertionError(lines)

    class Texts:
        async def body(self, body: Any) -> Any:
            return body

        async def answers(self, one: Any, other: Any) -> Any:
            return one, other

    recorder: Any = Recorder(cast("Any", Lines()), cast("Any", Texts()))
    other, record = SimpleNamespace(name="another"), SimpleNamespace(version="")
    recorder.take(SimpleNamespace(model=other, record=record, path="/chat/completions", body=b"{}", read_answer=Answer))
    await recorder._hand_in(RECORDING)
    assert not recorder._waiting


async def test_what_nobody_takes_is_bounded_and_goes_with_its_recording(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings_module, "MOST_LINES", 3)
    store = Store(store_url, timeout=10.0)
    recordings = Recordings(store)
    assert await recordings.hand_in(RECORDING, [b"early"]) == 0
    await recordings.renew(RECORDING)
    assert await recordings.hand_in(RECORDING, [b"1", b"2"]) == 2
    assert await recordings.hand_in(RECORDING, [b"3", b"4"]) == 1
    assert await recordings.hand_in(RECORDING, [b"5"]) == 0
    assert await recordings.take(2) == [b"1", b"2"]
    await recordings.end(RECORDING)
    assert await recordings.take(2) == []
    await store.aclose()
