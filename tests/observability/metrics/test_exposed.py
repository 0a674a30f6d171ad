"""All families in Prometheus' text format: read by a strict parser, and by Prometheus' own tool where it is there."""

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observability.exposition import Family, Observed, exposition
from observability.metrics import declarations as declared
from observability.metrics.genai import genai_families
from observability.metrics.merge import Merged
from observability.metrics.snapshot import Numbers, empty
from observability.outcome import Outcome
from observability.record import Verdict
from tests.observability.metrics.parsing import parsed
from tests.observability.metrics.records import numbers_of, placed, record, sink_of


def everything() -> list[Family]:
    """Each declared metric with a number."""
    sink = sink_of()
    outcomes = [
        record(outcome=outcome, filter_seconds=0.5, held_seconds=0.25, rejected_tokens=1) for outcome in Outcome
    ]
    sink.take(
        [*outcomes, record(tenant='a"b\\c\nd\x00\ud800'), record(verdicts=[Verdict("r", "flag", "prompt", "", 1)])]
    )
    numbers = numbers_of(placed(sink))
    for metric in declared.METRICS:
        labels = ["ready" if name == "state" else "x" for name in metric.labels]
        if metric.kind == "histogram":
            numbers.put(metric, empty(metric), *labels)
        else:
            numbers.set(metric, 1.5, *labels)
    families = Merged(numbers).families()
    assert [family.name for family in families] == [metric.name for metric in declared.METRICS]
    return [*families, *genai_families(families)]


def test_everything() -> None:
    kinds, series = parsed(exposition(everything()))
    assert len(kinds) == len(declared.METRICS) + 4
    acme = frozenset({"model": "m", "tenant": "acme", "endpoint": "chat", "outcome": "ok"}.items())
    assert series["penstock_requests_total", acme] == 2
    hostile = {dict(labels).get("tenant") for _, labels in series} - {"acme", "x", None}
    assert hostile == {'a"b\\c\\nd\\x00\\ud800'}
    place, requests = {"model": "m", "pool": "wide"}, len(Outcome) + 2
    counts = {
        float(dict(labels)["le"]): count
        for (name, labels), count in series.items()
        if name == "penstock_request_seconds_bucket" and place.items() <= dict(labels).items()
    }
    assert list(counts.values()) == sorted(counts.values())
    assert counts[float("inf")] == series["penstock_request_seconds_count", frozenset(place.items())] == requests
    assert (counts[1.28], counts[2.56]) == (0, requests)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus' tool is not there")
def test_prometheus_reads_it() -> None:
    text = exposition(everything()).encode()
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False, timeout=30)
    assert done.stderr.decode().splitlines() == [], "its advice on names, too"


def test_a_histogram() -> None:
    family = Family("h", "histogram", "H.", bounds=(0.5, 1.0), observed=[Observed({"a": "b"}, [1, 0, 2], 7.5)])
    family.observed.append(Observed({}, [0, 0, 0], 0.0))
    assert exposition([family]) == (
        "# HELP h H.\n# TYPE h histogram\n"
        'h_bucket{a="b",le="0.5"} 1\nh_bucket{a="b",le="1.0"} 1\nh_bucket{a="b",le="+Inf"} 3\n'
        'h_sum{a="b"} 7.5\nh_count{a="b"} 3\n'
        'h_bucket{le="0.5"} 0\nh_bucket{le="1.0"} 0\nh_bucket{le="+Inf"} 0\nh_sum 0.0\nh_count 0\n'
    )


@given(
    st.dictionaries(st.sampled_from(["a", "b", "le2"]), st.text(st.characters(exclude_categories=["Cs"])), max_size=3),
    st.lists(st.integers(0, 1 << 50), min_size=3, max_size=3),
    st.floats(allow_nan=False),
)
def test_any_label_and_number_comes_back(labels: dict[str, str], counts: list[int], number: float) -> None:
    gauge = Family("g", "gauge", "G.", [(labels, number)])
    histogram = Family("h", "histogram", "H.", bounds=(0.1, 2), observed=[Observed(labels, counts, number)])
    _, series = parsed(exposition([gauge, histogram]))
    of = frozenset(labels.items())
    assert series["g", of] == number
    buckets = [series["h_bucket", of | {("le", le)}] for le in ("0.1", "2.0", "+Inf")]
    assert buckets == [counts[0], counts[0] + counts[1], float(sum(counts))]


def test_genai_names() -> None:
    sink = sink_of()
    sink.take([record(), record(pool="narrow"), record(model="m2", pool="p")])
    families = {family.name: family for family in genai_families(Merged(numbers_of(placed(sink))).families())}
    duration = families["gen_ai_server_request_duration_seconds"]
    assert [(dict(one.labels), sum(one.counts), one.sum) for one in duration.observed] == [
        ({"gen_ai_request_model": "m"}, 2, 4.5),
        ({"gen_ai_request_model": "m2"}, 1, 2.25),
    ]
    usage = families["gen_ai_client_token_usage"]
    assert [(one.labels["gen_ai_token_type"], one.sum) for one in usage.observed] == [
        *(("input", 200), ("input", 100), ("output", 10), ("output", 5)),
    ]
    assert set(families) == {
        "gen_ai_server_request_duration_seconds",
        "gen_ai_server_time_to_first_token_seconds",
        "gen_ai_server_time_per_output_token_seconds",
        "gen_ai_client_token_usage",
    }


def test_declarations() -> None:
    assert len({metric.name for metric in declared.METRICS}) == len(declared.METRICS)
    for metric in declared.METRICS:
        assert re.fullmatch(r"penstock_[a-z][a-z0-9_]*", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert not metric.name.endswith(("_count", "_sum", "_bucket", "_info", "_created")), "kept for parts of others"
        units = {"s": "_seconds", "By": "_bytes", "USD": "_usd"}
        if metric.unit in units:
            assert units[metric.unit] in metric.name
        assert (metric.kind == "histogram") == bool(metric.bounds)
        assert list(metric.bounds) == sorted(set(metric.bounds))
        if metric.genai is not None:
            assert set(metric.genai.bounds) <= set(metric.bounds), "so that nothing is guessed"
    assert not Merged(Numbers()).families()
