"""Node and the packages that `make test-clients` has put into the folder `node`."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.outside import ENVIRONMENT

NODE = Path(__file__).with_name("node")
OLDEST_NODE = 20


def needs_node() -> str:
    """Give the path of Node, or skip the test."""
    node = shutil.which("node")
    if ENVIRONMENT not in os.environ:
        pytest.skip("packages of Node are brought by `make test-clients`")
    if node is None or not (NODE / "node_modules" / ".installed").exists():
        pytest.skip("needs Node, and npm to bring its packages")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < OLDEST_NODE:
        pytest.skip(f"needs Node {OLDEST_NODE} or newer, and this is {version}")
    return node


def needs_command(name: str) -> Path:
    """Give the path of a command of a package, as in `.bin/tsx`, or skip the test."""
    needs_node()
    path = NODE / "node_modules" / name
    if not path.exists():
        pytest.skip(f"npm has brought no {path.name} for this machine")
    return path
