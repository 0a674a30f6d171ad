"""The lines of the journal."""

import math
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observability.journal.entries import VERSION, ChangeEntry, RequestEntry, change_lines, event, request_lines
from observability.outcome import Outcome
from observability.record import TraceContext, Verdict
from tests.observability.journal.journals import record_of

#: Any text that Python can hold, lone surrogates too.
TEXTS = st.text(st.characters(), max_size=40)


def line_of(**fields: Any) -> dict[str, Any]:
    lines = request_lines([record_of(**fields)])
    assert (lines.entries, lines.unusable, lines.data.count(b"\n")) == (1, 0, 1)
    line: dict[str, Any] = msgspec.json.decode(lines.data)
    return line


def test_a_request_is_one_line_of_what_is_known() -> None:
    line = line_of(
        outcome=Outcome.CUT,
        sent=100.0625,
        verdicts=[Verdict("pii", "redact", "answer", "EMAIL", 2)],
        trace=TraceContext(b"\x01" * 16, b"\x02" * 8, 1, ""),
    )
    assert line == {
        "kind": "request",
        "schema": VERSION,
        "id": "req_0",
        "time": "2025-06-15T15:06:40.500000Z",
        "endpoint": "/v1/chat/completions",
        "outcome": "cut",
        "status": 200,
        "tenant": "acme",
        "model": "m",
        "sequences": 1,
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "cost_nano_usd": 1000,
        "verdicts": [{"rule": "pii", "action": "redact", "where": "answer", "label": "EMAIL", "times": 2}],
        "sent_us": 62_500,
        "ended_us": 250_000,
        "trace_id": "01" * 16,
    }


def test_every_field_of_an_entry_comes_from_the_field_of_its_name() -> None:
    record = record_of()
    texts = {
        name: f"<{name}>" for name in RequestEntry.__struct_fields__ if isinstance(getattr(record, name, None), str)
    }
    numbers = {
        name: place + 7
        for place, name in enumerate(RequestEntry.__struct_fields__)
        if type(getattr(record, name, None)) is int
    }
    moments = {
        name.removesuffix("_us"): 100.0 + place
        for place, name in enumerate(RequestEntry.__struct_fields__, 1)
        if name.endswith("_us") and not name.startswith(("engine_", "filter_", "held_"))
    }
    line = line_of(**texts, **numbers, **moments, filter_seconds=0.25, held_seconds=0.5)
    assert (line["filter_us"], line["held_us"]) == (250_000, 500_000)
    assert {name: line[name] for name in texts} == texts
    assert {name: line[name] for name in numbers} == numbers
    assert {name: line[f"{name}_us"] for name in moments} == {name: (at - 100) * 1e6 for name, at in moments.items()}
    assert len(texts) + len(numbers) + len(moments) > 40


@given(TEXTS, TEXTS, TEXTS)
@settings(deadline=None)
def test_any_text_makes_one_line_of_valid_json(one: str, two: str, three: str) -> None:
    line = line_of(asked_model=one, tenant=two, verdicts=[Verdict(three, "flag", "prompt", "x", 1)])
    for text, said in ((one, line.get("asked_model", "")), (three, line["verdicts"][0]["rule"])):
        assert said == text.encode("utf-8", "backslashreplace").decode()


def test_long_texts_are_cut_and_short_ones_beside_them_are_not() -> None:
    line = line_of(detail="x" * 1_000_000, tenant="acme", verdicts=[Verdict("r" * 9999, "flag", "prompt", "", 1)] * 500)
    assert line["detail"] == "x" * 512 + "..."
    assert (line["tenant"], len(line["verdicts"]), len(line["verdicts"][0]["rule"])) == ("acme", 64, 515)


@pytest.mark.parametrize("fields", [{"wall": math.nan}, {"wall": 1e300}, {"ended": math.inf}, {"tenant": object()}])
def test_a_record_that_no_line_can_have_costs_only_itself(fields: dict[str, Any]) -> None:
    lines = request_lines([record_of(1), record_of(2, **fields), record_of(3)])
    assert (lines.entries, lines.unusable) == (2, 1)
    assert [msgspec.json.decode(line)["id"] for line in lines.data.splitlines()] == ["req_1", "req_3"]


def test_changes_and_events() -> None:
    change = ChangeEntry(
        VERSION, "5-0", datetime(2030, 1, 1, tzinfo=UTC), "cli:a", "key.create", "k", None, {"a": "\ud800"}
    )
    lines = change_lines([change, event("changes_missing", 0.0)])
    assert lines.unusable == 0
    first, second = map(msgspec.json.decode, lines.data.splitlines())
    assert (first["kind"], first["after"], second["kind"]) == ("change", {"a": "\\ud800"}, "journal")
