from pathlib import Path

import pytest

from loadtest.simulation.simulated_fleet import FleetError, read_fleet
from protos.types import Role, Shape
from replicas.engine_limits import CapacityPolicy
from replicas.timing import Batch

ROOT = Path(__file__).parents[3]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_fleet_file(tmp_path: Path) -> None:
    fleet = read_fleet(
        written(
            tmp_path,
            """
profile: llama-3.1-8b
pools:
  - {name: a, shape: {tp: 2}, replicas: 3}
  - {name: p, shape: {tp: 4, pp: 2}, role: prefill, kv_blocks: 500, max_num_tokens: 1024, max_batch_size: 16}
  - {name: d, role: decode, scheduler: max_utilization}
""",
        )
    )
    plain, prefill, decode = fleet.pools
    assert fleet.gpus == 3 * 2 + 8 + 1
    assert (prefill.role, prefill.value) == (Role.PREFILL, Shape(tp=4, pp=2))
    limits = fleet.limits(prefill)
    assert (limits.kv_blocks, limits.max_num_tokens, limits.max_batch_size) == (500, 1024, 16)
    assert fleet.limits(plain).kv_blocks > 10_000
    assert fleet.limits(decode).policy is CapacityPolicy.MAX_UTILIZATION


def test_a_fleet_of_other_gpus(tmp_path: Path) -> None:
    pools = "profile: llama-3.1-8b\npools: [{name: a}]"
    h100, l40s = read_fleet(written(tmp_path, pools)), read_fleet(written(tmp_path, f"gpu: l40s\n{pools}"))
    assert l40s.limits(l40s.pools[0]).kv_blocks < h100.limits(h100.pools[0]).kv_blocks
    step = Batch(decode=1, decode_context=100, outputs=1)
    assert l40s.timer(l40s.pools[0]).step_seconds(step) > 2 * h100.timer(h100.pools[0]).step_seconds(step)
    with pytest.raises(FleetError, match=r"gpu: no GPU a100; there are h100-sxm, h20, l40s"):
        read_fleet(written(tmp_path, f"gpu: a100\n{pools}"))


@pytest.mark.parametrize(("name", "gpus"), [("default", 24), ("disaggregated", 32), ("uniform-16", 32)])
def test_the_example_fleets(name: str, gpus: int) -> None:
    assert read_fleet(ROOT / "deploy" / "fleets" / f"{name}.yaml").gpus == gpus


def test_the_gateways_configuration_is_a_fleet() -> None:
    configured = read_fleet(ROOT / "penstock.yaml")
    assert configured == read_fleet(ROOT / "deploy" / "fleets" / "default.yaml")


def test_of_a_configuration_only_what_matters_is_read(tmp_path: Path) -> None:
    fleet = read_fleet(
        written(
            tmp_path,
            """
listen: {port: 1}
models:
  - name: our-own
    tokenizer: t
    context: 100
    pools:
      - {name: a, engine: simulated, channels: 2, replicas: ["grpc://a:1", "grpc://b:1"]}
      - {name: b, engine: simulated, simulated: {profile: llama-3.1-8b, speed: 9, scheduler: max_utilization}}
""",
        )
    )
    assert fleet.profile == "llama-3.1-8b"
    assert [(pool.replicas, pool.scheduler) for pool in fleet.pools] == [
        (2, "guaranteed_no_evict"),
        (1, "max_utilization"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "not a mapping"),
        ("pools: []", "pools: expected"),
        ("profile: x\npools: [{name: a}]", "profile: no profile x; there are"),
        ("pools: [{name: a, shape: {tq: 2}}]", r"pools\[0\].shape: object contains unknown field `tq`"),
        ("pools: [{name: a, replicas: 0}]", r"pools\[0\].replicas: expected `int` >= 1"),
        ("pools: [{name: a, shape: {tp: 2}}, {name: a, shape: {tp: 2}}]", r"pools\[1\].name: a is the name"),
        ("pools: [{name: a, shape: {tp: 2}, role: decode}]", r"pools\[0\].role: a decode pool needs a prefill pool"),
        ("pools: [{name: a, shape: {tp: 4, ep: 3}}]", r"pools\[0\]: ep=3 must divide"),
        ("pools: [{name: a, shape: {tp: 2}, max_num_tokens: 5}]", r"pools\[0\]: max_batch_size must be"),
        ("models: []", "models.*expected a model"),
        ("models: [{name: m, pools: [{shape: {tp: 2}}]}]", r"models\[0\].pools\[0\]: object missing .*`name`"),
        ("a: [", "while parsing"),
    ],
)
def test_an_error_names_the_file_and_the_place(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(FleetError, match=problem) as caught:
        read_fleet(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="nowhere"):
        read_fleet(tmp_path / "nowhere.yaml")
