"""Nothing that takes long is built on the event loop: a worker's first request to each endpoint holds it shortly."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from starlette.routing import compile_path

from gateway.server.app import ROUTES
from tests.gateway.server.first_requests import Held
from tests.loops import BOUND_SECONDS

#: Milliseconds of the loop thread's own CPU. What is built takes over 10, mostly 50 to 5,000; a callback that builds
#: nothing takes 0.1 to 6, and twice that on a machine whose caches are busy with other work.
LONGEST_MS = 25.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("first-requests")


@pytest.mark.parametrize("rules", ["filtered", "unfiltered"])
def test_no_first_request_holds_the_loop(store_url: str, folder: Path, rules: str) -> None:
    command = [sys.executable, "-m", "tests.gateway.server.first_requests", store_url, str(folder), rules]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * BOUND_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    held = msgspec.json.decode(done.stdout, type=list[Held])
    assert [one for one in held if one.longest_ms > LONGEST_MS] == []
    assert [one for one in held if one.status >= 500] == []
    asked = [one.request.split(" ")[:2] for one in held]
    for route in ROUTES:
        pattern, _, _ = compile_path(route.path)
        assert any(route.method in (method, "*") and pattern.match(path) for method, path in asked), route.path
