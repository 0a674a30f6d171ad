"""`penstock route explain` and the debug header before a running gateway with two pools."""

import json
import os
import subprocess
from collections.abc import Iterator

import openai
import pytest

from tests.e2e.conftest import running
from tests.e2e.raw import ask, chat
from tests.e2e.stack import HANGS_SECONDS, MODEL, PENSTOCK, Stack, eventually

WIDE = "      - {name: wide, shape: {tp: 8}, engine: simulated, replicas: 1, simulated: {pace_ms: 2}}\n"
SECRET = "swordfish"


@pytest.fixture(scope="module")
def pools() -> Iterator[Stack]:
    """One worker, two narrow replicas and a wide one."""
    with running(workers=1, replicas=2, more=WIDE) as stack:
        eventually(lambda: len(explained(stack, "x", "--json")[1].split('"replica"')) == 5, "three are candidates")
        yield stack


def explained(
    stack: Stack, *arguments: str, key: str | None = None, columns: int = 80, url: str | None = None
) -> tuple[int, str, str]:
    environment = {**os.environ, "PENSTOCK_API_KEY": stack.key if key is None else key, "COLUMNS": str(columns)}
    done = subprocess.run(
        [PENSTOCK, "route", "explain", "--url", url or f"http://127.0.0.1:{stack.port}", *arguments],
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        env=environment,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("columns", [80, 120])
def test_a_table_of_both_pools(pools: Stack, columns: int) -> None:
    status, said, problem = explained(pools, f"{SECRET} please", columns=columns)
    assert (status, problem) == (0, "")
    lines = said.splitlines()
    assert lines[:2] == [f"model        {MODEL}", "policy       auto"]
    chosen = lines[2].removeprefix("goes to").strip()
    assert chosen in ("narrow/0", "narrow/1", "wide/0")
    assert [line.split()[2] for line in lines if line.startswith(">")] == [chosen]
    assert all(name in said for name in ("narrow/0", "narrow/1", "wide/0"))
    assert max(map(len, lines)) <= columns
    assert SECRET not in said


def test_about_so_many_tokens(pools: Stack) -> None:
    status, said, _ = explained(pools, "--prompt-tokens", "5000", "--max-tokens", "7", "--json")
    assert status == 0
    told = json.loads(said)
    assert 5000 <= told["prompt_tokens"] <= 5050
    assert (told["max_tokens"], len(told["candidates"])) == (7, 3)


def test_the_header_says_what_the_command_does(pools: Stack) -> None:
    status, headers, _ = ask(pools, chat(SECRET, max_tokens=3), headers={"X-Penstock-Explain": "1"})
    assert status == 200
    route = json.loads(headers["x-penstock-route"])
    assert (route["policy"], len(route["candidates"])) == ("auto", 3)
    assert "x-penstock-route" not in ask(pools, chat(SECRET, max_tokens=3))[1]
    with openai.OpenAI(base_url=pools.base_url, api_key=pools.key, max_retries=0) as client:
        answer = client.chat.completions.with_raw_response.create(
            model=MODEL,
            max_tokens=3,
            stream=True,
            messages=[{"role": "user", "content": SECRET}],
            extra_headers={"x-penstock-explain": "1"},
        )
        assert json.loads(answer.headers["x-penstock-route"])["replica"]
        assert list(answer.parse())
    eventually(lambda: pools.errors.count(", route {") >= 2, "both are in the log")
    assert SECRET not in pools.errors


def test_dry_runs_count_nothing(pools: Stack) -> None:
    made = pools.run("keys", "create", "--name", "dry", "--explain", "--rpm", "2", "--json")
    key = json.loads(made.stdout)["key"]
    for _ in range(5):
        assert explained(pools, "Hello", key=key)[0] == 0
    for status in (200, 200, 429):
        assert ask(pools, chat(max_tokens=1), headers={"Authorization": f"Bearer {key}"})[0] == status
    status, _, problem = explained(pools, "Hello", key=key)
    assert (status, problem.startswith("penstock route: ")) == (1, True)


def test_problems_are_one_line(pools: Stack) -> None:
    plain = json.loads(pools.run("keys", "create", "--name", "plain", "--json").stdout)["key"]
    here = f"http://127.0.0.1:{pools.port}"
    cases: list[tuple[dict[str, str], tuple[str, ...], str]] = [
        ({"key": plain}, ("x",), "let it with: penstock keys update ID_OR_NAME --explain"),
        ({"key": ""}, ("x",), "set PENSTOCK_API_KEY"),
        ({"key": "sk-penstock-wrong"}, ("x",), "Incorrect API key"),
        ({}, ("x", "--model", "nope"), "The model 'nope' does not exist"),
        ({}, ("--prompt-tokens", "40000"), "maximum context length is 32768 tokens"),
        ({"url": here.replace("http", "https")}, ("x",), "no TLS with https://"),
        ({"url": "http://127.0.0.1:1"}, ("x",), "no gateway answers at http://127.0.0.1:1: Connection refused"),
    ]
    for options, arguments, says in cases:
        status, said, problem = explained(pools, *arguments, **options)  # type: ignore[arg-type]
        assert (status, said, problem.count("\n")) == (1, "", 1), problem
        assert says in problem
    pools.run("keys", "update", "plain", "--explain")
    eventually(lambda: explained(pools, "x", key=plain)[0] == 0, "the key may ask within a second")


def test_a_drained_replica_is_left_out(pools: Stack) -> None:
    def told() -> bool:
        return "could not be taken:\n  drained: narrow/0" in explained(pools, "Hello")[1]

    drained = pools.run("replicas", "drain", "narrow/0")
    assert drained.returncode == 0, drained.stderr
    try:
        eventually(told, "the drained replica is told")
    finally:
        # Others have this stack, too.
        assert pools.run("replicas", "resume", "narrow/0").returncode == 0
    eventually(lambda: not told(), "it may be taken again")
