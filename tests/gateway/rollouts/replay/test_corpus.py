import json
from pathlib import Path

import pytest

from gateway.rollouts.comparison.answer import Answer, ToolCall
from gateway.rollouts.replay.chats import chats_in
from gateway.rollouts.replay.corpus import BadLines, CorpusHead, Entry, corpus_line, read_corpus

HEAD = CorpusHead(model="m", source="live", redacted=True)
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def written(folder: Path, *lines: bytes) -> Path:
    path = folder / "corpus.ndjson"
    path.write_bytes(b"".join(lines))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    entries = [
        Entry(id="a", body=CHAT, answer=Answer(text="Yes", calls=(ToolCall("t", "{}"),), finish="stop"), version="v1"),
        Entry(id="b", path="/v1/completions", body={"prompt": "x"}),
    ]
    corpus = read_corpus(written(tmp_path, corpus_line(HEAD), b"\n", *map(corpus_line, entries)))
    assert corpus.head == HEAD
    assert [entry.id for entry in corpus.entries] == ["a", "b"]
    answer = corpus.entries[0].answer
    assert answer is not None
    assert (answer.text, list(answer.calls)) == ("Yes", [ToolCall("t", "{}")])


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], ": it is empty"),
        ([b"{}\n"], ":1: Object missing required field `model`"),
        ([b'{"penstock_corpus": 2, "model": "m", "source": "live", "redacted": true}'], ":1: format 2 is not known"),
        ([corpus_line(HEAD)], ": it has no requests"),
        ([corpus_line(HEAD), b"\n{oh\n"], ":3: it is no JSON"),
        ([corpus_line(HEAD), b'{"id": "a"}'], ":2: Object missing required field `body`"),
        ([corpus_line(HEAD), b'{"id": "a", "body": {}}'], ":2: body: it has no messages"),
        ([corpus_line(HEAD), b'{"id": "a", "body": {}, "oh": 1}'], ":2: Object contains unknown field `oh`"),
        ([corpus_line(HEAD), b'{"id": "a", "path": "/admin", "body": {}}'], r":2: Invalid enum value '/admin'"),
        ([corpus_line(HEAD), *[corpus_line(Entry(id="a", body=CHAT))] * 2], ":3: the id 'a' stands on line 2"),
        ([corpus_line(HEAD), b'{"id": "\xff"}'], ":2: "),
    ],
)
def test_a_bad_corpus_is_refused_by_file_and_line(tmp_path: Path, lines: list[bytes], problem: str) -> None:
    with pytest.raises(BadLines) as refused:
        read_corpus(written(tmp_path, *lines))
    assert f"{tmp_path / 'corpus.ndjson'}{problem}" in str(refused.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadLines, match="No such file"):
        read_corpus(tmp_path / "none")


def test_chats_of_several_forms(tmp_path: Path) -> None:
    user = {"role": "user", "content": "Hi"}
    call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    lines = [
        [user],
        {"id": "named", "messages": [user, {"role": "assistant", "content": "Yes"}], "temperature": 0},
        {"custom_id": "batch", "method": "POST", "url": "/v1/completions", "body": {"prompt": "x"}},
        {"messages": [user, {"role": "assistant", "content": None, "tool_calls": [call]}]},
    ]
    found = list(chats_in(written(tmp_path, *(json.dumps(line).encode() + b"\n" for line in lines))))
    assert found == [
        Entry(id="line-1", body={"messages": [user]}),
        Entry(id="named", body={"messages": [user], "temperature": 0}, answer=Answer(text="Yes", finish="stop")),
        Entry(id="batch", path="/v1/completions", body={"prompt": "x"}),
        Entry(
            id="line-4",
            body={"messages": [user]},
            answer=Answer(calls=(ToolCall("t", "{}"),), finish="tool_calls"),
        ),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (1, "expected an object or a list of messages"),
        ({}, "messages: expected a list"),
        ({"messages": []}, "messages: expected a list"),
        ({"messages": ["Hi"]}, "messages: expected a list"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages: there is an answer and no question"),
        ({"id": 7, "messages": [{}]}, "id: expected"),
        ({"url": "/v1/embeddings", "body": {}}, "url: expected one of"),
        ({"messages": [{"role": "user"}, {"role": "assistant", "content": [1]}]}, r"messages[1].content"),
        ({"messages": [{"role": "user"}, {"role": "assistant", "tool_calls": [1]}]}, r"messages[1].tool_calls"),
    ],
)
def test_bad_chats(tmp_path: Path, line: object, problem: str) -> None:
    path = written(tmp_path, b"\n", json.dumps(line).encode())
    with pytest.raises(BadLines) as refused:
        list(chats_in(path))
    assert str(refused.value).startswith(f"{path}:2: {problem}")
