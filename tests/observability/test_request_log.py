"""One line a request at most: which requests have one, what it says, and what is left out."""

import json
import logging
from collections.abc import Iterator

import pytest

from observability.logs import JsonLines
from observability.outcome import FAILED, Outcome
from observability.request_log import RequestLog, Which
from tests.observability.tracing.records import TRACE, record_of, sampled


class Lines(logging.Handler):
    """What the log's lines are."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def messages(self) -> list[str]:
        return [record.getMessage() for record in self.records]

    @property
    def objects(self) -> list[dict[str, object]]:
        return [json.loads(JsonLines().format(record)) for record in self.records]


@pytest.fixture
def lines() -> Iterator[Lines]:
    heard, logger = Lines(), logging.getLogger("observability.request_log")
    logger.addHandler(heard)
    logger.setLevel(logging.DEBUG)
    yield heard
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(heard)


def failing(**fields: object) -> dict[str, object]:
    return {"outcome": Outcome.REPLICA_ERROR, "status": 502, "code": "engine_error", "detail": "CUDA error", **fields}


@pytest.mark.parametrize(("which", "count"), [("none", 0), ("failed", len(FAILED) + 1), ("all", len(Outcome) + 1)])
def test_which_requests_have_a_line(which: Which, count: int, lines: Lines) -> None:
    records = [record_of(outcome=outcome, status=500 if outcome in FAILED else 400) for outcome in Outcome]
    # A filter that fails refuses with a status that is not the client's doing.
    records.append(record_of(outcome=Outcome.FILTERED, status=503))
    RequestLog(which, per_second=1000).take(records)
    assert len(lines.records) == count
    warnings = [record for record in lines.records if record.levelno == logging.WARNING]
    assert len(warnings) == (count if which == "failed" else len(FAILED) + 1 if which == "all" else 0)


def test_what_it_says(lines: Lines) -> None:
    RequestLog("all", per_second=10).take([record_of(**failing()), sampled()])
    assert lines.messages == [
        "request req_1 of tenant acme: 502 engine_error, model mixtral at replica wide/0 in 1.250 s: CUDA error",
        "request req_1 of tenant acme: 200 ok, model mixtral at replica wide/0 in 1.250 s",
    ]
    failed, answered = lines.objects
    assert (failed["request_id"], failed["outcome"], failed["status"]) == ("req_1", "replica_error", 502)
    assert "trace_id" not in failed
    assert answered["trace_id"] == TRACE.hex()
    assert (answered["seconds"], answered["first_token_seconds"]) == (1.25, 0.1)
    assert (answered["prompt_tokens"], answered["completion_tokens"]) == (10, 20)
    assert "code" not in answered


def test_hostile_words_stay_in_their_line(lines: Lines) -> None:
    RequestLog("all", per_second=10).take([record_of(**failing(detail='x\n{"level":"INFO"}\x1b[2J', tenant="a\nb"))])
    (line,) = [JsonLines().format(record) for record in lines.records]
    assert "\n" not in line
    assert json.loads(line)["tenant"] == "a\\nb"


async def test_at_high_rates_some_are_left_out_and_counted(lines: Lines) -> None:
    now = 0.0
    sink = RequestLog("all", per_second=3, clock=lambda: now)
    sink.take([record_of(), record_of(**failing())] * 10)
    # Those that failed are not crowded out by the others.
    assert [record.levelno for record in lines.records] == [logging.INFO, logging.WARNING] * 3
    assert sink.counts() == {"telemetry_dropped_total": 14}
    now = 1.0
    sink.take([record_of(**failing())])
    assert lines.messages[-1].endswith("CUDA error (7 lines like it were left out)")
    assert lines.objects[-1]["left_out"] == 7
    await sink.aclose()
    assert lines.messages[-1] == "7 lines about requests were left out"
    await sink.aclose()
    assert len(lines.records) == 8
