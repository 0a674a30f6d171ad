"""An operator's commands that do something wrong."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.config.models.addresses import is_grpc_address
from protos.launch_step import LaunchStep
from replicas.launchers import hook
from replicas.launchers.command_launcher import CommandLauncher
from replicas.launchers.launcher import LauncherError
from tests.launched import command, order, write_answer
from tests.loops import until

ONE: dict[str, Any] = {"id": "a", "model": "m", "pool": "p", "step": "process", "since": 5}
PYTHON = (sys.executable, "-I", "-S", "-c")


def launcher(*program: str, timeout_seconds: float = 30.0) -> CommandLauncher:
    """A launcher whose three commands are one."""
    return CommandLauncher(program, program, program, timeout_seconds)


async def problem(made: CommandLauncher, call: str = "observe") -> str:
    """What is said about a call."""
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "observe": made.observe,
        "start": lambda: made.start([order("a")]),
        "stop": lambda: made.stop(["a"], 5.0),
    }
    with pytest.raises(LauncherError) as caught:
        await calls[call]()
    text = str(caught.value)
    begins = f"launchers.command.{call}: "
    assert text.startswith(begins)
    assert "\n" not in text
    return text.removeprefix(begins).partition(": ")[2]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "output: Object missing required field `replicas`"),
        ("{", "output: not JSON: Input data was truncated"),
        ("hello", "output: not JSON: JSON is malformed: invalid character (byte 0)"),
        ([], "output: Expected `object`, got `array`"),
        ({"replicas": {}}, "replicas: Expected `array`, got `object`"),
        ({"replicas": [ONE | {"id": 5}]}, "replicas[0].id: Expected `str`, got `int`"),
        ({"replicas": [ONE, ONE | {"id": "b", "step": "on"}]}, "replicas[1].step: Invalid enum value 'on'"),
        ({"replicas": [{"id": "a"}]}, "replicas[0]: Object missing required field `model`"),
        ({"replicas": [ONE | {"adress": "h"}]}, "replicas[0]: Object contains unknown field `adress`"),
        ({"replicas": [ONE | {"since": "now"}]}, "replicas[0].since: Expected `float`, got `str`"),
        ({"replicas": [ONE | {"id": "A/b"}]}, "replicas[0].id: expected 1 to 63 of a-z, 0-9 and -: 'A/b'"),
        ({"replicas": [ONE, ONE]}, "replicas[0].id: a is there 2 times"),
    ],
)
async def test_a_wrong_answer_is_named_by_its_field(answer: object, said: str, tmp_path: Path) -> None:
    assert await problem(launcher(*write_answer(tmp_path, answer))) == said


async def test_all_that_can_be_told_is_taken_over(tmp_path: Path) -> None:
    more = {"address": "grpc://h:1", "spot": True, "problem": "x", "preempted_at": 9.5}
    (found,) = await launcher(*write_answer(tmp_path, {"replicas": [ONE | more]})).observe()
    assert (found.id, found.step, found.since) == ("a", LaunchStep.PROCESS, 5.0)
    assert (found.address, found.spot, found.problem, found.preempted_at) == ("grpc://h:1", True, "x", 9.5)


async def test_an_address_that_nobody_can_reach_is_named(tmp_path: Path) -> None:
    program = write_answer(tmp_path, {"replicas": [ONE | {"address": "h:1"}]})
    made = CommandLauncher(program, program, program, 9.0, is_address=is_grpc_address)
    assert await problem(made) == (
        "replicas[0].address: expected grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH: 'h:1'"
    )


@pytest.mark.parametrize("call", ["start", "stop"])
async def test_start_and_stop_have_nothing_to_say(call: str, tmp_path: Path) -> None:
    assert await problem(launcher(*write_answer(tmp_path, {"replicas": []})), call) == (
        "output: Object contains unknown field `replicas`"
    )
    answers: tuple[object, ...] = ({}, "")
    for answer in answers:
        made = launcher(*write_answer(tmp_path, answer))
        await made.start([order("a")])
        await made.stop(["a"], 5.0)


async def test_what_commands_are_given(tmp_path: Path) -> None:
    given = tmp_path / "given"
    made = launcher(*PYTHON, f"import sys; open({str(given)!r}, 'w').write(sys.stdin.read())")
    await made.start([order("a", "v1", gpus=4, spot=True)])
    assert json.loads(given.read_text()) == {
        "replicas": [
            {
                "id": "a",
                "model": "m",
                "pool": "p",
                "shape": {"tp": 4, "ep": 1, "pp": 1},
                "role": "both",
                "version": "v1",
                "spot": True,
            }
        ]
    }
    await made.stop(["a", "b"], 7.5)
    assert json.loads(given.read_text()) == {"ids": ["a", "b"], "grace_seconds": 7.5}
    await problem(made)
    assert json.loads(given.read_text()) == {}


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; print('one'); sys.exit('no quota\\n')", "ended with status 1: no quota"),
        ("raise SystemExit(3)", "ended with status 3 and said nothing"),
        ("import os; os.kill(os.getpid(), 9)", "ended with status -9 and said nothing"),
        ("import sys; sys.exit('a\\x1b[31m' + 'b' * 9999)", "ended with status 1: a\\x1b[31m" + "b" * 391),
    ],
)
async def test_a_command_that_fails_is_named_with_what_it_says(program: str, said: str) -> None:
    for call in ("start", "observe", "stop"):
        assert await problem(launcher(*PYTHON, program), call) == said


async def test_a_command_that_is_not_there_is_named() -> None:
    assert await problem(launcher("/no/such/program")) == "cannot be started: No such file or directory"


async def test_a_command_that_writes_too_much_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "LONGEST_OUTPUT", 100_000)
    endless = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    assert await problem(launcher(*PYTHON, endless)) == "has written more than 100,000 bytes, and was killed"


async def test_a_command_that_says_much_about_its_success_is_none_that_fails(tmp_path: Path) -> None:
    answer = write_answer(tmp_path, {"replicas": [ONE]})
    chatty = f"import sys; sys.stderr.write('x' * 3_000_000); {answer[-1]}"
    assert len(await launcher(*PYTHON, chatty).observe()) == 1


#: Notes its process and a child's, neither of which ends.
HANGS = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()} {child}")
time.sleep(600)
"""


def lives(pid: int) -> bool:
    """Whether it runs; who has ended and was not asked about has state Z."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_command_that_hangs_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, bounds, timeout = tmp_path / "pids", list[asyncio.Timeout](), asyncio.timeout

    def bound_of(seconds: float | None) -> asyncio.Timeout:
        """The command's own begins to run when the test says so: who knows how long a start takes."""
        if seconds != 0.5:
            return timeout(seconds)
        bounds.append(timeout(None))
        return bounds[0]

    monkeypatch.setattr(asyncio, "timeout", bound_of)
    call = asyncio.ensure_future(problem(launcher(*PYTHON, HANGS, str(noted), timeout_seconds=0.5), "start"))
    await until(lambda: bounds and noted.exists() and len(noted.read_text().split()) == 2)
    bounds[0].reschedule(asyncio.get_running_loop().time() + 0.5)
    assert await call == "has not ended within 0.5 s, and was killed"
    pids = [int(pid) for pid in noted.read_text().split()]
    await until(lambda: not any(map(lives, pids)))


async def test_a_call_that_is_given_up_is_killed_too(tmp_path: Path) -> None:
    noted = tmp_path / "pids"
    call = asyncio.ensure_future(launcher(*PYTHON, HANGS, str(noted)).observe())
    await until(lambda: noted.exists() and len(noted.read_text().split()) == 2)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    pids = [int(pid) for pid in noted.read_text().split()]
    await until(lambda: not any(map(lives, pids)))


async def test_what_a_command_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    serve = "import subprocess, sys; open(sys.argv[1], 'w').write(str(subprocess.Popen(['sleep', '600']).pid))"
    await launcher(*PYTHON, serve, str(noted)).start([order("a")])
    pid = int(noted.read_text())
    assert lives(pid)
    os.kill(pid, 9)


async def test_a_cloud_that_fails_half_way_or_forgets_is_asked_again(tmp_path: Path) -> None:
    made = command(tmp_path)
    (tmp_path / "b.json").mkdir()
    with pytest.raises(LauncherError, match=r"launchers\.command\.stop: .*IsADirectoryError"):
        await made.stop(["b"], 5.0)
    await made.start([order("a"), order("b")])
    with pytest.raises(LauncherError, match=r"launchers\.command\.observe: .*IsADirectoryError"):
        await made.observe()
    (tmp_path / "b.json").rmdir()
    assert [one.id for one in await made.observe()] == ["a"]
    await made.start([order("a"), order("b")])
    assert [one.id for one in await made.observe()] == ["a", "b"]
