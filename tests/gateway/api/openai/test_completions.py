"""Text completions whole: several prompts, echo, suffix and best_of, by engines of tokens and by upstreams."""

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from gateway.api.writers.best_of import best_choices
from gateway.text.sequence_text import TokenEntry
from protos.features import Feature
from protos.types import TokenLogprobs
from replicas.engines.answer_lengths import Corpus
from replicas.engines.simulated import SimulatedEngine
from tests.asgi import Client, gateway_of
from tests.gateway.api.accounts import used
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.harness import MODEL, engine_of, gated_engine, tekken
from tests.loops import until
from tests.upstreams import plain, upstream

TOKENIZER = tekken().tokenizer
PROMPTS: list[Any] = ["Once upon a time", "Der Fluss", TOKENIZER.encode("Il fiume", special=False), "x"]


def says(*sentences: str) -> SimulatedEngine:
    ids = tuple(tuple(TOKENIZER.encode(sentence, special=False)) for sentence in sentences)
    return engine_of(corpus=Corpus(ids, eos=min(TOKENIZER.eos_ids)))


async def alone(client: Client, prompt: Any, **fields: Any) -> list[str]:
    answer = await client.complete(prompt=prompt, **fields)
    assert answer.status == 200, answer.body
    return [choice["text"] for choice in answer.json["choices"]]


def streamed(events: Sequence[Any], count: int) -> list[str]:
    texts = [""] * count
    finished = set()
    assert events[-1] == "[DONE]"
    for event in events[:-1]:
        for choice in event["choices"]:
            assert choice["index"] not in finished
            texts[choice["index"]] += choice["text"]
            if choice["finish_reason"] is not None:
                finished.add(choice["index"])
    assert finished == set(range(count))
    return texts


async def test_each_prompt_has_its_own_answers_in_order(store_url: str) -> None:
    engines = [says("The river runs.", "Birds sing at dawn.", "Und so weiter.", "Stones lie.") for _ in range(2)]
    async with gateway_of(store_url, *engines) as client:
        fields: dict[str, Any] = {"n": 2, "max_tokens": 12, "seed": 7}
        wanted = [text for prompt in PROMPTS for text in await alone(client, prompt, **fields)]
        answer = await client.complete(prompt=PROMPTS, **fields)
        assert answer.status == 200
        assert [choice["index"] for choice in answer.json["choices"]] == list(range(8))
        assert [choice["text"] for choice in answer.json["choices"]] == wanted
        assert len(set(wanted)) > 2
        usage = answer.json["usage"]
        assert usage["completion_tokens"] == 8 * 12
        prompts = [await client.complete(prompt=prompt, max_tokens=1) for prompt in PROMPTS]
        assert usage["prompt_tokens"] == sum(one.json["usage"]["prompt_tokens"] for one in prompts)
        stream = await client.complete(prompt=PROMPTS, stream=True, stream_options={"include_usage": True}, **fields)
        assert all(streamed(stream.events, 8))
        assert stream.events[-2]["usage"]["completion_tokens"] == 8 * 12


async def test_an_answer_is_the_one_that_its_prompt_alone_would_have(store_url: str) -> None:
    async with gateway_of(store_url, says("It ends well.")) as client:
        for stream in (False, True):
            answer = await client.complete(
                prompt=["a", "b", [5, 6]], echo=True, max_tokens=40, stop="ends", stream=stream
            )
            ids = "".join(TOKENIZER.token_bytes(token).decode() for token in (5, 6))
            texts = streamed(answer.events, 3) if stream else [choice["text"] for choice in answer.json["choices"]]
            for text, before in zip(texts, ["a", "b", ids], strict=True):
                assert text.startswith(before)
                assert "ends" not in text
        assert not client.active


async def test_engines_that_only_take_text_get_texts(store_url: str) -> None:
    engine = says("The river runs.")
    engine.info = replace(engine.info, features=Feature.TOKENS & ~Feature.TOKEN_IDS)
    async with gateway_of(store_url, engine) as client:
        assert (await client.complete(prompt=["One", "Two"])).status == 200
        refused = await client.complete(prompt=["One", [5]])
        assert (refused.status, refused.error["param"]) == (400, "prompt")


async def test_limits_are_of_all_prompts_together(store_url: str) -> None:
    limits = {"tpm": 100_000, "rpm": 2, "max_output_tokens": 40, "max_input_tokens": 30}
    tenant = {"name": "payer", "limits": limits}
    async with gateway_of(store_url, engine_of(), tenant=tenant) as client:
        refused = await client.complete(prompt=["a"] * 5, max_tokens=10)
        assert refused.error["code"] == "token_limit_exceeded"
        assert refused.error["param"] == "max_tokens"
        refused = await client.complete(prompt=["a b c d e f g h i j"] * 4, max_tokens=10)
        assert (refused.error["code"], refused.error["param"]) == ("token_limit_exceeded", "prompt")
        answer = await client.complete(prompt=["a"] * 4, max_tokens=10)
        assert answer.status == 200
        assert (await client.complete(prompt=["a", "b"], max_tokens=2)).status == 200
        assert (await client.complete(prompt=["a", "b"], max_tokens=2)).status == 429
        row = await used(client, "payer")
        assert (row.requests, row.output_tokens) == (2, 44)
        assert row.input_tokens == answer.json["usage"]["prompt_tokens"] + 4


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ["a", 5]}, "prompt[1]"),
        ({"prompt": [[1], 5]}, "prompt[1]"),
        ({"prompt": ["a", []]}, "prompt[1]"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": ["a"] * 100, "n": 100}, "prompt"),
        ({"prompt": ["a", [4_000_000_000]]}, "prompt"),
        ({"prompt": ["a", "b" * 20_000]}, "prompt"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"best_of": 3, "stream": True}, "best_of"),
        ({"best_of": 21}, "best_of"),
        ({"echo": "yes"}, "echo"),
        ({"suffix": "b", "prompt": [1, 2]}, "suffix"),
    ],
)
async def test_refusals_name_the_parameter(store_url: str, fields: dict[str, Any], param: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        answer = await client.complete(**fields)
        assert answer.status == 400
        assert answer.error["param"] == param


async def test_a_client_that_leaves_ends_all_prompts(store_url: str) -> None:
    engine = says("on and")
    tenant = {"name": "payer", "limits": {"tpm": 100_000}}
    async with gateway_of(store_url, engine, tenant=tenant) as client:
        call = client.call("POST", "/v1/completions")
        body = {"model": MODEL, "prompt": ["a"] * 40, "max_tokens": 1500, "stream": True, "ignore_eos": True}
        call.put(orjson.dumps(body))
        await until(lambda: len(call.sent) > 5)
        call.disconnect()
        assert call.task is not None
        await asyncio.wait([call.task])
        await until(lambda: not client.active)
        row = await used(client, "payer")
        assert row.requests == 1
        assert 0 < row.output_tokens < 40 * 1500


@pytest.mark.parametrize("stream", [False, True])
async def test_a_time_limit_ends_all_prompts(store_url: str, stream: bool) -> None:
    engine, gate = gated_engine()
    gate.let(50)
    async with gateway_of(store_url, engine) as client:
        body = {"model": MODEL, "prompt": ["a"] * 100, "max_tokens": 1500, "ignore_eos": True, "stream": stream}
        headers = [(b"authorization", b"Bearer " + client.key.encode()), (b"x-request-timeout", b"0.2")]
        answer = await client.request("POST", "/v1/completions", body, headers)
        # Of a stream some events may have gone out by then.
        begun = answer.status == 200
        assert (answer.events[-1]["error"] if begun else answer.error)["code"] == "timeout"
        assert answer.status == 504 or (stream and begun)
        await until(lambda: not client.gateway.models[MODEL].admission_queue.waiting)
        gate.open()
        assert (await client.complete(prompt=["a", "b"])).status == 200


async def test_echo_comes_first(store_url: str) -> None:
    async with gateway_of(store_url, says("Nobody answers.")) as client:
        answer = await client.complete(prompt="Grüße ", echo=True, n=2, max_tokens=5)
        assert all(choice["text"].startswith("Grüße ") for choice in answer.json["choices"])
        assert answer.json["usage"]["completion_tokens"] == 10
        stream = await client.complete(prompt="Grüße ", echo=True, stream=True, max_tokens=5)
        assert stream.events[0]["choices"][0]["text"] == "Grüße "
        assert len(streamed(stream.events, 1)[0]) > len("Grüße ")


async def test_a_suffix_is_marked_as_the_vocabulary_has_it(store_url: str) -> None:
    engine = engine_of()
    async with gateway_of(store_url, engine) as client:
        answer = await client.complete(prompt="def f(", suffix="return x", max_tokens=5)
        assert answer.status == 200
        own = len(TOKENIZER.encode("def f(", special=False)) + len(TOKENIZER.encode("return x", special=False))
        # Beside them the mark of a begin, and one before each text.
        assert answer.json["usage"]["prompt_tokens"] == own + 3


async def test_the_best_of_several(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client:
        for fields in ({}, {"logprobs": 2}):
            answer = await client.complete(prompt=["a", "b"], n=2, best_of=4, max_tokens=6, **fields)
            assert answer.status == 200
            choices = answer.json["choices"]
            assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
            assert answer.json["usage"]["completion_tokens"] == 2 * 4 * 6
            if fields:
                means = [sum(c["logprobs"]["token_logprobs"]) / 6 for c in choices]
                assert means[0] >= means[1]
                assert means[2] >= means[3]
            else:
                assert all(choice["logprobs"] is None for choice in choices)


def test_the_best_are_those_of_the_highest_mean() -> None:
    def entries(*logprobs: float) -> list[TokenEntry]:
        return [TokenEntry(1, TokenLogprobs(logprob), 0) for logprob in logprobs]

    choices = [{"index": index, "text": str(index)} for index in range(6)]
    found = best_choices(choices, [entries(-1.0), entries(-0.5, -0.5), [], entries(-3), entries(-2), entries(-4)], 3, 2)
    assert found == [
        {"index": 0, "text": "1"},
        {"index": 1, "text": "0"},
        {"index": 2, "text": "4"},
        {"index": 3, "text": "3"},
    ]


async def test_every_prompt_passes_the_filters(store_url: str) -> None:
    filters = [{"name": "list", "terms": {"terms": ["frobnicate"]}}]
    safety = {"input": ["pii", "list"], "output": ["list"], "filters": filters}
    async with gateway_of(store_url, says("You frobnicate."), safety=safety) as client:
        refused = await client.complete(prompt=["a", "please frobnicate"])
        assert (refused.error["code"], refused.error["param"]) == ("content_filter", "prompt[1]")
        refused = await client.complete(prompt="a", suffix="please frobnicate")
        assert (refused.error["code"], refused.error["param"]) == ("content_filter", "suffix")
        answer = await client.complete(prompt=["anna.bell@mail.example.org", "b"], echo=True)
        assert b"anna.bell" not in answer.body
        assert [choice["finish_reason"] for choice in answer.json["choices"]] == ["content_filter"] * 2
        assert b"frobnicate" not in answer.body


async def test_an_upstream_gets_it_whole(store_url: str) -> None:
    async with upstream() as one, gateway_of(store_url, more_models=[hosted(one)]) as client:
        body = b'{"id":"c","object":"text_completion","model":"theirs","choices":[%b],"usage":{"prompt_tokens":2}}'
        choices = [b'{"index":%d,"text":"t","finish_reason":"stop"}' % index for index in range(4)]
        one.behaves = plain(body % b",".join(choices))
        fields = {"prompt": ["a", "b"], "n": 2, "best_of": 3, "echo": True, "suffix": "c", "logprobs": 1}
        answer = await client.complete(model=NAME, **fields)
        assert answer.status == 200
        assert len(answer.json["choices"]) == 4
        sent = orjson.loads(one.heard[0].body)
        assert {name: sent[name] for name in fields} == fields
        assert (await client.complete(model=NAME, prompt=["a"] * 200)).error["param"] == "prompt"


async def test_echo_with_logprobs_tells_those_of_the_prompt(store_url: str) -> None:
    async with gateway_of(store_url, says("It ends well.")) as client:
        prompt = TOKENIZER.encode("Stones lie in the water. Grüße", special=False)
        fields: dict[str, Any] = {"echo": True, "logprobs": 2, "max_tokens": 1, "temperature": 0, "seed": 1234}
        answer = await client.complete(prompt=[prompt], **fields)
        assert answer.status == 200, answer.body
        choice = answer.json["choices"][0]
        logprobs = choice["logprobs"]
        assert [len(found) for found in logprobs.values()] == [len(prompt) + 1] * 4
        assert (logprobs["token_logprobs"][0], logprobs["top_logprobs"][0]) == (None, None)
        # As an evaluation harness reads them: those of the continuation, and whether it is what the model would say.
        for value, top in zip(logprobs["token_logprobs"][1:-1], logprobs["top_logprobs"][1:-1], strict=True):
            assert value < 0
            assert max(top.values()) == value
        for token, start in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
            if "\N{REPLACEMENT CHARACTER}" not in token:
                assert choice["text"][start : start + len(token)] == token
        assert answer.json["usage"]["completion_tokens"] == 1
        assert (await client.complete(prompt=[prompt], **fields)).json["choices"] == answer.json["choices"]


async def test_several_prompts_have_their_own_logprobs(store_url: str) -> None:
    async with gateway_of(store_url, says("It ends well."), says("It ends well.")) as client:
        fields: dict[str, Any] = {"echo": True, "logprobs": 1, "n": 2, "best_of": 3, "max_tokens": 3, "seed": 7}
        wanted = [choice for prompt in PROMPTS for choice in await scored(client, prompt, **fields)]
        assert await scored(client, PROMPTS, **fields) == wanted
        assert len({str(logprobs) for _, logprobs in wanted}) == len(PROMPTS)


async def scored(client: Client, prompt: Any, **fields: Any) -> list[tuple[str, dict[str, Any]]]:
    answer = await client.complete(prompt=prompt, **fields)
    assert answer.status == 200, answer.body
    return [(choice["text"], choice["logprobs"]) for choice in answer.json["choices"]]


async def test_an_answer_of_no_tokens_is_the_prompt_alone(store_url: str) -> None:
    async with gateway_of(store_url, says("It ends well.")) as client:
        answer = await client.complete(prompt="Der Fluss", echo=True, max_tokens=0, logprobs=0)
        choice = answer.json["choices"][0]
        assert (choice["text"], choice["finish_reason"]) == ("Der Fluss", "length")
        assert "".join(choice["logprobs"]["tokens"]) == "Der Fluss"
        # OpenAI tells the sampled token even where no other is asked for.
        told = zip(choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"], strict=True)
        assert choice["logprobs"]["top_logprobs"][1:] == [{token: value} for token, value in told][1:]
        assert answer.json["usage"]["completion_tokens"] == 0
        bare = await client.complete(prompt=["a", "b"], max_tokens=0)
        assert [(one["text"], one["logprobs"]) for one in bare.json["choices"]] == [("", None)] * 2


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"echo": True, "logprobs": 1, "stream": True}, "echo"),
        ({"echo": True, "logprobs": 1, "suffix": "c"}, "suffix"),
        ({"max_tokens": 0, "stream": True}, "max_tokens"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"echo": True, "logprobs": 5, "prompt": [[5] * 9000, [6] * 9000]}, "prompt"),
    ],
)
async def test_what_a_scored_prompt_cannot_be(store_url: str, fields: dict[str, Any], param: str) -> None:
    async with gateway_of(store_url, says("It ends well.")) as client:
        answer = await client.complete(**({"prompt": "a"} | fields))
        assert (answer.status, answer.json["error"]["param"]) == (400, param), answer.body


async def test_engines_without_logprobs_of_prompts_are_named(store_url: str) -> None:
    engine = says("It ends well.")
    engine.info = replace(engine.info, features=engine.info.features & ~Feature.PROMPT_LOGPROBS)
    async with gateway_of(store_url, engine) as client:
        answer = await client.complete(prompt="a", echo=True, logprobs=1)
        assert (answer.status, answer.json["error"]["param"]) == (400, "echo")
        assert "none of them has logprobs of prompts" in answer.json["error"]["message"]


async def test_an_engine_that_gives_fewer_logprobs_than_the_prompt_has_tokens_has_failed(store_url: str) -> None:
    engine = says("It ends well.")
    engine._of_prompt = lambda answer: ()  # type: ignore[method-assign]
    async with gateway_of(store_url, engine) as client:
        answer = await client.complete(prompt="a b c", echo=True, logprobs=1, max_tokens=1)
        assert (answer.status, answer.json["error"]["code"]) == (502, "replica_failed")
