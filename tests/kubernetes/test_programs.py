"""What is pinned fits together."""

from pathlib import Path

import pytest

from tests.kubernetes.programs import KUBERNETES, folder

_MODULE = Path(__file__).parent / "modules" / "control-plane" / "go.mod"


def test_the_module_pins_the_version_that_the_programs_say() -> None:
    lines = [line.split() for line in _MODULE.read_text().splitlines()]
    assert ["k8s.io/kubernetes", KUBERNETES] in lines
    staged = {line[3] for line in lines if len(line) == 4 and line[1] == "=>"}
    assert staged == {KUBERNETES.replace("v1.", "v0.")}


def test_programs_lie_in_the_cache_of_their_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert folder() == Path("/somewhere/penstock-kubernetes") / KUBERNETES
