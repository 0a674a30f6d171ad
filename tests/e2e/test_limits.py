"""Limits over two workers of a real gateway: exact, given back by the dead, and kept through the store's absence."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.e2e.raw import Answer, ask, begun, chat, error_of
from tests.e2e.stack import MODEL, Stack, eventually

TENANTS = """\
tenants:
  - {name: minute, limits: {rpm: 40}}
  - {name: pair, limits: {concurrency: 2}}
  - {name: open, limits: {rpm: 1000}, on_store_failure: fail_open}
  - {name: closed, limits: {rpm: 1000}}
"""


def key_of(stack: Stack, tenant: str) -> dict[str, str]:
    """A header with a fresh key of the tenant."""
    created = stack.run("keys", "create", "--name", "test", "--tenant", tenant, "--json")
    assert created.returncode == 0, created.stderr
    return {"Authorization": f"Bearer {json.loads(created.stdout)['key']}"}


def used(stack: Stack, tenant: str) -> dict[str, int]:
    shown = stack.run("usage", "--by", "tenant", "--since", "1h", "--tenant", tenant, "--json")
    assert shown.returncode == 0, shown.stderr
    rows = json.loads(shown.stdout)
    return rows[0] if rows else {}


def test_limits_of_a_running_gateway(start: Callable[..., Stack]) -> None:
    stack = start(more=TENANTS, listen="drain_seconds: 2")
    no_more_than_the_limit_over_all_workers(stack)
    a_killed_workers_leases_end_by_themselves(stack)
    the_store_goes_and_comes_back(stack)


def no_more_than_the_limit_over_all_workers(stack: Stack) -> None:
    key = key_of(stack, "minute")
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: ask(stack, chat(max_tokens=2), headers=key), range(100)))
    assert Counter(answer[0] for answer in answers) == {200: 40, 429: 60}
    refused = next(answer for answer in answers if answer[0] == 429)
    error = error_of(refused, 429)
    assert (error["type"], error["code"]) == ("rate_limit_exceeded", "requests_per_minute")
    assert "limit 40, used 40, requested 1" in error["message"]
    headers = refused[1]
    assert (headers["x-ratelimit-limit-requests"], headers["x-ratelimit-remaining-requests"]) == ("40", "0")
    assert 0 < int(headers["retry-after"]) <= 61
    assert int(headers["retry-after"]) - 1 < int(headers["retry-after-ms"]) / 1000 <= int(headers["retry-after"])
    row = used(stack, "minute")
    assert (row["requests"], row["rejected_requests"], row["output_tokens"]) == (40, 60, 80)


def a_killed_workers_leases_end_by_themselves(stack: Stack) -> None:
    key = key_of(stack, "pair")
    streams = [begun(stack, headers=key) for _ in range(2)]
    error = error_of(ask(stack, chat(max_tokens=1), headers=key), 429)
    assert error["code"] == "concurrent_requests"
    for pid in {stack.worker_of(stream.socket) for stream in streams}:
        os.kill(pid, signal.SIGKILL)

    def admitted() -> bool:
        try:
            return ask(stack, chat(max_tokens=1), headers=key)[0] == 200
        except OSError:
            return False

    eventually(admitted, "the dead workers' leases have ended")
    # Counted once, as what was reserved for each. The first dead worker's lease may have ended seconds before the
    # second's; then nobody asks for this tenant any more, and the next look at it is a lease's life and a half away.
    eventually(lambda: used(stack, "pair").get("requests", 0) == 3, "their use is in the ledger")


def the_store_goes_and_comes_back(stack: Stack) -> None:
    keys = {tenant: key_of(stack, tenant) for tenant in ("open", "closed")}

    def request(tenant: str) -> Answer:
        return ask(stack, chat(max_tokens=2), headers=keys[tenant])

    def everywhere(tenant: str, status: int) -> bool:
        # At once: without the store each waits as long as it is given.
        with ThreadPoolExecutor(8) as pool:
            return all(answer[0] == status for answer in pool.map(lambda _: request(tenant), range(8)))

    assert everywhere("open", 200)
    assert everywhere("closed", 200)
    (store,) = stack.stores
    os.kill(store, signal.SIGSTOP)
    try:
        eventually(lambda: everywhere("closed", 503), "without the store a tenant that is not fail_open gets 503")
        error = error_of(request("closed"), 503)
        assert error["code"] == "store_unavailable"
        assert everywhere("open", 200)
        assert ask(stack, method="GET", path="/readyz")[0] == 200
    finally:
        os.kill(store, signal.SIGCONT)
    eventually(lambda: everywhere("closed", 200), "it is served again")
    before = used(stack, "closed")["requests"]
    assert before >= 16
    eventually(lambda: used(stack, "open")["requests"] >= 16, "what was served meanwhile is in the ledger")
    assert MODEL in stack.run("usage", "--by", "tenant,model", "--since", "1d").stdout
