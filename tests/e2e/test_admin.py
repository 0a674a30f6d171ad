"""The admin API's process beside a running gateway."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.raw import INTERNAL, Answer, ask, chat, read_answer
from tests.e2e.stack import HANGS_SECONDS, HEEDING, PENSTOCK, Stack, eventually, rss
from tests.ports import free_port

LOTS_OF_MEMORY = 80 << 20


def admin_key(stack: Stack) -> str:
    return (stack.state_dir / "admin.key").read_text().strip()


def admin(stack: Stack, method: str, path: str, body: Any = None, *, key: str | None = None) -> Answer:
    """One request to the admin API."""
    data = b"" if body is None else json.dumps(body).encode()
    bearer = admin_key(stack) if key is None else key
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bearer}\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", stack.admin_port), timeout=HANGS_SECONDS) as connection:
        connection.sendall(head.encode() + data)
        answer = read_answer(connection, method)
    if answer[0] >= 400:
        assert not INTERNAL.search(answer[2]), answer[2]
    return answer


def up(stack: Stack) -> bool:
    try:
        return admin(stack, "GET", "/healthz")[0] == 200
    except OSError:
        return False


def test_it_answers_its_key_alone(stack: Stack) -> None:
    eventually(lambda: up(stack), "the admin API is up")
    path = stack.state_dir / "admin.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"http://127.0.0.1:{stack.admin_port}/admin (its key: {path})" in stack.output
    assert admin_key(stack) not in stack.output + stack.errors
    status, headers, body = admin(stack, "GET", "/admin/tenants")
    assert (status, headers["content-type"]) == (200, "application/json")
    assert "default" in [tenant["name"] for tenant in json.loads(body)["data"]]
    for wrong in ("", "x", stack.key, admin_key(stack) + "x"):
        status, headers, body = admin(stack, "GET", "/admin/tenants", key=wrong)
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
    status, _, _ = ask(stack, chat(max_tokens=1), headers={"Authorization": f"Bearer {admin_key(stack)}"})
    assert status == 401
    assert admin(stack, "HEAD", "/admin/tenants")[2] == b""
    assert json.loads(admin(stack, "GET", "/admin/openapi.json")[2])["openapi"] == "3.1.0"
    (pid,) = stack.admins
    assert rss(pid) < LOTS_OF_MEMORY


def test_a_tenant_and_its_key_from_first_to_last(stack: Stack) -> None:
    eventually(lambda: up(stack), "the admin API is up")
    assert admin(stack, "POST", "/admin/tenants", {"name": "acme", "limits": {"rpm": 1000}})[0] == 201
    made = json.loads(admin(stack, "POST", "/admin/keys", {"name": "ci", "tenant": "acme"})[2])
    bearer = {"Authorization": f"Bearer {made['key']}"}
    assert ask(stack, chat(max_tokens=2), headers=bearer)[0] == 200, "it works at once"

    def counted() -> bool:
        (row,) = json.loads(admin(stack, "GET", "/admin/limits?tenant=acme")[2])["data"]
        rows = json.loads(admin(stack, "GET", "/admin/usage?tenant=acme&by=tenant,model&since=1h")[2])["data"]
        return bool(row["limits"][0]["used"] == 1 and rows and rows[0]["output_tokens"] == 2)

    eventually(counted, "the request is in limits and usage")
    printed = stack.run("usage", "--tenant", "acme", "--json")
    assert [row["requests"] for row in json.loads(printed.stdout)] == [1], printed.stderr
    metrics = admin(stack, "GET", "/metrics")[2].decode()
    assert 'penstock_limit_used{tenant="acme",scope="tenant",limit="rpm"} 1\n' in metrics
    admin(stack, "POST", f"/admin/keys/{made['id']}/revoke")
    eventually(lambda: all(ask(stack, chat(max_tokens=1), headers=bearer)[0] == 401 for _ in range(8)), "refused")
    assert admin(stack, "DELETE", "/admin/tenants/acme")[0] == 200
    trail = json.loads(admin(stack, "GET", "/admin/audit?limit=4")[2])["data"]
    assert [entry["action"] for entry in trail] == ["tenant.delete", "key.revoke", "key.create", "tenant.create"]
    assert {entry["actor"] for entry in trail} == {"admin-api"}


def test_bytes_that_are_no_request(stack: Stack) -> None:
    eventually(lambda: up(stack), "the admin API is up")
    key = admin_key(stack)
    for data in (
        b"\x00\xff\r\n\r\n",
        f"POST /admin/tenants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        f"POST /admin/tenants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        "Content-Length: 99999999\r\n\r\n".encode(),
    ):
        with socket.create_connection(("127.0.0.1", stack.admin_port), timeout=HANGS_SECONDS) as connection:
            connection.sendall(data)
            assert connection.recv(64).startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
    assert up(stack)
    assert "Traceback" not in stack.errors


def test_a_killed_one_is_replaced_and_a_stop_ends_it(start: Callable[..., Stack]) -> None:
    stack = start(workers=1)
    eventually(lambda: up(stack), "the admin API is up")
    key = admin_key(stack)
    (pid,) = stack.admins
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: stack.admins not in ([], [pid]) and up(stack), "another one is there")
    assert admin(stack, "GET", "/admin/tenants", key=key)[0] == 200
    assert ask(stack, chat(max_tokens=1))[0] == 200
    assert "the admin API ended with status -9" in stack.errors
    with socket.create_connection(("127.0.0.1", stack.admin_port)):  # idle, and no reason to wait
        stack.signal(signal.SIGTERM)
        assert stack.wait() == 0
    stack.wait_gone()
    assert "Traceback" not in stack.errors


def test_a_taken_port_and_an_open_key(start: Callable[..., Stack]) -> None:
    stack = start(workers=1)
    stack.signal(signal.SIGTERM)
    assert stack.wait() == 0
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", stack.admin_port))
        taken.listen()
        stack.launch()
        assert stack.wait() == 1
        alone = stack.run("admin")
        assert alone.returncode == 1
    for errors in (stack.errors, alone.stderr):
        assert errors.count("\n") == 1
        assert re.search(rf"127\.0\.0\.1:{stack.admin_port}: .*; set admin\.port", errors)
    path = stack.state_dir / "admin.key"
    path.chmod(0o644)
    stack.launch()
    assert stack.wait() == 1
    assert stack.errors.count("\n") == 1
    assert f"chmod 600 {path}" in stack.errors
    path.chmod(0o600)
    text = stack.config.read_text()
    stack.config.write_text(text.replace(f"port: {stack.admin_port}", f"port: {stack.port}"))
    stack.launch()
    assert stack.wait() == 1
    assert "admin.port: the admin API cannot share port" in stack.errors
    stack.config.write_text(text.replace("admin: {", "admin: {enabled: false, "))
    stack.start()
    assert stack.admins == []
    assert "Admin" not in stack.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_alone(start: Callable[..., Stack], number: signal.Signals) -> None:
    """`penstock admin` in a terminal, with a key of the environment, beside a gateway that runs none."""
    stack = start(workers=1)
    eventually(lambda: up(stack), "the admin API is up")
    other = stack.folder / "other.yaml"
    port = stack.admin_port
    stack.admin_port = free_port()
    other.write_text(stack.config.read_text().replace(f"port: {port}", f"port: {stack.admin_port}"))
    key = "a-key-of-the-environment"
    with subprocess.Popen(
        [*HEEDING, PENSTOCK, "admin", "--config", other],
        env={**os.environ, "PENSTOCK_ADMIN_KEY": key},
        stderr=subprocess.PIPE,
    ) as process:
        try:
            eventually(lambda: up(stack), "it is up")
            assert admin(stack, "GET", "/admin/keys", key=key)[0] == 200
            assert admin(stack, "GET", "/admin/keys")[0] == 401
            process.send_signal(number)
            assert process.wait(HANGS_SECONDS) == 0
            assert process.stderr is not None
            assert process.stderr.read().count(b"\n") == 1
        finally:
            process.kill()
