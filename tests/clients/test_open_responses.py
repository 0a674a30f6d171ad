"""The compliance suite that Open Responses publishes, of one commit, fetched when it runs."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.node_packages import NODE, needs_command
from tests.clients.outside import run
from tests.clients.thinking_model import NAME
from tests.e2e.stack import Stack

SUITE = "https://github.com/openresponses/openresponses"
COMMIT = "92c12d96d7b61d6d15e2214daa5e9c6000ab6e1c"
#: Names a copy of that commit, for machines that cannot fetch it.
COPY = "OPENRESPONSES"
TESTS = (
    *("basic-response", "assistant-phase", "response-output-phase-schema", "streaming-response"),
    *("system-prompt", "tool-calling", "multi-turn"),
)


def fetch(folder: Path) -> Path:
    """Give a folder with the suite, or skip the test."""
    if COPY in os.environ:
        return Path(os.environ[COPY])
    git = ("git", "-C", str(folder))
    for command in (("init", "-q"), ("fetch", "-q", "--depth", "1", SUITE, COMMIT), ("checkout", "-q", COMMIT)):
        done = subprocess.run([*git, *command], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            pytest.skip(f"cannot fetch {SUITE} ({done.stderr.strip()}), and {COPY} names no copy")
    return folder


@pytest.mark.parametrize("model", ["gpt-4o", NAME])
def test_compliance(site: Stack, tmp_path: Path, model: str) -> None:
    tsx = needs_command(".bin/tsx")
    (tmp_path / "fetched").mkdir()
    fetched, suite = fetch(tmp_path / "fetched"), tmp_path / "suite"
    for name in ("bin", "src"):
        shutil.copytree(fetched / name, suite / name)
    # It wants the third major version of zod.
    (suite / "node_modules").mkdir()
    (suite / "node_modules" / "zod").symlink_to(NODE / "node_modules" / "zod-3")
    command = (tsx, suite / "bin" / "compliance-test.ts", "--json", "--filter", ",".join(TESTS))
    output = run(site, *command, "-u", site.base_url, "-k", site.key, "-m", model, folder=suite)
    results = {one["id"]: one for one in json.loads(output)["results"]}
    assert {name: one["status"] for name, one in results.items()} == dict.fromkeys(TESTS, "passed"), results
