"""The transport to Triton, against a real gRPC server with tritonclient's servicer: what is asked and answered."""

import asyncio
from typing import Any

import msgspec
import pytest

import routing.transports.polled_transport
from protos.errors import GUIDE_PARAM
from protos.features import Feature
from protos.triton_codec import Reply
from protos.types import Finish, FinishReason, Guide, GuideKind, Sampling, Submit
from replicas.engine import Delta
from routing.transports.triton.settings import Kind
from routing.transports.triton.triton_answer import Answer
from tests.fake_triton import FakeTriton, metrics_text, serving_metrics
from tests.fakes import SilentEngine
from tests.harness import answers_of, drained, engine_of, readable_corpus, submit_of, tekken
from tests.loops import until
from tests.triton_transports import connected, settings_of, transport_to

TEXT_KINDS = [Kind.ENSEMBLE, Kind.BLS, Kind.LLM_API]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing.transports.polled_transport, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(routing.transports.polled_transport, "LAST_RETRY_SECONDS", 0.01)


def text_request(text: str, count: int = 20, **options: Any) -> Submit:
    tokenizer = tekken().tokenizer
    assert tokenizer.bos_id is not None
    return submit_of(count, prompt=[tokenizer.bos_id, *tokenizer.encode(text, special=False)], **options)


def written(ids: list[int]) -> str:
    return b"".join(map(tekken().tokenizer.token_bytes, ids)).decode()


async def test_token_ids_go_there_and_come_back() -> None:
    requests = [submit_of(30 + i, prompt=[1, 5, i], name=f"r{i}", ignore_eos=False, temperature=0.5) for i in range(5)]

    expected = await answers_of(*requests)
    fake = FakeTriton(engine_of())
    async with connected(fake, pad_id=0, other_end_ids=(8, 9)) as transport:
        streams = [transport.open(request) for request in requests]
        for stream, request, ids in zip(streams, requests, expected, strict=True):
            (tokens,), (finish,) = await drained(stream)
            assert tokens == ids
            whole = len(ids) == request.max_tokens
            assert finish.reason is (FinishReason.LENGTH if whole else FinishReason.STOP)
            assert (finish.prompt_tokens, finish.completion_tokens) == (3, len(ids))
            stream.close()
        assert transport.in_flight == 0
    values, shapes = fake.asked[2].values, fake.asked[2].shapes
    assert (values["input_ids"], values["input_lengths"], values["streaming"]) == ([1, 5, 2], [3], [True])
    assert (values["end_id"], values["pad_id"]) == ([2], [0])
    assert (values["stop_words_list"], shapes["stop_words_list"]) == ([8, 9, 1, 2], (1, 2, 2))
    assert shapes["input_ids"] == (1, 3)
    assert fake.asked[2].empty_final


@pytest.mark.parametrize("options", [{"other_end_ids": (9,)}, {"stop": (9,)}])
async def test_a_stop_word_of_the_engine_is_no_part_of_the_answer(options: dict[str, Any]) -> None:
    request = submit_of(1600, ignore_eos=False, stop_token_ids=options.pop("stop", ()))

    (expected,) = await answers_of(request)
    fake = FakeTriton(engine_of())
    fake.stop_word = 9
    async with connected(fake, **options) as transport:
        # The second may have just as many tokens as there are with the stop word: it has stopped all the same.
        for limit in (1600, len(expected) + 1):
            stream = transport.open(msgspec.structs.replace(request, max_tokens=limit))
            (tokens,), (finish,) = await drained(stream)
            assert tokens == expected
            assert (finish.reason, finish.completion_tokens) == (FinishReason.STOP, len(expected))
            stream.close()


def test_a_token_that_might_have_been_the_end_is_told_with_the_next_one() -> None:
    answer = Answer(submit_of(4), 0, None, frozenset({9}))

    def told(*ids: int) -> list[int]:
        return list(answer.take(Reply(outputs={"output_ids": ids, "sequence_length": (len(ids),)})))

    assert [told(5), told(9), told(), told(9, 6)] == [[5], [], [], [9, 9, 6]]
    assert answer.end() == ((), Finish(FinishReason.LENGTH, 3, 0, 4))


async def test_all_that_the_sampler_is_asked_for_goes_there() -> None:
    sampling = Sampling(
        temperature=0.5,
        top_p=0.25,
        top_k=7,
        seed=-1,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        repetition_penalty=1.5,
        min_tokens=3,
        stop_token_ids=(4,),
        ignore_eos=True,
    )

    fake = FakeTriton(SilentEngine())
    async with connected(fake) as transport:
        stream = transport.open(Submit("r", [1], 5, sampling))
        await until(lambda: fake.asked)
        stream.close()
    values = fake.asked[0].values
    assert "end_id" not in values
    expected = {"runtime_top_p": 0.25, "runtime_top_k": 7, "temperature": 0.5, "min_tokens": 3}
    expected |= {"presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.5}
    expected |= {"seed": 2**64 - 1, "request_output_len": 5}
    assert {name: values[name][0] for name in expected} == expected
    assert values["stop_words_list"] == [4, 1]


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(), {"runtime_top_p": [1.0]}),
        (Sampling(temperature=0.0, top_p=0.5), {"runtime_top_k": [1]}),
        (Sampling(top_p=0.0), {"runtime_top_k": [1]}),
        (Sampling(top_k=2**40), {"runtime_top_p": [1.0], "runtime_top_k": [2**31 - 1]}),
    ],
)
async def test_the_engine_is_greedy_only_where_it_is_asked_to_be(sampling: Sampling, expected: dict[str, Any]) -> None:
    fake = FakeTriton(SilentEngine())
    async with connected(fake) as transport:
        stream = transport.open(Submit("r", [1], 5, sampling))
        await until(lambda: fake.asked)
        stream.close()
    sent = {name: fake.asked[0].values.get(name) for name in ("runtime_top_p", "runtime_top_k", "temperature")}
    assert {name: value for name, value in sent.items() if value is not None} == expected


@pytest.mark.parametrize("kind", TEXT_KINDS)
@pytest.mark.parametrize("accumulate", [False, True])
async def test_text_goes_there_and_comes_back_as_ids(kind: Kind, accumulate: bool) -> None:
    requests = [text_request(f"Tell me of {i}", ignore_eos=False, name=f"r{i}") for i in range(4)]

    expected = await answers_of(*requests, corpus=readable_corpus())
    fake = FakeTriton(engine_of(corpus=readable_corpus()), kind)
    fake.accumulate = accumulate and kind is Kind.BLS
    async with connected(fake) as transport:
        for request, ids in zip(requests, expected, strict=True):
            stream = transport.open(request)
            (tokens,), (finish,) = await drained(stream)
            assert written(tokens) == written(ids)
            whole = len(ids) == request.max_tokens
            assert finish.reason is (FinishReason.LENGTH if whole else FinishReason.STOP)
            assert finish.completion_tokens == len(tokens)
            stream.close()
    assert fake.asked[1].values["text_input"] == [b"Tell me of 1"]


async def test_a_character_in_two_pieces_is_held_back_until_it_is_whole() -> None:
    tokenizer = tekken().tokenizer
    ids = tokenizer.encode("ok 𓀀𓀁 and", special=False)

    engine = SilentEngine()
    fake = FakeTriton(engine, Kind.BLS)
    fake.accumulate = True
    async with connected(fake) as transport:
        stream = transport.open(text_request("x", 100))
        await until(lambda: engine.submitted)
        for token in ids:
            engine.say(Delta(1, 0, [token]))
        engine.say(finishes=[(1, 0, Finish(FinishReason.STOP))])
        (tokens,), _ = await drained(stream)
        assert written(tokens) == "ok 𓀀𓀁 and"
        stream.close()


async def test_what_a_kind_cannot_do_is_not_claimed() -> None:
    claimed = {}
    for kind in Kind:
        fake = FakeTriton(SilentEngine(), kind)
        async with connected(fake) as transport:
            claimed[kind] = Feature(transport.view.features)
    sampler = Feature.TOP_K | Feature.SEED | Feature.PENALTIES
    around = sampler | Feature.REPETITION_PENALTY | Feature.MIN_TOKENS
    engine = around | Feature.TOKEN_IDS | Feature.RESUMES | Feature.IGNORE_EOS | Feature.STOP_TOKEN_IDS
    assert claimed == {Kind.ENGINE: engine, Kind.ENSEMBLE: around, Kind.BLS: around, Kind.LLM_API: sampler}


@pytest.mark.parametrize(("backend", "guided"), [("xgrammar", True), ("${guided_decoding_backend}", False)])
async def test_guided_decoding_is_there_where_the_engine_has_a_backend_for_it(backend: str, guided: bool) -> None:
    fake = FakeTriton(SilentEngine())
    fake.parameters["guided_decoding_backend"] = backend
    async with connected(fake) as transport:
        assert bool(transport.view.features & Feature.GUIDED) is guided


async def test_a_structural_tag_is_refused() -> None:
    fake = FakeTriton(SilentEngine())
    fake.parameters["guided_decoding_backend"] = "xgrammar"
    async with connected(fake) as transport:
        stream = transport.open(submit_of(5, guide=Guide(GuideKind.STRUCTURAL_TAG, "{}")))
        _, (finish,) = await drained(stream)
        assert finish.failure is not None
        assert (finish.failure.code, finish.failure.param) == ("unsupported_parameter", GUIDE_PARAM)
        stream.close()


@pytest.mark.parametrize("kind", list(Kind))
async def test_a_probe_is_answered(kind: Kind) -> None:
    fake = FakeTriton(engine_of(corpus=readable_corpus()), kind)
    async with fake.serving() as address:
        transport = transport_to(address, settings_of(kind))
        transport.start(prove_first=True)
        await until(lambda: transport.ready, lambda: f"{transport.health.state}: {transport.health.reason}")
        await transport.aclose()


async def test_load_and_the_size_of_a_block_come_from_the_metrics() -> None:
    text = metrics_text(tokens_per=32, used=5, scheduled=3, waiting=2)
    text += 'nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max"} 7\n'
    text += 'nv_trt_llm_kv_cache_block_metrics{model="tensorrt_llm",kv_cache_block_type="max"} 100\n'

    async with (
        serving_metrics([text]) as url,
        connected(FakeTriton(engine_of()), metrics_url=url) as transport,
    ):
        found = []
        for _ in range(2):
            stream = transport.open(submit_of(20, prompt=range(100)))
            await drained(stream)
            found.append(stream.cached_tokens)
            stream.close()
        assert found == [0, 96]
        load = transport.view.load
        assert (load.running, load.waiting, load.kv_blocks_used, load.kv_blocks_total) == (3, 2, 5, 100)
        assert (load.tokens_in_flight, transport.view.max_batch_size, transport.view.kv_block_tokens) == (
            160,
            7,
            32,
        )


@pytest.mark.parametrize(
    ("text", "status", "why"),
    [
        ("<html>", "200 OK", "no nv_trt_llm_request_metrics in it"),
        (metrics_text(scheduled=1), "404 Not Found", "status 404"),
    ],
)
async def test_without_figures_of_the_engine_its_load_is_counted_here_and_the_log_says_so_once(
    text: str, status: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    silent = SilentEngine()
    async with (
        serving_metrics([text], status) as url,
        connected(FakeTriton(silent), metrics_url=url) as transport,
    ):
        stream = transport.open(submit_of(10, prompt=[1, 2]))
        await until(lambda: silent.submitted)
        await asyncio.sleep(0.05)
        assert (transport.view.load.running, transport.view.load.tokens_in_flight) == (1, 12)
        stream.close()
    assert [record.getMessage().partition("/metrics: ")[2] for record in caplog.records if "counted" in record.msg] == [
        why
    ]


async def test_more_in_flight_than_configured_is_known_to_be_too_much() -> None:
    async with connected(FakeTriton(SilentEngine()), max_in_flight=5) as transport:
        assert transport.view.max_batch_size == 5
