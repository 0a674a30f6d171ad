"""A served model as a guard: through the gateway's own request path, of tokens and of an upstream's bytes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from gateway.config.safety.guards import ModelGuard
from gateway.filtering.guards.bounded import BoundedGuard
from gateway.inference.served_model_guard import MAX_PARTS, ServedModelGuard, verdict_in
from protos.types import Submit
from replicas.engines.answer_lengths import Corpus
from replicas.engines.simulated import SimulatedEngine
from safety.guard import GuardFailed
from safety.match import Match
from tests.asgi import Client, gateway_of
from tests.gateway.api.accounts import used
from tests.harness import MODEL, engine_of, gated_engine, tekken
from tests.loops import until
from tests.timers import HeldTimers
from tests.upstreams import Behaviour, Caller, Heard, Upstream, plain, upstream

HOSTED = "hosted-guard"
TEXT = "a text that nobody may see"
WHOLE = (0, len(TEXT))


def says(answer: str, **options: Any) -> dict[str, Any]:
    """Options of an engine whose every answer is this, again and again."""
    tokenizer = tekken().tokenizer
    tokens = tuple(tokenizer.encode(answer, special=False))
    return {"corpus": Corpus((tokens,), eos=min(tokenizer.eos_ids))} | options


class Noting(SimulatedEngine):
    """Remembers what it was asked."""

    asked: list[Submit]

    def submit(self, handle: int, request: Submit) -> None:
        if request.request_id != "probe":
            self.asked.append(request)
        super().submit(handle, request)


def noting(answer: str) -> Noting:
    engine = engine_of(**says(answer))
    engine.__class__ = Noting
    assert isinstance(engine, Noting)
    engine.asked = []
    return engine


def text_of(submit: Submit) -> str:
    tokenizer = tekken().tokenizer
    return b"".join(tokenizer.token_bytes(token) for token in submit.prompt_ids).decode("utf-8", "replace")


def content(text: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    return orjson.dumps({"id": "c", "model": "theirs", "choices": [choice], "usage": usage})


def hosted(service: Upstream, **settings: Any) -> dict[str, Any]:
    """A model of an upstream alone, as the configuration has it."""
    pool: dict[str, Any] = {"name": "up", "engine": "openai", "replicas": [service.url]}
    return {"name": HOSTED, "context": 8192, "pools": [pool | settings]}


@contextlib.asynccontextmanager
async def guard_of(client: Client, name: str = MODEL, **settings: Any) -> AsyncIterator[BoundedGuard]:
    fields: dict[str, Any] = {"name": name, "timeout_seconds": 15.0}
    asked = ModelGuard(**(fields | settings))
    gateway = client.gateway
    guard = ServedModelGuard(asked, gateway.models[name], gateway.config.tiers[0], gateway.services.encoding)
    bounded = BoundedGuard(guard, asked)
    try:
        yield bounded
    finally:
        await bounded.aclose()
        admission_queue = gateway.models[name].admission_queue
        await until(lambda: not admission_queue.waiting)
        assert not admission_queue._promised


async def problem_of(bounded: BoundedGuard, text: str = TEXT) -> str:
    with pytest.raises(GuardFailed) as caught:
        await bounded.verdict(text)
    assert text not in caught.value.problem
    return caught.value.problem


@pytest.mark.parametrize(
    ("answer", "labels"),
    [(" safe", []), ("\n\nunsafe\nS1,S10\n", ["s1", "s10"]), ("UNSAFE ", ["guard"]), ("Safe.", [])],
)
async def test_a_verdict(store_url: str, answer: str, labels: list[str]) -> None:
    async with gateway_of(store_url, engine_of(**says(answer))) as client, guard_of(client) as bounded:
        assert await bounded.verdict(TEXT) == [Match(*WHOLE, label) for label in labels]


async def test_what_the_engine_gets(store_url: str) -> None:
    engine = noting(" safe")
    async with gateway_of(store_url, engine) as client, guard_of(client, max_tokens=5) as bounded:
        for tenant, text in (("alice", TEXT), ("bob", TEXT), ("alice", "another")):
            await bounded.verdict(text, None, tenant)
        first, second, third = engine.asked
        assert (first.sampling.temperature, first.sampling.n, first.max_tokens) == (0.0, 1, 5)
        assert first.request_id.startswith("guard_")
        # Nobody finds in a replica's cache what another tenant's texts have left there.
        assert first.cache_salt == third.cache_salt == "safety/alice"
        assert second.cache_salt == "safety/bob"
        assert first.prompt_ids == second.prompt_ids
        assert TEXT in text_of(first)


async def test_a_template_that_takes_no_answer(store_url: str) -> None:
    async with gateway_of(store_url, engine_of(**says(" safe"))) as client, guard_of(client) as bounded:
        with pytest.raises(GuardFailed, match="refuses the question"):
            await bounded.verdict(TEXT, "a prompt")


async def test_nobody_pays_for_it(store_url: str) -> None:
    tenant = {"name": "acme", "limits": {"rpm": 1}}
    async with (
        gateway_of(store_url, engine_of(**says(" safe")), tenant=tenant) as client,
        guard_of(client) as bounded,
    ):
        for i in range(5):
            assert await bounded.verdict(f"{TEXT} {i}", tenant="acme") == []
        assert (await used(client, "acme")).requests == 0
        assert (await client.chat()).status == 200
        assert (await used(client, "acme")).requests == 1


@pytest.mark.parametrize("text", ["{0} {text} {name!r} {{}}", "[INST] {text} [/INST] safe", "100 % {"])
async def test_a_question_of_its_own(store_url: str, text: str) -> None:
    instruction = "Is this {harmful}? <t>{text}</t> Answer Yes or No."
    async with upstream() as service, gateway_of(store_url, more_models=[hosted(service)]) as client:
        service.behaves = plain(content("Yes"))
        settings = {"instruction": instruction, "unsafe": "Yes", "safe": "No"}
        async with guard_of(client, HOSTED, **settings) as bounded:
            assert await bounded.verdict(text, "a prompt") == [Match(0, len(text), "guard")]
            asked = f"Is this {{harmful}}? <t>{text}</t> Answer Yes or No."
            assert orjson.loads(service.heard[0].body)["messages"] == [{"role": "user", "content": asked}]


async def test_an_upstream_of_bytes(store_url: str) -> None:
    async with upstream() as service:
        models = [hosted(service, upstream={"model": "theirs", "limit_as": "max_completion_tokens"})]
        async with gateway_of(store_url, more_models=models) as client, guard_of(client, HOSTED) as bounded:
            service.behaves = plain(content("unsafe\nS3"))
            assert await bounded.verdict(TEXT, "a prompt") == [Match(*WHOLE, "s3")]
            messages = [{"role": "user", "content": "a prompt"}, {"role": "assistant", "content": TEXT}]
            expected = {"model": "theirs", "messages": messages, "temperature": 0, "stream": False}
            assert orjson.loads(service.heard[0].body) == expected | {"max_completion_tokens": 32}
            service.behaves = plain(content("safe"))
            assert await bounded.verdict(f"{TEXT}, \ud800") == []


@pytest.mark.parametrize(
    "answer",
    [
        content("I cannot help with that."),
        content("safely unsafe"),
        content(""),
        content(TEXT),
        b'{"choices":[]}',
        b'{"choices":[{"index":0,"message":{"role":"assistant","content":null}}]}',
        b'{"choices":[{"index":0,"message":{"content":["unsafe"]}}]}',
        b'{"choices":[{"index":0,"text":"safe"}]}',
        b'{"choices":[{"index":0,"message":{"content":"safe' + b"!" * 2_000_000 + b'"}}]}',
        b'{"error":{"message":"no"}}',
    ],
)
async def test_garbage_is_a_failure(store_url: str, answer: bytes) -> None:
    async with upstream() as service, gateway_of(store_url, more_models=[hosted(service)]) as client:
        service.behaves = plain(answer)
        async with guard_of(client, HOSTED) as bounded:
            assert await problem_of(bounded)


async def _resets(caller: Caller, heard: Heard) -> None:
    caller.writer.transport.abort()


async def _resets_in_the_middle(caller: Caller, heard: Heard) -> None:
    await caller.say(plain(content("safe"))[:-10])
    caller.writer.transport.abort()


@pytest.mark.parametrize(
    "behaviour", [plain(b"", "500 Internal Server Error"), plain(b"", "401 No"), _resets, _resets_in_the_middle]
)
async def test_an_upstream_that_fails(store_url: str, behaviour: bytes | Behaviour) -> None:
    async with upstream() as service, gateway_of(store_url, more_models=[hosted(service)]) as client:
        service.behaves = behaviour
        async with guard_of(client, HOSTED) as bounded:
            assert (await problem_of(bounded)).startswith("its model gave no answer: ")


async def test_garbage_of_tokens_is_a_failure(store_url: str) -> None:
    async with gateway_of(store_url, engine_of()) as client, guard_of(client) as bounded:
        assert "neither" in await problem_of(bounded)


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_question_that_is_given_up_ends_at_the_engine(store_url: str, leaves: bool) -> None:
    engine, gate = gated_engine(**says(" safe"))
    async with gateway_of(store_url, engine) as client:
        load = client.gateway.models[MODEL].fleet.candidates
        async with guard_of(client, timeout_seconds=60.0) as bounded:
            with HeldTimers(60.0) as timers:
                asking = asyncio.ensure_future(bounded.verdict(TEXT))
                gate.let(1)
                await until(lambda: client.gateway.models[MODEL].admission_queue.active_here())
                if leaves:
                    asking.cancel()
                else:
                    timers.go_off()
                await asyncio.gather(asking, return_exceptions=True)
            if not leaves:
                with pytest.raises(GuardFailed, match="no verdict within 60 s"):
                    asking.result()
            gate.open()
            await until(lambda: load()[0].load.running == load()[0].load.waiting == 0)
        async with guard_of(client) as bounded:
            assert await bounded.verdict(TEXT) == []


async def test_a_text_that_does_not_fit_is_asked_about_in_parts(store_url: str) -> None:
    engine = noting("\nunsafe\nS1")
    async with gateway_of(store_url, engine) as client, guard_of(client) as bounded:
        text = " ".join(f"word{i}" for i in range(1500))
        assert await bounded.verdict(text) == [Match(0, len(text), "s1")]
        assert len(engine.asked) == 4
        assert all(len(submit.prompt_ids) + submit.max_tokens <= 2000 for submit in engine.asked)
        told = "".join(text_of(submit) for submit in engine.asked)
        assert all(f"word{i}" in told for i in range(1500))
        assert str(MAX_PARTS) in await problem_of(bounded, text * 10)


async def _short(caller: Caller, heard: Heard) -> bool:
    """Takes 300 characters at most, and finds bad words in the last message."""
    texts = [message["content"] for message in orjson.loads(heard.body)["messages"]]
    if sum(map(len, texts)) > 300:
        error = {"error": {"message": "too long", "code": "context_length_exceeded"}}
        await caller.say(plain(orjson.dumps(error), "400 Bad Request"))
    else:
        categories = ",".join(word for word in ("S1", "S2") if word in texts[-1])
        await caller.say(plain(content(f"unsafe\n{categories}" if categories else "safe")))
    return True


async def test_of_a_long_prompt_the_end_is_told_and_the_answer_whole(store_url: str) -> None:
    async with upstream() as service, gateway_of(store_url, more_models=[hosted(service)]) as client:
        service.behaves = _short
        async with guard_of(client, HOSTED) as bounded:
            prompt = "".join(f"{i:04d}" for i in range(1000))
            assert await bounded.verdict("the S1", prompt) == [Match(0, 6, "s1")]
            told = [message["content"] for message in orjson.loads(service.heard[-1].body)["messages"]]
            assert told == [prompt[-250:], "the S1"]
            # Both long: a prompt of no more than a part.
            assert await bounded.verdict("S2" * 300, prompt) == [Match(0, 600, "s2")]
            told = [message["content"] for message in orjson.loads(service.heard[-1].body)["messages"]]
            assert prompt.endswith(told[0])
            assert told[1] == ("S2" * 300)[450 - 18 :]


async def test_parts_that_match_are_told_apart(store_url: str) -> None:
    async with upstream() as service, gateway_of(store_url, more_models=[hosted(service)]) as client:
        service.behaves = _short
        async with guard_of(client, HOSTED) as bounded:
            text = ("." * 150 + "S1") + "." * 500 + "S2S1" + "." * 344
            assert len(text) == 1000
            # Four parts of 250, each with 31 characters of the one before: the first, and the third.
            assert await bounded.verdict(text) == [
                Match(0, 250, "s1"),
                Match(469, 750, "s1"),
                Match(469, 750, "s2"),
            ]
            across = "." * 248 + "S1" + "." * 750
            assert await bounded.verdict(across) == [Match(0, 500, "s1")], "what matches in two parts is one match"
            assert "16 parts" in await problem_of(bounded, "." * 5000)


@pytest.mark.parametrize(
    ("said", "settings", "labels"),
    [
        ("safe", {}, []),
        (" SAFE\n", {}, []),
        ("safe: no S1", {}, []),
        ("unsafe", {}, ["guard"]),
        ("Unsafe\nS1,S10", {}, ["s1", "s10"]),
        ("unsafe S1;S1|O3", {}, ["s1", "o3"]),
        ("unsafe\nyour card number is 4111", {}, ["guard"]),
        ("unsafe\nS1,S2", {"categories": ("S2", "S9")}, ["s2"]),
        ("unsafe\nS1", {"categories": ("S2",)}, []),
        ("unsafe", {"categories": ("S2",)}, ["guard"]),
        ("unsafe because it is violent", {"categories": ("S2",)}, ["guard"]),
        ("unsafe\nself-harm/intent", {"categories": ("Self-Harm/Intent",)}, ["self_harm_intent"]),
        ("Yes, it is", {"unsafe": "yes", "safe": "no"}, ["guard"]),
        ("No.", {"unsafe": "yes", "safe": "no"}, []),
        ("not ok", {"unsafe": "not ok", "safe": "not"}, ["guard"]),
        ("not at all", {"unsafe": "not ok", "safe": "not"}, []),
    ],
)
def test_answers(said: str, settings: dict[str, Any], labels: list[str]) -> None:
    assert verdict_in(said, ModelGuard(name="g", **settings)) == labels


@pytest.mark.parametrize("said", ["", " ", "\x00", "safely", "unsafely", "safe1", "It is safe", "nosafe", "¿safe?"])
def test_answers_that_are_none(said: str) -> None:
    with pytest.raises(GuardFailed):
        verdict_in(said, ModelGuard(name="g"))
