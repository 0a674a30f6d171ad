from pathlib import Path

import pytest

from gateway.rollouts.comparison.answer import Answer
from gateway.rollouts.replay.corpus import BadLines, Corpus, CorpusHead, Entry
from gateway.rollouts.replay.run_file import Failure, Result, RunFile, read_run

CORPUS = Corpus(
    CorpusHead(model="m", source="chats", redacted=True),
    [Entry(id=name, body={"messages": []}) for name in "abc"],
    "digest",
)
GOOD = Result(id="a", answer=Answer(text="Yes"), version="v2", seconds=0.5)
BAD = Result(id="b", failure=Failure(503, "overloaded", "No room."))


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunFile(path, CORPUS, "m", "v2") as file:
        assert not file.results
        file.add(GOOD)
    # What a killed process has left of its last line is not a result.
    path.write_bytes(path.read_bytes() + b'{"id": "c", "answ')
    with RunFile(path, CORPUS, "m", "v2") as file:
        assert dict(file.results) == {"a": GOOD}
        file.add(BAD)
    assert list(read_run(path).results.values()) == [GOOD, BAD]


def test_a_killed_first_line_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(b'{"penstock_run": 1, "cor')
    with RunFile(path, CORPUS, "m", "") as file:
        file.add(GOOD)
    assert read_run(path).head.entries == 3


def test_another_run_is_not_added_to(tmp_path: Path) -> None:
    path = tmp_path / "run"
    RunFile(path, CORPUS, "m", "v2").__exit__(None, None, None)
    with pytest.raises(BadLines, match=r"run:1: it is another run: its version is 'v2', not 'v3'"):
        RunFile(path, CORPUS, "m", "v3")


def test_two_processes_do_not_write_one_run(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunFile(path, CORPUS, "m", "v2"), pytest.raises(BadLines, match="another process writes this run"):
        RunFile(path, CORPUS, "m", "v2")
    # The lock goes with the file.
    RunFile(path, CORPUS, "m", "v2").__exit__(None, None, None)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (b"{}\n", ":2: Object missing required field `id`"),
        (b'{"id": "a"}\n', ":2: expected an answer or a failure"),
        (b'{"id": "a", "answer": {}}\n' * 2, ":3: the id 'a' stands there twice"),
    ],
)
def test_a_bad_run(tmp_path: Path, more: bytes, problem: str) -> None:
    path = tmp_path / "run"
    RunFile(path, CORPUS, "m", "v2").__exit__(None, None, None)
    path.write_bytes(path.read_bytes() + more)
    with pytest.raises(BadLines) as refused:
        read_run(path)
    assert f"{path}{problem}" in str(refused.value)
