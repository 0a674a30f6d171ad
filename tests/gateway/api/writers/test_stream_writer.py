"""What a streamed and a whole answer look like, from real engines through the application."""

from typing import Any

import orjson
import pytest

from protos.types import Finish, FinishReason, TokenLogprobs
from replicas.engine import Delta
from replicas.engines.answer_lengths import Corpus
from routing.health.probe import PROBE
from tests.asgi import CHAT, Answer, Client, gateway_of
from tests.fakes import SilentEngine
from tests.harness import MODEL, engine_of, readable_corpus, tekken
from tests.loops import until


def texts(answer: Answer, *, chat: bool = True) -> dict[int, str]:
    """The text of each choice of a stream."""
    found: dict[int, str] = {}
    for event in answer.events[:-1]:
        for choice in event["choices"]:
            piece = choice["delta"].get("content", "") if chat else choice["text"]
            found[choice["index"]] = found.get(choice["index"], "") + piece
    return found


def check_stream(answer: Answer, *, chat: bool, n: int = 1, usage: bool = False) -> list[Any]:
    """The rules that every whole stream keeps; returns its chunks."""
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.events[-1] == "[DONE]"
    chunks = answer.events[:-1]
    assert len({(c["id"], c["created"], c["model"], c["object"], c["system_fingerprint"]) for c in chunks}) == 1
    assert chunks[0]["object"] == ("chat.completion.chunk" if chat else "text_completion")
    if usage:
        last = chunks.pop()
        assert last["choices"] == []
        assert last["usage"]["total_tokens"] == last["usage"]["prompt_tokens"] + last["usage"]["completion_tokens"]
        assert all(chunk["usage"] is None for chunk in chunks)
    else:
        assert all("usage" not in chunk for chunk in chunks)
    for index in range(n):
        own = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        if chat:
            assert own[0]["delta"]["role"] == "assistant"
            assert own[0]["delta"]["content"] == ""
            assert all("role" not in choice["delta"] for choice in own[1:])
            assert own[-1]["delta"] == {}
        assert own[-1]["finish_reason"] in ("stop", "length")
        assert all(choice["finish_reason"] is None for choice in own[:-1])
    return chunks


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("usage", [False, True])
@pytest.mark.parametrize("chat", [True, False])
async def test_a_stream_says_what_the_whole_answer_says(store_url: str, n: int, usage: bool, chat: bool) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus())) as client:
        ask = client.chat if chat else client.complete
        fields: dict[str, Any] = {"n": n, "seed": 3, "max_tokens": 60}
        whole = await ask(**fields)
        options = {"stream_options": {"include_usage": True}} if usage else {}
        stream = await ask(stream=True, **fields, **options)
        check_stream(stream, chat=chat, n=n, usage=usage)
        assert whole.json["object"] == ("chat.completion" if chat else "text_completion")
        assert "simulated" in whole.json["system_fingerprint"]
        choices = whole.json["choices"]
        assert [choice["index"] for choice in choices] == list(range(n))
        said = [choice["message"]["content"] if chat else choice["text"] for choice in choices]
        assert texts(stream, chat=chat) == dict(enumerate(said))
        assert all(said)
        if chat:
            assert all(
                c["message"] == {"role": "assistant", "content": t, "refusal": None}
                for c, t in zip(choices, said, strict=True)
            )
        assert whole.json["usage"]["completion_tokens"] <= 60 * n
        if usage:
            last = stream.events[-2]["usage"]
            assert last["prompt_tokens"] == whole.json["usage"]["prompt_tokens"]
            assert last["completion_tokens"] == whole.json["usage"]["completion_tokens"]


async def test_max_completion_tokens_is_the_same_limit(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus())) as client:
        answer = await client.chat(max_completion_tokens=7, max_tokens=None, ignore_eos=True)
        assert answer.json["usage"]["completion_tokens"] == 7
        assert answer.json["choices"][0]["finish_reason"] == "length"
        defaulted = await client.complete(max_tokens=None, ignore_eos=True)
        assert defaulted.json["usage"]["completion_tokens"] == 16


@pytest.mark.parametrize("chat", [True, False])
async def test_stop_strings_end_a_text_wherever_tokens_cut_it(store_url: str, chat: bool) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus())) as client:
        ask = client.chat if chat else client.complete
        fields: dict[str, Any] = {"seed": 3, "max_tokens": 80, "ignore_eos": True}
        choice = (await ask(**fields)).json["choices"][0]
        text = choice["message"]["content"] if chat else choice["text"]
        for start, length in ((20, 3), (33, 9), (50, 25)):
            stop = text[start : start + length]
            expected = text[: text.index(stop)]
            for stream in (False, True):
                answer = await ask(stop=[stop, "never in it"], stream=stream, **fields)
                if stream:
                    check_stream(answer, chat=chat)
                    assert texts(answer, chat=chat) == {0: expected}
                    assert answer.events[-2]["choices"][0]["finish_reason"] == "stop"
                else:
                    found = answer.json["choices"][0]
                    assert (found["message"]["content"] if chat else found["text"]) == expected
                    assert found["finish_reason"] == "stop"
                    assert answer.json["usage"]["completion_tokens"] < 80
        fleet = client.gateway.models[MODEL].fleet
        await until(lambda: fleet.candidates()[0].load.running == 0)


@pytest.mark.parametrize("stop", [None, " "])
async def test_logprobs_are_those_of_the_text(store_url: str, stop: str | None) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus())) as client:
        fields: dict[str, Any] = {"logprobs": True, "top_logprobs": 2, "seed": 5, "max_tokens": 30, "stop": stop}
        whole = (await client.chat(**fields)).json["choices"][0]
        stream = await client.chat(stream=True, **fields)
        chunks = check_stream(stream, chat=True)
        entries = [e for c in chunks for ch in c["choices"] if ch["logprobs"] for e in ch["logprobs"]["content"]]
        assert entries == whole["logprobs"]["content"]
        text = whole["message"]["content"]
        assert text.startswith(b"".join(bytes(e["bytes"]) for e in entries).decode("utf-8", "ignore"))
        if stop is None:
            assert "".join(e["token"] for e in entries) == text
            assert len(entries) == 30 or whole["finish_reason"] == "stop"
        for entry in entries:
            assert len(entry["top_logprobs"]) == 2
            assert entry["top_logprobs"][0]["token"] == entry["token"]
            assert entry["logprob"] <= 0
        bare = (await client.chat(logprobs=True, max_tokens=3)).json["choices"][0]["logprobs"]
        assert all(entry["top_logprobs"] == [] for entry in bare["content"])
        assert (await client.chat(max_tokens=3)).json["choices"][0]["logprobs"] is None


async def test_text_offsets_of_completions_run_on_over_a_stream(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus())) as client:
        fields: dict[str, Any] = {"logprobs": 1, "seed": 5, "max_tokens": 12, "ignore_eos": True}
        whole = (await client.complete(**fields)).json["choices"][0]
        offsets = whole["logprobs"]["text_offset"]
        assert offsets == sorted(offsets)
        assert [whole["text"][o : o + len(t)] for o, t in zip(offsets, whole["logprobs"]["tokens"], strict=True)] == (
            whole["logprobs"]["tokens"]
        )
        stream = await client.complete(stream=True, **fields)
        streamed = [
            offset
            for chunk in check_stream(stream, chat=False)
            for choice in chunk["choices"]
            if choice["logprobs"]
            for offset in choice["logprobs"]["text_offset"]
        ]
        assert streamed == offsets


@pytest.mark.parametrize("prompt", ["", "Über: "])
@pytest.mark.parametrize(
    "said",
    [
        "Ask anna.bell@mail.example.org, and bob@mail.example.org too, about ½ 👩‍👩‍👧 towers. ",
        "anna.bell@mail.example.org has it. ",
        "Write to anna.bell@mail.example.org or frobnicate it. ",
    ],
)
async def test_text_offsets_are_places_in_the_text_that_is_shown(
    store_url: str, said: str, prompt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An engine that tells no logprobs of prompts is not asked for them; what its answer's are is the same.
    monkeypatch.setattr("gateway.api.openai.completions._check_own", lambda *_, **__: None)
    tokenizer = tekken().tokenizer
    ids = tuple(tokenizer.encode(said, special=False))
    engine = engine_of(corpus=Corpus((ids,), eos=min(tokenizer.eos_ids)))
    terms = {"name": "list", "terms": {"terms": ["frobnicate"]}}
    safety = {"output": ["pii", "list"], "filters": [terms]}

    async with gateway_of(store_url, engine, safety=safety) as client:
        fields: dict[str, Any] = {"logprobs": 1, "max_tokens": 3 * len(ids), "ignore_eos": True, "seed": 3}
        fields |= {"prompt": prompt, "echo": True} if prompt else {}
        whole = (await client.complete(**fields)).json["choices"][0]
        assert whole["text"].startswith(prompt)
        assert "[EMAIL]" in whole["text"]
        tokens, offsets = whole["logprobs"]["tokens"], whole["logprobs"]["text_offset"]
        assert len(tokens) == len(offsets) >= 3
        assert offsets == sorted(offsets)
        for token, offset in zip(tokens, offsets, strict=True):
            if "\ufffd" not in token:
                assert whole["text"][offset:].startswith(token)
        stream = await client.complete(stream=True, **fields)
        shown = [
            choice["logprobs"]["text_offset"]
            for chunk in stream.events[:-1]
            for choice in chunk["choices"]
            if choice["logprobs"]
        ]
        # Streams do not tell the prompt's tokens.
        answered = [offset for some in shown for offset in some]
        assert answered and offsets[-len(answered) :] == answered
        assert all(offset < len(prompt) for offset in offsets[: -len(answered)])


def _requests(engine: SilentEngine) -> set[int]:
    return {handle for handle, submit in engine.submitted.items() if submit.request_id != PROBE.request_id}


async def _scripted(client: Client, engine: SilentEngine, runs: list[list[int]], **fields: Any) -> Answer:
    """A stream whose tokens the test says, run by run."""
    call = client.call("POST", CHAT)
    call.put(orjson.dumps({"model": MODEL, "messages": [{"role": "user", "content": "x"}], "stream": True} | fields))
    before = set(engine.submitted)
    # The gateway's probe is a request too, and may come at any moment.
    await until(lambda: bool(_requests(engine) - before))
    (handle,) = _requests(engine) - before
    for run in runs:
        logprobs = [TokenLogprobs(-0.5)] * len(run) if fields.get("logprobs") else None
        engine.say(Delta(handle, 0, list(run), logprobs))
    engine.say(finishes=[(handle, 0, Finish(FinishReason.STOP))])
    return await call.answer()


@pytest.mark.parametrize("text", ["日本語のテキスト 👩‍👩‍👧 ½", 'quotes " and \\ and \n and \x00 and \u2028'])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("logprobs", [None, True])
async def test_characters_split_over_tokens_arrive_whole(
    store_url: str, text: str, size: int, logprobs: bool | None
) -> None:
    tokenizer = tekken().tokenizer
    # One token a byte, which no encoder would choose: every character is cut as often as it can be.
    single = {tokenizer.token_bytes(token): token for token in range(tokenizer.vocab_size - 1, -1, -1)}
    ids = [single[bytes([byte])] for byte in text.encode()]

    engine = SilentEngine()
    async with gateway_of(store_url, engine) as client:
        runs = [ids[at : at + size] for at in range(0, len(ids), size)]
        answer = await _scripted(client, engine, runs, logprobs=logprobs)
        check_stream(answer, chat=True)
        assert texts(answer) == {0: text}
        # What never becomes a character is shown as one replacement at the end.
        answer = await _scripted(client, engine, [ids[:1], [single[b"\xe2"]]], logprobs=logprobs)
        assert texts(answer) == {0: (text.encode()[:1] + b"\xe2").decode("utf-8", "replace")}


async def test_an_empty_answer_is_an_answer(store_url: str) -> None:
    engine = SilentEngine()
    async with gateway_of(store_url, engine) as client:
        answer = await _scripted(client, engine, [], stream_options={"include_usage": True})
        check_stream(answer, chat=True, usage=True)
        assert texts(answer) == {0: ""}
        assert answer.events[-2]["usage"]["completion_tokens"] == 0
        eos = min(tekken().tokenizer.eos_ids)
        assert texts(await _scripted(client, engine, [[eos]])) == {0: ""}


@pytest.mark.parametrize("stop", [None, ["e"]])
async def test_cached_tokens_are_told(store_url: str, stop: list[str] | None) -> None:
    async with gateway_of(store_url, engine_of(corpus=readable_corpus())) as client:
        fields: dict[str, Any] = {"prompt": "word " * 200, "stop": stop, "max_tokens": 40, "seed": 1}
        cached = []
        for stream in (False, False, True):
            options = {"stream_options": {"include_usage": True}} if stream else {}
            answer = await client.complete(stream=stream, **fields, **options)
            usage = answer.events[-2]["usage"] if stream else answer.json["usage"]
            cached.append(usage["prompt_tokens_details"]["cached_tokens"])
            assert 200 <= usage["prompt_tokens"] <= 202
        assert cached[0] == 0
        assert 100 < cached[1] <= 202
        assert cached[2] == cached[1]
