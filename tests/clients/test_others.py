"""Clients that do not run here: each program has an interpreter of its own, which `make test-clients` brings."""

import os
from pathlib import Path

import pytest

from tests.clients.node_packages import NODE, needs_node
from tests.clients.outside import ENVIRONMENT, run
from tests.e2e.stack import Stack

PROGRAMS = Path(__file__).with_name("programs")


@pytest.mark.parametrize("program", sorted(path.name for path in PROGRAMS.glob("*.py")))
def test_python(site: Stack, program: str) -> None:
    if ENVIRONMENT not in os.environ:
        pytest.skip(f"{ENVIRONMENT} names no environment with clients; `make test-clients` makes one")
    run(site, Path(os.environ[ENVIRONMENT]) / "bin" / "python", PROGRAMS / program)


@pytest.mark.parametrize("program", sorted(path.name for path in NODE.glob("*.test.mjs")))
def test_node(site: Stack, program: str) -> None:
    run(site, needs_node(), "--test", program, folder=NODE)
