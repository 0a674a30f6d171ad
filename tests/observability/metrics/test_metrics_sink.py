"""What becomes of ended requests in counters and histograms."""

import itertools
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from observability.metrics import declarations as declared
from observability.metrics.metric import Metric
from observability.metrics.metrics_sink import FAILURES_KEPT, MISTAKES_KEPT, MOST_ENDPOINTS, ROUTED_KEPT
from observability.metrics.snapshot import Distribution, Numbers
from observability.outcome import Outcome
from observability.record import RequestRecord, Verdict
from tests.observability.metrics.records import numbers_of, placed, record, sink_of


def folded(*records: RequestRecord) -> Numbers:
    sink = sink_of()
    sink.take(records)
    return numbers_of(placed(sink))


def values(numbers: Numbers, metric: Metric) -> dict[tuple[str, ...], float]:
    return numbers.values.get(metric.name, {})


def times(numbers: Numbers, metric: Metric) -> dict[tuple[str, ...], Distribution]:
    return numbers.distributions.get(metric.name, {})


def observed(metric: Metric, *observations: float) -> Distribution:
    distribution = Distribution([0] * (len(metric.bounds) + 1))
    for observation in observations:
        distribution.add(observation, metric.bounds)
    return distribution


def test_a_streamed_answer() -> None:
    numbers = folded(record(retries=1, migrations=2, hedges=3, filter_seconds=0.25, held_seconds=0.5))
    assert values(numbers, declared.REQUESTS) == {("chat", "m", "acme", "ok"): 1}
    assert values(numbers, declared.TOKENS) == {
        ("m", "acme", "input"): 60,
        ("m", "acme", "cached"): 40,
        ("m", "acme", "output"): 3,
        ("m", "acme", "reasoning"): 2,
    }
    assert values(numbers, declared.COST) == {("m", "acme"): 2.0}
    assert values(numbers, declared.PREFIX_TOKENS) == {
        ("m", "wide", "prompt"): 100,
        ("m", "wide", "predicted"): 64,
        ("m", "wide", "cached"): 40,
    }
    for metric, count in ((declared.RETRIES, 1), (declared.MIGRATIONS, 2), (declared.HEDGES, 3)):
        assert values(numbers, metric) == {("m", "wide"): count}
    for metric, seconds in (
        (declared.REQUEST_SECONDS, 2.25),
        (declared.FIRST_TOKEN_SECONDS, 1.0),
        (declared.PER_TOKEN_SECONDS, 0.25),
        (declared.GATEWAY_SECONDS, 0.75),
        (declared.ENGINE_SECONDS, 1.5),
    ):
        assert times(numbers, metric) == {("m", "wide"): observed(metric, seconds)}, metric.name
    gaps = times(numbers, declared.INTER_TOKEN_SECONDS)["m", "wide"]
    assert (gaps.counts[3], sum(gaps.counts), gaps.sum) == (4, 4, 0.0375)
    assert times(numbers, declared.QUEUE_SECONDS) == {("m", "gold"): observed(declared.QUEUE_SECONDS, 0.125)}
    for metric, seen in (
        (declared.PROMPT_TOKENS, 100),
        (declared.ANSWER_TOKENS, 5),
        (declared.FILTER_SECONDS, 0.25),
        (declared.FILTER_HELD_SECONDS, 0.5),
    ):
        assert times(numbers, metric) == {("m",): observed(metric, seen)}, metric.name


def test_an_answer_in_one_piece_has_no_times_of_tokens() -> None:
    numbers = folded(record(stream=False, gaps=[]))
    for metric in (declared.FIRST_TOKEN_SECONDS, declared.PER_TOKEN_SECONDS, declared.INTER_TOKEN_SECONDS):
        assert not times(numbers, metric)
    assert times(numbers, declared.ENGINE_SECONDS)


def test_what_was_refused_has_used_nothing() -> None:
    never = {"sent": 0.0, "admitted": 0.0, "first_token": 0.0, "last_token": 0.0, "pool": "", "replica": "", "gaps": []}
    numbers = folded(record(outcome=Outcome.SHED, rejected_tokens=130, completion_tokens=0, **never))
    assert values(numbers, declared.REQUESTS) == {("chat", "m", "acme", "shed"): 1}
    assert values(numbers, declared.TOKENS) == {("m", "acme", "rejected"): 130}
    assert values(numbers, declared.COST) == {("m", "acme"): 0}
    assert set(numbers.distributions) - {declared.QUEUE_SECONDS.name} == {declared.REQUEST_SECONDS.name}
    assert set(times(numbers, declared.REQUEST_SECONDS)) == {("m", "-")}
    assert not times(numbers, declared.QUEUE_SECONDS)


def test_only_what_is_configured_is_named() -> None:
    strange = ["", "gpt-5", "m\n", 'm"', "m:adapter", "n:adapter", "x" * 10_000]
    numbers = folded(*(record(model=name, asked_model=name) for name in strange))
    by_model = {labels[1]: count for labels, count in values(numbers, declared.REQUESTS).items()}
    assert by_model == {"-": 1, "m": 1, "other": len(strange) - 2}, "an adapter's requests are its model's"
    assert set(times(numbers, declared.REQUEST_SECONDS)) == {("m", "wide")}
    numbers = folded(record(model="q:7b", pool="p"), record(model="q:7b:adapter", pool="p"))
    assert values(numbers, declared.REQUESTS) == {("chat", "q:7b", "acme", "ok"): 2}
    numbers = folded(*(record(pool=name, tier=name) for name in ("", "wide", "else\n", "p")))
    assert set(times(numbers, declared.REQUEST_SECONDS)) == {("m", "-"), ("m", "wide"), ("m", "other")}
    assert set(times(numbers, declared.QUEUE_SECONDS)) == {("m", "-"), ("m", "other")}
    numbers = folded(*(record(endpoint=f"/{number}") for number in range(10_000)))
    assert len(values(numbers, declared.REQUESTS)) == MOST_ENDPOINTS + 1
    assert values(numbers, declared.REQUESTS)["other", "m", "acme", "ok"] == 10_000 - MOST_ENDPOINTS


def test_verdicts() -> None:
    verdicts = [Verdict("pii", "redact", "prompt", "EMAIL", 2), Verdict("pii", "redact", "prompt", "IBAN", 1)]
    numbers = folded(record(verdicts=verdicts), record(model="", verdicts=[Verdict("a\nb", "block", "answer", "", 1)]))
    assert values(numbers, declared.FILTER_VERDICTS) == {
        ("pii", "redact", "prompt"): 3,
        ("a\\nb", "block", "answer"): 1,
    }


def test_times_that_clocks_have_wrong_take_nothing_away() -> None:
    backwards = record(arrived=200.0, sent=150.0, last_token=100.0, ended=50.0, admitted=1.0, reserved=2.0)
    numbers = folded(backwards, record())
    for name, by_labels in numbers.distributions.items():
        for distribution in by_labels.values():
            assert distribution.sum >= 0, name
            assert min(distribution.counts) >= 0, name


def test_recent() -> None:
    sink = sink_of()
    sink.take([record(id="lost", outcome=Outcome.REPLICA_ERROR, detail="a\x1b[2Jb" + "c" * 1000)])
    sink.take([record(id=f"bad{n}", outcome=Outcome.INVALID, replica="") for n in range(1000)])
    sink.take([record(id=f"good{n}") for n in range(1000)])
    recent = sink.recent()
    assert len(recent) <= FAILURES_KEPT + MISTAKES_KEPT + ROUTED_KEPT
    failed = [view for view in recent if view["kind"] == "failed"]
    assert failed[0]["id"] == "lost", "many mistakes of clients do not hide it"
    assert "\x1b" not in failed[0]["detail"]
    assert len(failed[0]["detail"]) < 300
    assert len(failed) == 1 + MISTAKES_KEPT
    routed = [view for view in recent if view["kind"] == "routed"]
    assert [view["id"] for view in routed] == [f"good{n}" for n in range(1000 - ROUTED_KEPT, 1000)]
    assert {"time", "policy", "reason", "ttft", "seconds", "cached", "predicted"} <= routed[0].keys()


_moments = st.floats(0, 1e6, allow_nan=False)
_records = st.builds(
    record,
    model=st.sampled_from(["m", "m2", "", "else", "m:a"]),
    pool=st.sampled_from(["wide", "p", "", "else"]),
    tenant=st.text(max_size=4),
    outcome=st.sampled_from(Outcome),
    stream=st.booleans(),
    arrived=_moments,
    sent=_moments,
    first_token=_moments,
    last_token=_moments,
    ended=_moments,
    completion_tokens=st.integers(0, 1 << 40),
    prompt_tokens=st.integers(0, 1 << 40),
    sequences=st.integers(0, 4),
    tier=st.sampled_from(["gold", "standard", "else"]),
    admitted=_moments,
    reason=st.sampled_from(["cheapest", "prefix"]),
    rejected_tokens=st.integers(0, 9),
    filter_seconds=st.floats(0, 10),
    held_seconds=st.floats(0, 10),
    gap_seconds=st.floats(0, 10),
    verdicts=st.lists(
        st.builds(
            Verdict, st.sampled_from(["pii", "a"]), st.just("flag"), st.just("prompt"), st.just(""), st.integers(1, 3)
        ),
        max_size=2,
    ),
)


@given(st.lists(_records, max_size=12), st.data())
def test_batches_make_no_difference(records: list[RequestRecord], data: Any) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=4)))
    one, other = sink_of(), sink_of()
    one.take(records)
    for start, end in itertools.pairwise([0, *cuts, len(records)]):
        other.take(records[start:end])
    encode = msgspec.json.Encoder(order="deterministic").encode
    assert encode(_plain(numbers_of(placed(one)))) == encode(_plain(numbers_of(placed(other))))


@given(st.lists(_records, min_size=20, max_size=40))
@settings(deadline=None)
def test_a_large_batch_is_its_requests_one_by_one(records: list[RequestRecord]) -> None:
    together, alone = sink_of(), sink_of()
    together.take(records)
    for each in records:
        alone.take([each])
    encode = msgspec.json.Encoder(order="deterministic").encode
    assert encode(_plain(numbers_of(placed(together)))) == encode(_plain(numbers_of(placed(alone))))


@given(st.lists(st.floats(-10, 1e3), max_size=40))
def test_observations_of_a_batch_are_added_as_each_by_itself(values: list[float]) -> None:
    batch, bounds = observed(declared.ENGINE_SECONDS), declared.ENGINE_SECONDS.bounds
    batch.add_all(values, bounds)
    assert batch == observed(declared.ENGINE_SECONDS, *values)


def _plain(numbers: Numbers) -> dict[str, list[Any]]:
    every: dict[str, dict[tuple[str, ...], Any]] = {**numbers.values, **numbers.distributions}
    return {name: sorted(by_labels.items()) for name, by_labels in every.items()}
