"""A batch's input: what is taken, what is refused with which words, and that tasks cover every request once."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.jobs.batches import lines
from gateway.jobs.batches.lines import Checked, Rules, check, lines_of, read_line, requests_of
from gateway.jobs.files.content import PIECE_BYTES

CHAT = "/v1/chat/completions"


class Memory:
    """Content of one file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def create(self, name: str) -> Any:
        raise NotImplementedError

    def read(self, name: str, start: int, length: int) -> bytes:
        assert length <= PIECE_BYTES
        return self.data[start : start + length]

    def delete(self, name: str) -> None:
        raise NotImplementedError


def line(name: str = "a", /, **changes: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": []} | changes.pop("body", {})
    return {"custom_id": name, "method": "POST", "url": CHAT, "body": body} | changes


def checked(data: bytes, *, most: int = 50_000, body: int = 10_000) -> Checked:
    rules = Rules(CHAT, most, body, lambda model: "" if model == "m" else f"The model '{model}' does not exist.")
    return check(Memory(data), "in", len(data), rules)


def jsonl(*found: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in found)


def problem(data: bytes, **options: int) -> tuple[str, str | None, int | None]:
    (only,) = checked(data, **options).problems
    return only.code, only.param, only.line


def test_good_files() -> None:
    found = checked(jsonl(line("a"), line("b")))
    assert (found.problems, found.requests, found.model) == ([], 2, "m")
    assert checked(jsonl(line("a")).rstrip()).requests == 1
    assert checked(b"\xef\xbb\xbf" + jsonl(line("a"))).problems == []
    assert checked(jsonl(line("a")).replace(b"\n", b"\r\n") + b"\r\n \n" + jsonl(line("b"))).requests == 2


@pytest.mark.parametrize(
    ("bad", "code", "param"),
    [
        ({"url": "/v1/embeddings"}, "mismatched_url", "url"),
        ({"url": "https://evil.example/v1/chat/completions"}, "mismatched_url", "url"),
        ({"method": "GET"}, "invalid_method", "method"),
        ({"custom_id": ""}, "invalid_custom_id", "custom_id"),
        ({"custom_id": "x" * 513}, "invalid_custom_id", "custom_id"),
        ({"custom_id": 7}, "invalid_request", "custom_id"),
        ({"body": {"stream": True}}, "invalid_request", "body.stream"),
        ({"body": {"model": "other"}}, "invalid_model", "body.model"),
        ({"body": {"model": 3}}, "invalid_request", "body.model"),
        ({"body": {"text": "x" * 10_000}}, "line_too_long", "body"),
        ({"body": {"text": "x" * 20_000}}, "line_too_long", None),
    ],
)
def test_bad_lines_are_named(bad: dict[str, Any], code: str, param: str | None) -> None:
    assert problem(jsonl(line("first"), line("second", **bad), line("third"))) == (code, param, 2)


@pytest.mark.parametrize(
    ("raw", "code", "param"),
    [
        (b"{", "invalid_json_line", None),
        (b"[]", "invalid_request", None),
        (b'"text"', "invalid_request", None),
        (b"{}", "missing_required_parameter", "custom_id"),
        (b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions"}', "missing_required_parameter", "body"),
        (
            b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{}}',
            "missing_required_parameter",
            "body.model",
        ),
        (b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":[]}', "invalid_request", "body"),
        (b'{"custom_id":"\xff"}', "invalid_encoding", None),
        ("{}".encode("utf-16"), "invalid_encoding", None),
        (b'{"x":' + b"[" * 9_000, "invalid_json_line", None),
    ],
)
def test_lines_that_are_no_requests(raw: bytes, code: str, param: str | None) -> None:
    assert problem(raw) == (code, param, 1)


def test_a_custom_id_is_used_once() -> None:
    assert problem(jsonl(line("a"), line("b"), line("a"))) == ("duplicate_custom_id", "custom_id", 3)


def test_files_without_requests() -> None:
    for data in (b"", b"\n\n \n", b"\xef\xbb\xbf"):
        assert problem(data) == ("empty_file", None, None)


def test_one_request_too_many() -> None:
    data = jsonl(*(line(str(number)) for number in range(4)))
    assert problem(data, most=3) == ("too_many_requests", None, None)
    assert checked(data, most=4).problems == []


def test_not_every_problem_of_a_hopeless_file_is_told() -> None:
    assert len(checked(b"{\n" * 1000).problems) == lines.MOST_PROBLEMS


@given(st.lists(st.integers(0, 400), min_size=1, max_size=150), st.booleans(), st.integers(20, 3000))
def test_tasks_cover_each_request_once(sizes: list[int], blank: bool, task_bytes: int) -> None:
    data = b"".join(
        jsonl(line(str(number), body={"text": "x" * size})) + (b"\n" if blank else b"")
        for number, size in enumerate(sizes)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "TASK_BYTES", task_bytes)
        patch.setattr(lines, "PIECE_BYTES", 97)
        found = checked(data)
    assert found.problems == []
    seen = []
    for task in found.tasks:
        requests = requests_of(data[task.offset : task.offset + task.length])
        assert len(requests) == task.requests <= lines.TASK_REQUESTS
        assert len(requests) == 1 or task.length <= task_bytes
        seen += [read_line(raw).custom_id for raw in requests]
    assert seen == [str(number) for number in range(len(sizes))]


@given(st.lists(st.integers(0, 60), max_size=12), st.integers(1, 40), st.integers(1, 50))
def test_lines_in_pieces_of_any_size(sizes: list[int], longest: int, piece: int) -> None:
    data = b"\n".join(bytes([97 + number % 26]) * size for number, size in enumerate(sizes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "PIECE_BYTES", piece)
        found = list(lines_of(Memory(data), "in", len(data), longest))
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert [raw for _, raw in found] == [raw if len(raw) <= longest else None for raw in expected]
    for place, raw in found:
        assert raw is None or data[place : place + len(raw)] == raw
