"""While the file on disk is one that the gateway has refused, what runs can still be seen and changed."""

import subprocess
from collections.abc import Callable

from tests.e2e.stack import HANGS_SECONDS, PENSTOCK, Stack, eventually
from tests.e2e.test_reload import changed, joined, put

#: What to replace in the file, and what is said of it.
FAULTS = [
    ("models:\n", "models: [\n", ": line "),
    ("    context: 32768\n", "    context: 32768\n    nonsense: 1\n", ": models[0].nonsense: unknown field"),
    ("url: embedded", "url: 'redis://127.0.0.1:1/0'", ": it needs a restart (store.url)"),
]
WORKING = [
    "keys list",
    "keys create --name more",
    "tenants list",
    "providers list",
    "usage",
    "replicas list",
    "scale list",
    "rollout list",
    "drift list",
    "top --once",
    "audit query",
    "audit verify",
]


def ran(stack: Stack, command: str) -> "subprocess.CompletedProcess[str]":
    return stack.run(*command.split())


def test_commands_go_by_what_serves_and_say_so(start: Callable[..., Stack]) -> None:
    stack = joined(start())
    good = stack.config.read_text()
    # One is enough for the faults that differ in nothing but their line.
    for (old, new, said), commands in zip(FAULTS, (WORKING, WORKING[:1], WORKING[:1]), strict=True):
        put(stack, changed(stack, old, new))
        reload = stack.run("config", "reload")
        assert reload.returncode == 1
        assert f"Refused: {stack.config}{said}".removesuffix(" (store.url)") in reload.stderr
        for command in commands:
            done = ran(stack, command)
            first = done.stderr.splitlines()[0]
            assert first.startswith(f"penstock {command.split()[0]}: {stack.config}{said}"), (command, done.stderr)
            assert first.endswith("; going by what serves here with that file")
            assert done.returncode == 0, (command, done.stderr)
        put(stack, good)
        eventually(lambda: "Nothing differs" in stack.run("config", "reload").stdout, "the good one is back")
    assert ran(stack, "keys list").stderr == ""


def test_commands_on_the_file_itself_end_with_its_fault(start: Callable[..., Stack]) -> None:
    stack = joined(start())
    good = stack.config.read_text()
    put(stack, changed(stack, "    context: 32768\n", "    context: 32768\n    nonsense: 1\n"))
    for command, status in (("check", 1), ("eject --to out", 1), ("admin", 1), ("controller", 1), ("epp", 1)):
        done = ran(stack, command)
        assert done.returncode == status, (command, done.stderr)
        assert f"{stack.config}: models[0].nonsense: unknown field" in done.stderr
        assert done.stderr.count("\n") == 1
    # So do all commands on a file that no gateway here was started with, whatever runs with its state directory.
    put(stack, good)
    other = stack.config.with_name("other.yaml")
    other.write_text(changed(stack, "models:\n", "models: [\n"))
    done = subprocess.run(
        [PENSTOCK, "keys", "list", "--config", other],
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"penstock keys: {other}: line ")
    assert done.stderr.count("\n") == 1
