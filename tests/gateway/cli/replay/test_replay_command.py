import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gateway.cli.live_gateway import LiveGateway
from gateway.cli.main import main
from gateway.cli.replay import replay_client, replay_record
from gateway.cli.replay.replay_client import ReplayClient
from gateway.rollouts.replay.corpus import Entry
from gateway.rollouts.replay.redaction import Redaction
from gateway.rollouts.replay.run_file import read_run
from safety.action import Action
from safety.screen import Rule
from safety.terms import TermFilter
from tests.gateway.cli.replay.stand_in import standing_in


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", "sk-1")
    monkeypatch.setattr(replay_client, "_NO_ROOM_FOR", 0.001)
    # What finds personal data takes seconds to compile.
    redaction = Redaction([Rule("terms", TermFilter("terms", ["anna@example.com"], words=True), Action.REDACT)])
    monkeypatch.setattr(replay_record, "usual_redaction", lambda: redaction)


def corpus_of(folder: Path, capsys: pytest.CaptureFixture[str], count: int = 4, **fields: Any) -> Path:
    chats = folder / "chats.jsonl"
    lines = [
        {
            "id": f"c{number}",
            "stream": True,
            "messages": [
                {"role": "user", "content": f"{number}: mail anna@example.com"},
                {"role": "assistant", "content": f"recorded {number}"},
            ],
            **fields,
        }
        for number in range(count)
    ]
    chats.write_text("".join(json.dumps(line) + "\n" for line in lines))
    corpus = folder / "corpus.ndjson"
    assert main(["replay", "record", "--chats", str(chats), "--model", "m", "--output", str(corpus)]) == 0
    assert capsys.readouterr().out == f"{corpus}: {count} requests\n"
    assert "anna" not in corpus.read_text()
    return corpus


def number_in(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"].partition(":")[0])


def test_a_run_asks_each_entry_of_the_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, run = corpus_of(tmp_path, capsys), tmp_path / "run"
    with standing_in(lambda body, _: (200, f"recorded {number_in(body)}")) as (gateway, url):
        arguments = ["replay", "run", str(corpus), "--url", url, "--version", "v2", "--output", str(run)]
        assert main([*arguments, "--concurrency", "2", "--timeout", "20"]) == 0
        assert "answered  4 of 4" in capsys.readouterr().out
        for body, headers in gateway.bodies:
            assert (body["model"], "stream" in body) == ("m", False)
            assert (headers["x-penstock-version"], headers["x-penstock-background"]) == ("v2", "true")
            assert headers["x-request-timeout"] == "20s"
        # Nothing is asked twice.
        assert main([*arguments, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"run": str(run), "entries": 4, "before": 4, "failed": 0}
        assert len(gateway.bodies) == 4
    assert main(["replay", "diff", str(corpus), str(run)]) == 0
    said = capsys.readouterr().out
    assert "alike         100.0%" in said
    assert said.endswith("\nPASSED\n")


def test_a_gateway_that_goes_away_ends_the_run_and_keeps_what_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, run = corpus_of(tmp_path, capsys), tmp_path / "run"
    with standing_in(lambda body, _: (503, "x") if number_in(body) == "2" else (200, "x")) as (gateway, url):
        arguments = ["replay", "run", str(corpus), "--output", str(run), "--concurrency", "1"]
        assert main([*arguments, "--url", url]) == 0
        # A refusal for want of room is tried again, and then kept as a result.
        assert [number_in(body) for body, _ in gateway.bodies] == ["0", "1", *["2"] * 6, "3"]
        said = capsys.readouterr().out
        assert "1 failed" in said
    failed = read_run(run).results["c2"].failure
    assert failed is not None
    assert f"why       {failed.message} (1)" in said
    failures = {name: result.failure for name, result in read_run(run).results.items()}
    assert [name for name, failure in failures.items() if failure is not None] == ["c2"]

    half = tmp_path / "half"
    half.write_bytes(b"".join(run.read_bytes().splitlines(keepends=True)[:2]))
    assert main([*arguments[:3], "--output", str(half), "--url", url]) == 2
    assert "no gateway answers at" in capsys.readouterr().err
    assert len(read_run(half).results) == 1


def test_another_version_than_was_asked_for_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = corpus_of(tmp_path, capsys, 1)
    with standing_in(lambda *_: (200, "x")) as (gateway, url):
        reply = gateway.reply
        gateway.reply = lambda *given: (200, {"x-penstock-version": "v1"}, reply(*given)[2])  # type: ignore[method-assign]
        status = main(
            ["replay", "run", str(corpus), "--url", url, "--version", "v2", "--output", str(tmp_path / "run")]
        )
    assert status == 2
    assert "v1 answered in place of v2" in capsys.readouterr().err


def judged(body: dict[str, Any], _: dict[str, str]) -> tuple[int, str]:
    if body["model"] != "judge":
        return 200, "another answer"
    text = body["messages"][1]["content"]
    return 200, '{"better": "A"}' if text.index("recorded") < text.index("another") else '{"better": "B"}'


def test_thresholds_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, run, xml = corpus_of(tmp_path, capsys, 2), tmp_path / "run", tmp_path / "junit.xml"
    with standing_in(judged) as (gateway, url):
        assert main(["replay", "run", str(corpus), "--url", url, "--output", str(run)]) == 0
        diff = ["replay", "diff", str(corpus), str(run), "--url", url]
        capsys.readouterr()
        assert main([*diff, "--judge", "judge", "--embeddings", "e", "--junit", str(xml), "--json"]) == 1
        told = json.loads(capsys.readouterr().out)
        assert told["judged"] == {"worse": 2}
        assert sorted(gateway.embedded) == ["another answer"] * 2 + ["recorded 0", "recorded 1"]
        assert [each["difference"]["by"] for each in told["differences"]] == ["embeddings"] * 2
        assert len(told["violations"]) == 2
        (suite,) = ElementTree.parse(xml).getroot()
        assert suite.attrib["failures"] == "3"
        assert main([*diff, "--judge", "judge", "--alike", "0", "--worse", "1"]) == 0
    assert main(["replay", "diff", str(corpus), str(run), str(run)]) == 0
    capsys.readouterr()
    assert main(["replay", "diff", str(corpus), str(run)]) == 1
    said = capsys.readouterr().out
    assert "c0     similarity 0.00 by tokens" in said
    assert "FAILED: 0.0% of the answers are alike, less than 90.0%" in said


def test_what_cannot_be_compared_is_said_by_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, run = corpus_of(tmp_path, capsys, 1), tmp_path / "run"
    run.write_text('{"penstock_run": 1, "corpus": "other", "entries": 1, "model": "m", "version": ""}\n')
    assert main(["replay", "diff", str(corpus), str(run)]) == 2
    assert capsys.readouterr().err == f"penstock replay: {run}:1: it is a run of another corpus\n"
    run.write_text("oh\n")
    assert main(["replay", "diff", str(corpus), str(run)]) == 2
    assert f"{run}:1: it is no JSON" in capsys.readouterr().err
    corpus.write_text("{}\n")
    assert main(["replay", "run", str(corpus), "--output", str(tmp_path / "new")]) == 2
    assert f"{corpus}:1: Object missing" in capsys.readouterr().err
    assert main(["replay", "record", "--chats", str(corpus), "--model", "m", "--output", str(tmp_path / "new")]) == 1
    assert f"{corpus}:1: messages: expected" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "new.part").exists()
    monkeypatch.delenv("PENSTOCK_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    corpus_of(tmp_path, capsys, 1)
    assert main(["replay", "run", str(corpus), "--output", str(tmp_path / "new")]) == 2
    assert "no API key" in capsys.readouterr().err


def test_a_run_whose_requests_have_all_failed_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, run, answered = corpus_of(tmp_path, capsys), tmp_path / "run", {"none"}
    with standing_in(lambda body, _: (200, "fine") if number_in(body) in answered else (500, "broken")) as (_, url):
        assert main(["replay", "run", str(corpus), "--url", url, "--output", str(run)]) == 1
        assert "4 failed" in capsys.readouterr().out
        run.unlink()
        answered.add("2")
        assert main(["replay", "run", str(corpus), "--url", url, "--output", str(run)]) == 0


def test_a_judge_that_is_refused_a_question_has_no_verdict_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, run, refused = corpus_of(tmp_path, capsys, 5), tmp_path / "run", {"0", "1"}

    def answer(body: dict[str, Any], headers: dict[str, str]) -> tuple[int, str]:
        text = body["messages"][-1]["content"]
        if body["model"] == "judge" and any(f"recorded {number}" in text for number in refused):
            return 400, "context_length_exceeded"
        return judged(body, headers)

    with standing_in(answer) as (gateway, url):
        assert main(["replay", "run", str(corpus), "--url", url, "--output", str(run)]) == 0
        diff = ["replay", "diff", str(corpus), str(run), "--url", url, "--judge", "judge", "--alike", "0", "--json"]
        capsys.readouterr()
        assert main([*diff, "--worse", "1"]) == 0
        assert json.loads(capsys.readouterr().out)["judged"] == {"unreadable": 2, "worse": 3}
        refused.add("2")
        assert main([*diff, "--worse", "1"]) == 1
        assert "3 of the judge's 5 verdicts are unreadable" in capsys.readouterr().out
        # What is refused for another reason would be refused for all.
        gateway.answer = lambda *_: (401, "invalid_api_key")
        assert main(diff) == 2
        assert "No." in capsys.readouterr().err


def test_seconds_are_those_of_the_attempt_that_was_answered() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += max(seconds, 0.25)

    def answer(*_: object) -> tuple[int, str]:
        now[0] += 0.5
        return (503, "no_capacity") if now[0] < 2.0 else (200, "x")

    entry = Entry(id="a", body={"messages": [{"role": "user", "content": "Hi"}]})
    with standing_in(answer) as (_, url):
        gateway = LiveGateway(url, "sk-1")
        client = ReplayClient(gateway, model="m", version="", seconds=5.0, clock=lambda: now[0], sleep=sleep)
        assert client.ask(entry).seconds == 0.5
    assert now[0] == 2.0
