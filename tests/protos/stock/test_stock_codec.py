import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from smg_grpc_proto.generated import common_pb2
from smg_grpc_proto.generated import trtllm_service_pb2 as pb

from protos.packed_ids import PackedIds
from protos.protocol_error import ProtocolError
from protos.stock import stock_codec, stock_kv_codec, stock_service_codec
from protos.types import (
    Adapter,
    Finish,
    FinishReason,
    Guide,
    GuideKind,
    KvEvent,
    KvRemoved,
    KvStored,
    Sampling,
    Submit,
    Timing,
    TokenLogprobs,
)
from tests.harness import submit_of

TEXT_GUIDES = [kind for kind in GuideKind if kind is not GuideKind.JSON_OBJECT]


def chunk(index: int = 0, tokens: list[int] | None = None, **fields: object) -> bytes:
    message = pb.GenerateStreamChunk(token_ids=tokens or [], sequence_index=index, **fields)
    return bytes(pb.GenerateResponse(request_id="r", chunk=message).SerializeToString())


def complete(index: int = 0, tokens: list[int] | None = None, reason: str = "length", **fields: object) -> bytes:
    message = pb.GenerateComplete(output_token_ids=tokens or [], sequence_index=index, finish_reason=reason, **fields)
    return bytes(pb.GenerateResponse(request_id="r", complete=message).SerializeToString())


floats = st.floats(0, 2, width=32)
samplings = st.builds(
    Sampling,
    n=st.integers(1, 128),
    temperature=st.none() | floats,
    top_p=st.none() | floats,
    top_k=st.none() | st.integers(0, 2**31 - 1),
    min_p=st.none() | floats,
    seed=st.none() | st.integers(0, 2**63 - 1),
    presence_penalty=floats,
    frequency_penalty=floats,
    repetition_penalty=st.none() | floats,
    stop_token_ids=st.lists(st.integers(0, 2**32 - 1)).map(tuple),
    ignore_eos=st.booleans(),
    min_tokens=st.integers(0, 1000),
    logprobs=st.none() | st.integers(1, 20),
)
guides = st.builds(Guide, st.sampled_from(TEXT_GUIDES), st.text(min_size=1))
submits = st.builds(
    Submit,
    request_id=st.text(),
    prompt_ids=st.lists(st.integers(0, 2**32 - 1)),
    max_tokens=st.integers(1, 2**31),
    sampling=samplings,
    delta_interval=st.sampled_from([0, 1]),
    guide=st.none() | guides,
)


@given(submits)
def test_what_a_client_asks_for_is_what_the_service_reads(submit: Submit) -> None:
    ask = stock_service_codec.decode_generate(stock_codec.encode_generate(submit, submit.request_id))
    assert ask.submit == submit
    assert ask.streaming == (submit.delta_interval == 1)
    assert ask.perf_metrics


@given(submits)
def test_packed_prompts_are_written_as_others_are(submit: Submit) -> None:
    packed = msgspec.structs.replace(submit, prompt_ids=PackedIds.of(submit.prompt_ids))
    assert stock_codec.encode_generate(packed, "r") == stock_codec.encode_generate(submit, "r")


def test_a_request_has_its_own_id_and_nothing_that_the_server_ignores() -> None:
    submit = submit_of(5, adapter=Adapter("legal"), cache_salt="tenant", seed=-1, logprobs=0)
    message = pb.GenerateRequest.FromString(stock_codec.encode_generate(submit, "attempt-2"))
    assert message.request_id == "attempt-2"
    assert not message.HasField("lora_config")
    assert not message.HasField("cache_salt_id")
    assert message.sampling_config.seed == 2**64 - 1
    assert message.output_config.logprobs == 1  # 0 means none at all to some servers
    assert not message.sampling_config.HasField("temperature")


def test_a_guide_without_a_text_is_not_passed_over() -> None:
    # The stock server takes a guide with an empty text for none.
    submit = submit_of(5, guide=Guide(GuideKind.JSON_OBJECT))
    message = pb.GenerateRequest.FromString(stock_codec.encode_generate(submit, "r"))
    assert message.guided_decoding.guide_type == pb.GuidedDecodingParams.GUIDE_TYPE_JSON
    assert message.guided_decoding.guide


@pytest.mark.parametrize(
    ("submit", "error"), [(submit_of(5, prompt=[-1]), ValueError), (submit_of(5, prompt=[2**32]), ValueError)]
)
def test_values_that_do_not_fit_the_wire_are_refused(submit: Submit, error: type[Exception]) -> None:
    with pytest.raises(error):
        stock_codec.encode_generate(submit, "r")


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=5), max_size=6), st.integers(0, 30))
def test_deltas_and_the_whole_give_every_token_once(deltas: list[list[int]], taken_back: int) -> None:
    tokens = [token for delta in deltas for token in delta]
    submit = submit_of(40)
    reader = stock_codec.AnswerReader(submit)
    got: list[int] = []
    for delta in deltas:
        got += reader.read(chunk(tokens=delta)).token_ids
    # A stop word takes back tokens that have been streamed, or the last ones come with the end alone.
    whole = tokens[: max(0, len(tokens) - taken_back)] if taken_back % 2 else [*tokens, 1, 2]
    part = reader.read(complete(tokens=whole, reason="stop_word"))
    got += part.token_ids
    assert got == (tokens if len(whole) <= len(tokens) else whole)
    assert part.finish is not None
    assert part.finish.reason is FinishReason.STOP
    assert part.finish.completion_tokens == len(got)
    assert not reader.left


def test_sequences_end_one_by_one() -> None:
    reader = stock_codec.AnswerReader(submit_of(4, n=2))
    assert reader.read(chunk(1, [7], cached_tokens=3)) == stock_codec.Part(1, [7], 3)
    assert reader.read(chunk(0, [5])).index == 0
    first = reader.read(complete(0, [5, 6], prompt_tokens=3, cached_tokens=2))
    assert (first.token_ids, first.finish) == ([6], Finish(FinishReason.LENGTH, 3, 2, 2))
    assert reader.left == {1}
    with pytest.raises(ProtocolError, match="sequence 0, which is not open"):
        reader.read(chunk(0, [9]))
    assert reader.read(complete(1, [7])).token_ids == []
    assert not reader.left


@pytest.mark.parametrize(
    ("said", "reason"),
    [("stop", "stop"), ("length", "length"), ("", "stop"), ("cancelled", "cancelled"), ("timeout", "error")],
)
def test_reasons(said: str, reason: str) -> None:
    finish = stock_codec.AnswerReader(submit_of(4)).read(complete(reason=said)).finish
    assert finish is not None
    assert finish.reason.value == reason
    assert (finish.failure is None) == (reason != "error")


@pytest.mark.parametrize(
    ("n", "said", "tokens", "reason"),
    [
        (2, "stop", 4, FinishReason.LENGTH),
        (2, "stop", 3, FinishReason.STOP),
        (1, "stop", 4, FinishReason.STOP),
        (1, "", 4, FinishReason.LENGTH),
        (1, "", 3, FinishReason.STOP),
    ],
)
def test_an_end_for_no_known_reason_is_the_length_if_that_is_reached(
    n: int, said: str, tokens: int, reason: FinishReason
) -> None:
    # The server's own word for a sequence whose end its engine does not explain is "stop": all but the last of several.
    finish = stock_codec.AnswerReader(submit_of(4, n=n)).read(complete(0, [1] * tokens, reason=said)).finish
    assert finish is not None
    assert finish.reason is reason


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"<html>", "not a GenerateResponse"),
        (b"", "without chunk and complete"),
        (chunk(1, [1]), "sequence 1, which is not open"),
        (complete(7), "sequence 7, which is not open"),
        (chunk(0, [1] * 5), "5 tokens, where 4 were asked for"),
        (complete(0, [1] * 5), "5 tokens, where 4 were asked for"),
    ],
)
def test_what_is_no_part_of_the_answer_is_said(data: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        stock_codec.AnswerReader(submit_of(4)).read(data)


def test_logprobs_are_best_first_and_no_more_than_asked_for() -> None:
    entry = pb.TokenLogprob(token_id=5, logprob=-2.0)
    for token, value in ((5, -2.0), (8, -0.5), (9, -1.0)):
        entry.top_logprobs.add(token_id=token, logprob=value)
    reader = stock_codec.AnswerReader(submit_of(4, logprobs=2))
    expected = TokenLogprobs(-2.0, ((8, -0.5), (9, -1.0)))
    assert reader.read(chunk(0, [5], logprobs=[entry])).logprobs == [expected]
    assert reader.read(complete(0, [5, 5], logprobs=[entry, entry])).logprobs == [expected]
    with pytest.raises(ProtocolError, match="0 logprobs for 1 tokens"):
        stock_codec.AnswerReader(submit_of(4, logprobs=2)).read(chunk(0, [5]))


def test_times_become_durations_where_they_are_known() -> None:
    def timing(**metrics: float) -> Timing:
        data = complete(perf_metrics=pb.PerfMetrics(**metrics))
        finish = stock_codec.AnswerReader(submit_of(4)).read(data).finish
        assert finish is not None
        return finish.timing

    known = {"arrival_time": 10.0, "first_scheduled_time": 10.5, "first_token_time": 11.0, "last_token_time": 13.0}
    assert timing(**known) == Timing(500_000, 500_000, 2_000_000)
    assert timing(**(known | {"arrival_time": 0.0})) == Timing(0, 500_000, 2_000_000)
    assert timing(**(known | {"first_token_time": math.nan, "last_token_time": math.inf})) == Timing(500_000)
    assert timing() == Timing()


@pytest.mark.parametrize(
    "decode",
    [
        stock_codec.decode_health,
        stock_codec.decode_model_info,
        stock_codec.decode_server_info,
        stock_service_codec.decode_generate,
        stock_service_codec.decode_abort,
        stock_kv_codec.decode_subscribe,
    ],
)
def test_bytes_that_do_not_parse_are_a_protocol_error(decode: object) -> None:
    assert callable(decode)
    with pytest.raises(ProtocolError):
        decode(b"<html><body>It works!</body></html>")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"tokenized": None}, "Missing tokenized input"),
        ({"lora_config": pb.LoraConfig(task_id=3)}, "LoRA adapters by number"),
        ({"embedding_bias": [1.0]}, "an embedding bias"),
        ({"bad": ["no"], "bad_token_ids": [4]}, "supported here: bad words$"),
        ({"sampling_config": pb.SamplingConfig(beam_width=4)}, "beam search"),
        ({"disaggregated_params": pb.DisaggregatedParams()}, "one phase of a request"),
        ({"output_config": pb.OutputConfig(return_context_logits=True)}, "logits"),
    ],
)
def test_the_service_refuses_what_it_would_have_to_pass_over(fields: dict[str, object], problem: str) -> None:
    message = pb.GenerateRequest(**({"tokenized": pb.TokenizedInput(input_token_ids=[1]), "max_tokens": 4} | fields))
    with pytest.raises(stock_service_codec.Refused, match=problem):
        stock_service_codec.decode_generate(message.SerializeToString())


def test_kv_events_have_signed_hashes() -> None:
    events = [
        KvEvent(1, KvStored(None, ((2**64 - 1, (1, 2)),), "tenant")),
        KvEvent(2, KvStored(2**63, ((3, (4,)),))),
        KvEvent(3, KvRemoved((2**63 + 1,))),
    ]
    batch = common_pb2.KvEventBatch.FromString(stock_kv_codec.encode_batch(9, 1.5, events, cleared=True))
    assert (batch.sequence_number, batch.timestamp) == (9, 1.5)
    cleared, first, second, removed = batch.events
    assert cleared.HasField("cleared")
    assert (first.stored.blocks[0].block_hash, first.stored.cache_salt, first.stored.blocks[0].block_size) == (
        -1,
        "tenant",
        2,
    )
    assert not first.stored.HasField("parent_block_hash")
    assert second.stored.parent_block_hash == -(2**63)
    assert list(removed.removed.block_hashes) == [-(2**63) + 1]
