"""Through the application: token ids, logprobs of prompts, answers without thoughts, as vLLM's clients ask for them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.api.writers.answer_details import wanted_entries
from gateway.inference.generate_request import AnswerDetails, Begun, Chat
from gateway.inference.prompt_encoding import encode_prompt
from gateway.text.parsing.families.family_registry import output_format
from gateway.text.sequence_text import TokenEntry
from gateway.text.tokens.detokenizer import whole_text
from gateway.text.tokens.loader import load_tokenizer
from gateway.text.tokens.shared_tokenizers import SharedTokenizers
from protos.errors import UnsupportedParameter
from protos.features import Feature
from protos.types import TokenLogprobs
from replicas.engines.answer_lengths import Corpus
from replicas.engines.simulated import SimulatedEngine
from tests.asgi import Client, gateway_of
from tests.clients.thinking_model import QWEN_MODEL, write_thinking_model
from tests.gateway.api.openai.test_formats_beside_tools import TOOLS, engine, told
from tests.gateway.api.relay.test_relay_answer import NAME, hosted
from tests.gateway.api.test_filters import TERMS
from tests.gateway.text.tokens.tool_templates import HERMES
from tests.harness import engine_of, tekken
from tests.upstreams import ANSWER, plain, upstream

TOKENIZER = tekken().tokenizer
IDS = {"return_token_ids": True}


def says(*sentences: str) -> SimulatedEngine:
    ids = tuple(tuple(TOKENIZER.encode(sentence, special=False)) for sentence in sentences)
    return engine_of(corpus=Corpus(ids, eos=min(TOKENIZER.eos_ids)))


def text_of(ids: list[int]) -> str:
    return b"".join(map(TOKENIZER.token_bytes, ids)).decode()


async def ok(client: Client, **fields: Any) -> Any:
    chat = "messages" in fields
    answer = await (client.chat(**fields) if chat else client.complete(**fields))
    assert answer.status == 200, answer.body
    return answer.events if fields.get("stream") else answer.json


async def test_a_text_completion_tells_the_ids_of_each_prompt_and_answer(store_url: str) -> None:
    async with gateway_of(store_url, says("The river runs.", "Birds sing at dawn.")) as client:
        prompts = ["Once upon", TOKENIZER.encode("Der Fluß", special=False)]
        fields = {"prompt": prompts, "n": 2, "max_tokens": 9, "seed": 3, **IDS}
        choices = (await ok(client, **fields))["choices"]
        assert [text_of(one["token_ids"]) for one in choices] == [one["text"] for one in choices]
        assert choices[0]["prompt_token_ids"] == choices[1]["prompt_token_ids"]
        assert choices[2]["prompt_token_ids"] == choices[3]["prompt_token_ids"] == prompts[1]
        assert text_of(choices[0]["prompt_token_ids"][-2:]).endswith("Once upon"[-4:])

        prompt_ids: dict[int, list[int]] = {}
        ids: list[list[int]] = [[], [], [], []]
        *events, _ = await ok(client, stream=True, stream_options={"include_usage": True}, **fields)
        for event in events[:-1]:
            (choice,) = event["choices"]
            if choice["index"] not in prompt_ids:
                prompt_ids[choice["index"]] = choice.pop("prompt_token_ids")
            assert "prompt_token_ids" not in choice
            ids[choice["index"]] += choice["token_ids"]
        assert ids == [one["token_ids"] for one in choices]
        assert prompt_ids == {one["index"]: one["prompt_token_ids"] for one in choices}
        assert "choices" in events[-1]
        assert not events[-1]["choices"]


async def test_a_long_prompts_ids_are_all_told(store_url: str) -> None:
    async with gateway_of(store_url, says("The river runs."), model_fields={"context": 20_000}) as client:
        prompt = "Rivers run to the sea. " * 1000
        answer = await ok(client, prompt=prompt, max_tokens=2, **IDS)
        assert len(answer["choices"][0]["prompt_token_ids"]) == answer["usage"]["prompt_tokens"]
        assert text_of(answer["choices"][0]["prompt_token_ids"]).endswith(prompt)
        begun = [{"role": "user", "content": prompt}, {"role": "assistant", "content": prompt}]
        answer = await ok(client, messages=begun, max_tokens=2, continue_final_message=True, **IDS)
        assert text_of(answer["prompt_token_ids"]).endswith(prompt)
        assert text_of(answer["prompt_token_ids"]).count(prompt) == 2


@pytest.mark.parametrize("stop", [None, "ver"])
@pytest.mark.parametrize("more", [{}, {"echo": True}, {"logprobs": 1}])
async def test_ids_are_those_of_the_tokens_that_count(store_url: str, stop: str | None, more: dict[str, Any]) -> None:
    async with gateway_of(store_url, says("The river runs.")) as client:
        fields = {"max_tokens": 3, "stop": stop, **more, **IDS}
        whole = await ok(client, **fields)
        (choice,) = whole["choices"]
        assert len(choice["token_ids"]) == whole["usage"]["completion_tokens"]
        shown = choice["text"].removeprefix("Hello" if more.get("echo") else "")
        assert text_of(choice["token_ids"]).startswith(shown)
        *events, _ = await ok(client, stream=True, **fields)
        streamed = [token for event in events for token in event["choices"][0]["token_ids"]]
        assert streamed == choice["token_ids"]


async def test_a_chat_tells_its_prompts_ids_once(store_url: str) -> None:
    async with gateway_of(store_url, engine()) as client:
        for said, tools in (("chat", []), ("think and call", TOOLS), ("call two", TOOLS)):
            fields = {"messages": told(said), "tools": tools, "max_tokens": 400, **IDS}
            whole = await ok(client, **fields)
            bare = await ok(client, **{**fields, "return_token_ids": False})
            (choice,) = whole["choices"]
            ids = choice.pop("token_ids")
            assert said in text_of(whole["prompt_token_ids"])
            assert len(whole.pop("prompt_token_ids")) == whole["usage"]["prompt_tokens"]
            assert len(ids) == whole["usage"]["completion_tokens"]
            for one in (whole, bare):
                for call in one["choices"][0]["message"].get("tool_calls", ()):
                    del call["id"]
            assert whole["choices"][0] == bare["choices"][0]
            *events, _ = await ok(client, stream=True, **fields)
            assert [len(event.get("prompt_token_ids", ())) for event in events] == [
                whole["usage"]["prompt_tokens"],
                *[0] * (len(events) - 1),
            ]
            assert [token for event in events for token in event["choices"][0]["token_ids"]] == ids


async def test_no_ids_are_told_where_filters_look_at_answers(store_url: str) -> None:
    safety = {"output": ["list"], "filters": [TERMS]}
    async with gateway_of(store_url, says("It ends well."), safety=safety) as client:
        for fields in ({}, {"messages": told("Hi")}):
            answer = await ok(client, **fields, **IDS)
            assert answer["choices"][0]["token_ids"] is None
            *events, _ = await ok(client, **fields, stream=True, **IDS)
            assert all(event["choices"][0]["token_ids"] is None for event in events)


async def test_logprobs_name_tokens_by_their_ids(store_url: str) -> None:
    by_id = {"return_tokens_as_token_ids": True, **IDS}
    async with gateway_of(store_url, says("It ends well.")) as client:
        (choice,) = (await ok(client, echo=True, logprobs=2, max_tokens=3, **by_id))["choices"]
        names = [f"token_id:{token}" for token in choice["prompt_token_ids"] + choice["token_ids"]]
        assert choice["logprobs"]["tokens"] == names
        assert all(name in top for name, top in zip(names[1:], choice["logprobs"]["top_logprobs"][1:], strict=True))
        fields = {"messages": told("Hi"), "logprobs": True, "top_logprobs": 2, "max_tokens": 3}
        (choice,) = (await ok(client, **fields, **by_id))["choices"]
        assert [one["token"] for one in choice["logprobs"]["content"]] == [
            f"token_id:{token}" for token in choice["token_ids"]
        ]
        plain_one = (await ok(client, **fields))["choices"][0]["logprobs"]["content"]
        assert [one["bytes"] for one in plain_one] == [one["bytes"] for one in choice["logprobs"]["content"]]
        *events, _ = await ok(client, **fields, stream=True, return_tokens_as_token_ids=True)
        told_so = [
            one["token"] for event in events for one in (event["choices"][0]["logprobs"] or {"content": []})["content"]
        ]
        assert told_so == [one["token"] for one in choice["logprobs"]["content"]]


@pytest.mark.parametrize("most", [0, 2])
async def test_the_prompts_logprobs_are_told_beside_those_of_the_answer(store_url: str, most: int) -> None:
    async with gateway_of(store_url, says("It ends well.")) as client:
        chat = await ok(client, messages=told("Hi there"), prompt_logprobs=most, max_tokens=3, **IDS)
        assert chat["choices"][0]["logprobs"] is None
        answer = await ok(client, prompt="a b c", prompt_logprobs=most, logprobs=1, max_tokens=3, **IDS)
        (choice,) = answer["choices"]
        # The token itself may be one more than were asked for.
        assert all(1 <= len(top) <= 2 for top in choice["logprobs"]["top_logprobs"])
        for one in (chat, choice):
            first, *others = one["prompt_logprobs"]
            assert first is None
            for token, scores in zip(one["prompt_token_ids"][1:], others, strict=True):
                assert max(1, most) <= len(scores) <= most + 1
                assert scores[str(token)]["decoded_token"] == TOKENIZER.token_bytes(token).decode("utf-8", "replace")
                assert all(score["logprob"] <= 0 for score in scores.values())
        echoed = (await ok(client, prompt="a b c", echo=True, logprobs=1, max_tokens=3))["choices"][0]["logprobs"]
        own = [scores[str(t)]["logprob"] for t, scores in zip(choice["prompt_token_ids"][1:], others, strict=True)]
        assert echoed["token_logprobs"][1 : len(own) + 1] == own


@pytest.mark.parametrize("fields", [{"include_reasoning": False}, {"reasoning": {"exclude": True}}])
async def test_thoughts_are_left_out_and_counted(store_url: str, fields: dict[str, Any]) -> None:
    async with gateway_of(store_url, engine(), model_fields={"output": {"reasoning": "magistral"}}) as client:
        for said in ("think and call", "think and say", "chat"):
            asked = {"messages": told(said), "tools": TOOLS, "max_tokens": 400}
            usual, bare = await ok(client, **asked), await ok(client, **asked, **fields)
            for one in (usual, bare):
                del one["usage"]["prompt_tokens_details"]
            assert usual["usage"] == bare["usage"]
            message = usual["choices"][0]["message"]
            assert (message.pop("reasoning", None) is not None) is said.startswith("think")
            message.pop("reasoning_content", None)
            for one in (usual, bare):
                for call in one["choices"][0]["message"].get("tool_calls", ()):
                    del call["id"]
            assert message == bare["choices"][0]["message"]
            *events, _ = await ok(client, **asked, **fields, stream=True)
            assert not any(event["choices"][0]["delta"].keys() & {"reasoning", "reasoning_content"} for event in events)
            content = "".join(event["choices"][0]["delta"].get("content") or "" for event in events)
            assert content == (message["content"] or "")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"prompt_logprobs": 21}, "prompt_logprobs"),
        ({"return_token_ids": "yes"}, "return_token_ids"),
        ({"include_reasoning": 3}, "include_reasoning"),
        ({"prompt_logprobs": 20, "prompt": [[5] * 5000]}, "prompt"),
        ({"logit_bias": {"many": 1, "few": 2}}, "logit_bias"),
    ],
)
async def test_what_cannot_be_told_is_refused_by_name(store_url: str, fields: dict[str, Any], param: str) -> None:
    async with gateway_of(store_url, says("It ends well.")) as client:
        for chat in ({}, {"messages": told("Hi")}) if "prompt" not in fields else ({},):
            answer = await (client.chat(**fields | chat) if chat else client.complete(**fields))
            if not chat and param == "include_reasoning":
                # It is a hint, which text completions have no place for.
                assert answer.status == 200
                continue
            assert (answer.status, answer.error["param"]) == (400, param), answer.body


@pytest.mark.parametrize("fields", [{}, {"logprobs": 1}])
async def test_engines_without_logprobs_of_prompts_are_named(store_url: str, fields: dict[str, Any]) -> None:
    lacking = says("It ends well.")
    lacking.info = replace(lacking.info, features=lacking.info.features & ~Feature.PROMPT_LOGPROBS)
    async with gateway_of(store_url, lacking) as client:
        answer = await client.complete(prompt_logprobs=1, **fields)
        assert (answer.status, answer.error["param"]) == (400, "prompt_logprobs")


async def test_an_upstream_gets_the_parameters_and_its_answer_goes_back(store_url: str) -> None:
    async with upstream() as found, gateway_of(store_url, more_models=[hosted(found)]) as client:
        found.behaves = plain(ANSWER)
        answer = await client.chat(model=NAME, prompt_logprobs=1, include_reasoning=False, **IDS)
        assert answer.status == 200, answer.body
        heard = found.heard[-1].body
        assert all(name in heard for name in (b"prompt_logprobs", b"include_reasoning", b"return_token_ids"))
        assert "prompt_token_ids" not in answer.json


def test_no_more_alternatives_are_shown_than_were_asked_for() -> None:
    entries = [TokenEntry(1, TokenLogprobs(-1.0, ((1, -1.0), (2, -2.0))), 0), TokenEntry(2, TokenLogprobs(-1.0), 1)]
    for logprobs, left in ((None, 0), (0, 0), (1, 1), (5, 2)):
        shown = wanted_entries(entries, AnswerDetails(logprobs=logprobs))
        assert [len(entry.logprobs.top) for entry in shown] == [left, 0]
        assert [entry[0] for entry in shown] == [1, 2]


EMPTY = {"role": "assistant", "content": ""}
BEGUN: list[dict[str, Any]] = [{"role": "user", "content": "chat"}, {"role": "assistant", "content": "<s>An apple"}]
GOES_ON: dict[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}


@pytest.mark.parametrize("more", [{}, {"tools": TOOLS}, {"n": 2}])
async def test_an_answer_goes_on_from_the_last_message(store_url: str, more: dict[str, Any]) -> None:
    async with gateway_of(store_url, engine()) as client:
        asked = {"messages": BEGUN, "max_tokens": 6, "seed": 3, **more}
        bare = await ok(client, **asked | {"messages": BEGUN[:1]}, **IDS)
        answer = await ok(client, **asked, **GOES_ON, **IDS)
        # What is a control token in a prompt is text in a message.
        begun = TOKENIZER.encode("<s>An apple", special=False)
        assert answer["prompt_token_ids"] == [*bare["prompt_token_ids"], *begun]
        texts = [choice["message"]["content"] for choice in answer["choices"]]
        assert not any(text.startswith("<s>An apple") for text in texts)
        echoed = await ok(client, **asked, **GOES_ON, echo=True)
        assert [choice["message"]["content"] for choice in echoed["choices"]] == [f"<s>An apple{one}" for one in texts]
        for ids in ({}, IDS):
            streamed = [""] * len(texts)
            *events, _ = await ok(client, **asked, **GOES_ON, **ids, echo=True, stream=True)
            for event in events:
                (choice,) = event["choices"]
                streamed[choice["index"]] += choice["delta"].get("content") or ""
                assert ("token_ids" in choice) is bool(ids)
            assert streamed == [f"<s>An apple{one}" for one in texts]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"continue_final_message": True, "messages": BEGUN[:1]}, "continue_final_message"),
        ({"continue_final_message": True, "messages": BEGUN[1:]}, "continue_final_message"),
        (
            {"continue_final_message": True, "messages": [BEGUN[0], BEGUN[1] | {"content": ""}]},
            "continue_final_message",
        ),
        ({"add_generation_prompt": False, "messages": BEGUN}, "add_generation_prompt"),
        ({"echo": True, "messages": BEGUN}, "echo"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"add_generation_prompt": False}, "add_generation_prompt"),
    ],
)
async def test_what_no_answer_can_go_on_from_is_refused(store_url: str, fields: dict[str, Any], param: str) -> None:
    async with gateway_of(store_url, engine()) as client:
        answer = await (client.chat(**fields) if "messages" in fields else client.complete(**fields))
        assert (answer.status, answer.error["param"]) == (400, param), answer.body


@pytest.mark.parametrize("opened", ["", "<think>\n"])
def test_a_chat_that_opens_a_thought_cannot_be_gone_on_from(tmp_path: Path, opened: str) -> None:
    folder = write_thinking_model(tmp_path / "model", QWEN_MODEL._replace(template=HERMES + opened))
    loaded, output = load_tokenizer(str(folder)), output_format("hermes", "think")
    assert output is not None
    table = SharedTokenizers().marked_table(loaded.tokenizer, output.marks)
    model: Any = SimpleNamespace(
        chat_format=loaded.chat_format, tokenizer=loaded.tokenizer, output=output, marked_table=table
    )
    prompt = Begun(Chat(told("Hi")), "An apple")
    if not opened:
        assert whole_text(table, list(encode_prompt(model, prompt))).endswith("assistant\nAn apple")
        return
    with pytest.raises(UnsupportedParameter) as caught:
        encode_prompt(model, prompt)
    assert caught.value.param == "continue_final_message"
    assert "begin with a thought" in caught.value.message
