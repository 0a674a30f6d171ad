"""`penstock replica --group`: what is wrong with its options is told by the option's name."""

from typing import Any

import pytest

from gateway.cli.main import main
from protos.reshape import Span
from replicas.cli.group_options import group_of
from replicas.engines.reshapable_engine import ReshapableEngine
from replicas.engines.simulated import SimulatedEngine
from replicas.engines.simulated_start import SimulatedStart
from replicas.model import ReplicaModel
from tests.ports import free_port

BASE = ["replica", "--engine", "simulated", "--model", "mixtral-8x7b"]
WHOLE = ["--group", "h", "--group-gpus", "4", "--gpu", "0"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--group-gpus", "4"], "--group-gpus goes with --group"),
        (["--gpu", "0"], "--gpu goes with --group"),
        (["--group", "h", "--gpu", "0"], "--group goes with --group-gpus"),
        (["--group", "h", "--group-gpus", "4"], "--group goes with --gpu"),
        (["--group", "", "--group-gpus", "4", "--gpu", "0"], "--group is empty"),
        (["--group", "h", "--group-gpus", "3", "--gpu", "0"], "--group-gpus is a power of two, not 3"),
        (["--group", "h", "--group-gpus", "4", "--gpu", "4"], "--gpu is a multiple of --tp 1 below --group-gpus 4"),
        ([*WHOLE, "--tp", "8"], "--tp in a group is a power of two of at most --group-gpus 4, not 8"),
        ([*WHOLE, "--tp", "3"], "--tp in a group is a power of two"),
        ([*WHOLE[:4], "--gpu", "1", "--tp", "2"], "--gpu is a multiple of --tp 2"),
        ([*WHOLE, "--tp", "2", "--ep", "2"], "not with --ep 2"),
        ([*WHOLE, "--pp", "2"], "not with --pp 2"),
        ([*WHOLE, "--port", "2"], "--group is for one replica: give --listen once"),
        ([*WHOLE, "--tls-certificate", "c", "--tls-key", "k"], "goes with --tls-client-ca"),
    ],
)
def test_a_wrong_group_is_refused_by_the_name_of_its_option(
    line: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert main([*BASE, "--port", str(free_port()), *line]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("line", [["--gpu", "x"], ["--gpu", "-1"], ["--group-gpus", "0"]])
def test_numbers_are_checked(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*BASE, "--port", "1", *line])
    assert line[0] in capsys.readouterr().err


def test_a_launched_replica_takes_the_first_gpu_that_it_was_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6")
    assert main([*BASE, "--port", "1", "--group", "h", "--group-gpus", "4"]) == 2
    assert "--gpu is a multiple of --tp 1 below --group-gpus 4, not 5" in capsys.readouterr().err


def engine_and_group(line: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """What a command line would serve."""
    found: list[tuple[Any, Any]] = []

    def serve(arguments: Any, engines: list[tuple[str, Any]], *_: object) -> int:
        found.append((engines[0][1], group_of(arguments, engines[0][1])))
        return 0

    monkeypatch.setattr("replicas.cli.replica_command._serve", serve)
    assert main([*BASE, "--port", str(free_port()), *line]) == 0
    return found[0]


def test_a_replica_in_no_group_has_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, group = engine_and_group([], monkeypatch)
    assert type(engine) is SimulatedEngine
    assert type(engine._model) is ReplicaModel
    assert group is None


def test_an_engine_whose_start_takes_time_can_change_its_shape_too(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, group = engine_and_group([*WHOLE[:4], "--gpu", "2", "--tp", "2", "--simulate-start", "none"], monkeypatch)
    assert isinstance(engine, SimulatedStart)
    assert isinstance(group.engine, ReshapableEngine)
    assert (group.group, group.gpus, group.span) == ("h", 4, Span(2, 2))
    assert [one.width for one in group.engine.widths] == [2, 4]
    group.engine.reset(4)
    assert engine.info.shape.tp == 4
