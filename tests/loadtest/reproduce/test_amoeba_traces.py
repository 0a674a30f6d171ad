"""Amoeba's figures with recorded requests: what becomes of a file, and what the command says of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.cli.main import main
from loadtest.reproduce import amoeba_traces, figures
from loadtest.reproduce.amoeba_traces import LONG, Recorded
from loadtest.reproduce.reproduction import Claim, Reproduction, Show
from loadtest.simulation.request_traces import TraceError
from loadtest.simulation.simulated_requests import native_rate


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "code.csv"
    rows = [f"2023-11-16 18:00:{at:02d},{100 + at},{1 + at}" for at in range(50)]
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    return path


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    path = tmp_path / "conversations.jsonl"
    path.write_text(
        "\n".join(
            f'{{"timestamp": {1000 * at}, "input_length": 600, "output_length": {at + 1}, "hash_ids": [0, {at + 1}]}}'
            for at in range(4)
        )
    )
    return path


def test_code_completions_are_as_recorded_but_for_a_few_long_ones(code: Path) -> None:
    recorded = amoeba_traces.code(code, 0)
    requests = recorded.load.make(5.0, 2000, 3)
    assert native_rate(requests) == pytest.approx(5.0, rel=0.001)
    long = [one for one in requests if one.prompt_tokens >= LONG[0]]
    assert 5 <= len(long) <= 40
    assert max(one.prompt_tokens for one in long) <= LONG[1]
    assert all(one in long or one.prompt_tokens == 100 + at % 50 for at, one in enumerate(requests))
    assert recorded.name == "code.csv, 1 % long"


def test_the_same_seed_makes_the_same_ones_long(code: Path) -> None:
    load = amoeba_traces.code(code, 0).load
    assert load.make(5.0, 500, 3) == load.make(5.0, 500, 3) != load.make(5.0, 500, 4)


def test_conversations_keep_what_they_share_from_the_first_that_is_not_left_out(conversations: Path) -> None:
    recorded = amoeba_traces.conversations(conversations, 1)
    requests = recorded.load.make(0.5, 3, 0)
    assert [(one.arrival, one.output_tokens) for one in requests] == [(0.0, 2), (2.0, 3), (4.0, 4)]
    assert requests[0].chain[:16] == requests[2].chain[:16]
    assert "`conversations.jsonl` from request 2 on" in recorded.said


def test_leaving_out_all_requests_is_refused(code: Path) -> None:
    with pytest.raises(TraceError, match="of its 50 requests --skip leaves none"):
        amoeba_traces.code(code, 50)


def figure(drawn: list[Recorded]) -> Callable[[Recorded, Show], Reproduction]:
    def reproduce(recorded: Recorded, show: Show) -> Reproduction:
        del show
        drawn.append(recorded)
        return Reproduction(
            "a figure", recorded.said, ["rate"], [["1/s"]], [Claim("it is so", True, "1")], {}, Path.touch
        )

    return reproduce


def test_the_command_takes_a_file(
    conversations: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[Recorded] = []
    monkeypatch.setitem(figures.RECORDED, "amoeba-14", figure(drawn))
    saved = conversations.with_name("saved.json")
    given = ["--conversation-trace", str(conversations), "--skip", "2", "--json", str(saved)]
    assert main(["bench", "reproduce", "amoeba-14", "--output", str(conversations.with_suffix(".png")), *given]) == 0
    assert [one.name for one in drawn] == ["conversations.jsonl"]
    assert "from request 3 on" in capsys.readouterr().out
    assert '"skip": "2"' in saved.read_text()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["scalellm-8", "--code-trace", "a.csv"], "scalellm-8 is drawn without a trace; with one there are amoeba-12"),
        (["amoeba-12", "--skip", "3"], "--skip needs a trace"),
        (["amoeba-13", "--conversation-trace", "nowhere.jsonl"], "nowhere.jsonl: cannot be read: No such file"),
    ],
)
def test_the_command_says_what_it_cannot_do(given: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "reproduce", *given]) == 1
    assert problem in capsys.readouterr().err
