import json
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main
from tests.listener import Listener, http_answer, listening

EXPLANATION = {
    "request_id": "req_1",
    "model": "m",
    "policy": "least_load",
    "prompt_tokens": 12,
    "max_tokens": 100,
    "expected_output_tokens": 64.0,
    "waiting": 0,
    "reason": "least loaded",
    "replica": "p/1",
    "prefill": None,
    "cached_tokens": 0,
    "expected_ttft_seconds": None,
    "candidates": [{"replica": "p/1", "value": 0.0, "parts": {"requests_per_gpu": 0.0}}],
    "new_in_a_later_version": 1,
}
EXPLAINED = http_answer(json.dumps(EXPLANATION).encode())


def models(*names: str) -> bytes:
    return http_answer(json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode())


def refusal(status: str, code: str | None, message: str) -> bytes:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return http_answer(json.dumps({"error": error}).encode(), status)


def sent(asked: bytes) -> Any:
    return json.loads(asked.partition(b"\r\n\r\n")[2])


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", "sk-1")
    monkeypatch.setenv("COLUMNS", "80")


def route(listener: Listener, *arguments: str) -> int:
    return main(["route", "explain", "--url", f"http://{listener.address}", *arguments])


def problem(capsys: pytest.CaptureFixture[str], listener: Listener, *arguments: str) -> str:
    assert route(listener, *arguments) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"penstock route: .*\n", said.err)
    return said.err.removeprefix("penstock route: ").rstrip("\n")


def test_a_table_for_the_only_model(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(models("m"), EXPLAINED) as listener:
        assert route(listener, "Hello there", "--max-tokens", "100") == 0
    listed, asked = listener.asked
    assert listed.startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert asked.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"x-penstock-explain: dry-run\r\n" in asked
    assert b"authorization: Bearer sk-1\r\n" in asked
    assert sent(asked) == {"model": "m", "messages": [{"role": "user", "content": "Hello there"}], "max_tokens": 100}
    assert capsys.readouterr().out == (
        "model        m\n"
        "policy       least_load\n"
        "goes to      p/1\n"
        "because      least loaded\n"
        "prompt       12 tokens, 0 believed to be cached there\n"
        "answer       64 tokens expected, 100 at most\n"
        "\n"
        "   #  REPLICA  VALUE\n"
        ">  1  p/1          0\n"
        "0 for all: requests_per_gpu\n"
    )


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(EXPLAINED) as listener:
        assert route(listener, "--model", "m", "Hello", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert {name: said[name] for name in ("model", "replica", "prompt_tokens")} == {
        "model": "m",
        "replica": "p/1",
        "prompt_tokens": 12,
    }


def test_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "prompt"
    file.write_text("Hellö\n", encoding="utf-8")
    with listening(EXPLAINED) as listener:
        assert route(listener, "--model", "m", "--prompt-file", str(file)) == 0
        assert route(listener, "--model", "m", "--prompt-tokens", "1000") == 0
        with file.open(encoding="utf-8") as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            assert route(listener, "--model", "m", "--prompt-file", "-") == 0
    contents = [sent(asked)["messages"][0]["content"] for asked in listener.asked]
    assert contents == ["Hellö\n", " the" * 1000, "Hellö\n"]


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([models("m", "n")], "say which model with --model: m, n"),
        ([models()], "this API key may use no model"),
        (
            [refusal("403 Forbidden", "endpoint_not_allowed", "This API key may not use /v1/models.")],
            "this API key may not list the models: say which with --model",
        ),
        (
            [refusal("401 Unauthorized", "invalid_api_key", "Incorrect API key provided.")],
            "Incorrect API key provided.",
        ),
        (
            [models("m"), refusal("403 Forbidden", "explain_not_allowed", "This API key may not.")],
            "this API key may not ask; let it with: penstock keys update ID_OR_NAME --explain",
        ),
        (
            [models("m"), refusal("404 Not Found", "model_not_found", "The model 'm' does not exist.")],
            "The model 'm' does not exist.",
        ),
        ([models("m"), refusal("503 Service Unavailable", "store_unavailable", "No store.")], "No store."),
        ([http_answer(b'{"data": 1}')], "what answers at http://ADDRESS is no Penstock gateway"),
        ([http_answer(b"hello")], "what answers at http://ADDRESS is no Penstock gateway"),
        ([models("m"), http_answer(b'{"choices": []}')], "what answers at http://ADDRESS does not explain its routes"),
        ([models("m"), http_answer(b"<html>")], "what answers at http://ADDRESS does not explain its routes"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], answers: list[bytes], says: str) -> None:
    with listening(*answers) as listener:
        assert problem(capsys, listener, "Hello") == says.replace("ADDRESS", listener.address)


def test_nothing_is_asked_without_a_key_or_a_prompt(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with listening(models("m")) as listener:
        assert "cannot read the prompt" in problem(capsys, listener, "--prompt-file", str(tmp_path / "none"))
        monkeypatch.delenv("PENSTOCK_API_KEY")
        assert problem(capsys, listener, "Hello").startswith("no API key: set PENSTOCK_API_KEY or name a file")
        file = tmp_path / "key"
        file.write_text("sk-2")
        assert "is no Penstock gateway" not in problem(capsys, listener, "x", "--key-file", str(file), "--model", "m")
    (asked,) = listener.asked
    assert b"authorization: Bearer sk-2\r\n" in asked


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "Hello --prompt-tokens 5",
        "Hello --prompt-file x",
        "--prompt-tokens 0",
        "--prompt-tokens many",
        "Hello --max-tokens -1",
        "Hello --key sk-1",
    ],
)
def test_usage(capsys: pytest.CaptureFixture[str], arguments: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["route", "explain", *arguments.split()])
    assert caught.value.code == 2
    assert "usage: penstock" in capsys.readouterr().err


def test_the_gateway_of_a_configuration_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    with listening(models("m"), EXPLAINED) as gateway:
        host, port = gateway.address.split(":")
        pools = "[{name: p, engine: openai, replicas: ['http://a/v1']}]"
        path.write_text(f"listen: {{host: {host}, port: {port}}}\nmodels: [{{name: m, context: 9, pools: {pools}}}]\n")
        assert main(["route", "explain", "--config", str(path), "Hello!"]) == 0
    assert "p/1" in capsys.readouterr().out
    path.write_text("models: 1")
    assert main(["route", "explain", "--config", str(path), "Hello!"]) == 1
    assert capsys.readouterr().err.startswith(f"penstock route: {path}: models: expected")
