import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.eject.chart import CHART
from gateway.eject.pools import EjectError
from tests.gateway.eject.ejecting import HOSTED, MODEL, SIMULATED, ejected, pool

SCHEMA = jsonschema.Draft7Validator(json.loads((CHART / "values.schema.json").read_text()))


def test_simulated_replicas_of_this_machine_become_a_pool_of_the_chart(tmp_path: Path) -> None:
    values = ejected(tmp_path, MODEL, listen={"port": 9000, "workers": 4, "grace_seconds": 7}).values
    assert values["pools"] == [
        {
            "name": "narrow",
            "model": "mixtral-8x7b",
            "engine": "simulated",
            "shape": {"tp": 2, "ep": 1, "pp": 1},
            "replicas": 3,
            "args": ["--max-sequence-tokens", "32768"],
        }
    ]
    assert "pools" not in values["config"]["models"][0]
    assert values["config"]["listen"] == {"grace_seconds": 7}
    assert values["gateway"]["workers"] == 4


def test_a_providers_pool_stays_and_its_key_comes_from_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    found = ejected(tmp_path, MODEL, HOSTED)
    assert found.values["config"]["models"][1]["pools"] == HOSTED["pools"]
    assert found.values["secrets"]["env"] == {"OPENAI_API_KEY": {"secret": "penstock-env", "key": "OPENAI_API_KEY"}}
    assert "sk-secret-value" not in repr(found)


def test_settings_of_simulated_replicas_become_arguments(tmp_path: Path) -> None:
    found = ejected(tmp_path, pool(simulated={"instant": True, "output_tokens": 5}, version="v2", role="both"))
    arguments = found.values["pools"][0]["args"]
    assert "--instant" in arguments and arguments[arguments.index("--output-tokens") + 1] == "5"
    assert found.values["pools"][0]["version"] == "v2"


def test_a_pool_that_a_launcher_scales_is_scaled_by_the_controller(tmp_path: Path) -> None:
    scaling = {"min": 1, "max": 4, "price_per_hour": 2.5, "spot_max": 2, "spot_price_per_hour": 1.0}
    found = ejected(tmp_path, pool(replicas="registered", launcher="local", scaling=scaling))
    (moved,) = found.values["pools"]
    assert moved["scaling"] == {
        "by": "penstock",
        "min": 1,
        "max": 4,
        "pricePerHour": 2.5,
        "startupSeconds": 120.0,
        "startTimeoutSeconds": 1800.0,
    }
    assert any("models[0].pools[0]" in note and "spot" in note for note in found.notes)


def test_an_engine_that_the_charts_image_lacks_needs_an_image(tmp_path: Path) -> None:
    registered = pool(engine="tensorrt_llm", replicas="registered")
    with pytest.raises(EjectError, match=r"models\[0\]\.pools\[0\].*--image tensorrt_llm=IMAGE"):
        ejected(tmp_path, registered)
    found = ejected(tmp_path, registered, images={"tensorrt_llm": "registry.example/trt:1"})
    assert found.values["pools"][0]["image"] == "registry.example/trt:1"
    assert found.values["pools"][0]["sharedMemory"] == "2Gi"
    assert any("--checkpoint" in note for note in found.notes)


def test_an_address_of_this_machine_is_refused_by_name(tmp_path: Path) -> None:
    for address in ("http://127.0.0.1:8000/v1", "http://localhost:8000/v1", "http://[::1]:8000/v1"):
        with pytest.raises(EjectError, match=r"models\[0\]\.pools\[0\]: no pod reaches http"):
            ejected(tmp_path, {"name": "m", "context": 10, "pools": [_vllm(address)]})
    with pytest.raises(EjectError, match="no pod reaches unix:/x"):
        ejected(tmp_path, pool(engine="tensorrt_llm", replicas=["unix:/x"]))


def test_a_server_with_an_image_moves_with_its_command(tmp_path: Path) -> None:
    model = {"name": "org/m", "context": 4096, "pools": [_vllm("http://127.0.0.1:8000/v1")]}
    found = ejected(tmp_path, model, images={"org/m/vllm": "vllm/vllm-openai:v0.11"})
    (moved,) = found.values["pools"]
    assert moved["args"] == [
        *("--model", "org/served", "--tensor-parallel-size", "4", "--max-model-len", "4096", "--port", "8000"),
    ]
    assert moved["config"] == {"upstream": {"model": "org/served", "health": "/health"}}
    other = ejected(tmp_path, model, images={"org/m/vllm": "example/other:1"})
    assert any("pools[].command" in note for note in other.notes)


def test_an_image_for_no_pool_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EjectError, match=r"--image nothing/here, openai: .*; it has mixtral-8x7b/narrow"):
        ejected(tmp_path, MODEL, images={"openai": "x", "nothing/here": "x"})


def test_what_the_chart_sets_is_left_out_and_files_are_mounted(tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text("word\n")
    (tmp_path / "tok").mkdir()
    found = ejected(
        tmp_path,
        MODEL | {"tokenizer": "./tok", "pools": [{**SIMULATED, "replicas": ["grpc://10.0.0.1:5000"]}]},
        safety={"input": ["words"], "filters": [{"name": "words", "terms": {"file": "terms.txt"}}]},
        store={"url": "rediss://me:password@store:6379/0"},
        state="here",
        admin={"port": 9999},
        files={"location": "uploads"},
    )
    config = found.values["config"]
    assert not {"state", "admin", "store"} & config.keys()
    assert config["models"][0]["tokenizer"] == "/models/tok"
    assert config["safety"]["filters"][0]["terms"] == {"file": "/etc/penstock-files/terms.txt"}
    assert config["files"] == {"location": "/var/lib/penstock/uploads"}
    assert [use.source.name for use in found.secret_files] == ["terms.txt"]
    assert [volume["name"] for volume in found.values["gateway"]["volumes"]] == ["models", "files"]
    assert found.values["store"] == {"kind": "external"}
    assert "password" not in repr(found.values)
    assert any(note.startswith("files.location") for note in found.notes)


def test_a_pool_that_is_in_a_cluster_stays(tmp_path: Path) -> None:
    there = {"replicas": {"kubernetes": {"service": "mine"}}}
    scaled = there | {"launcher": "kubernetes", "workload": {"deployment": "d"}, "scaling": {"min": 1, "max": 2}}
    for fields in (there, scaled):
        found = ejected(tmp_path, pool(**fields))
        assert found.values["pools"] == []
        assert found.values["config"]["models"][0]["pools"] == [SIMULATED | fields]


def test_two_files_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.txt").write_text("x\n")
    filters = [{"name": name, "terms": {"file": f"{name}/t.txt"}} for name in ("a", "b")]
    found = ejected(tmp_path, MODEL, safety={"input": ["a", "b"], "filters": filters})
    assert len({use.target for use in found.secret_files}) == 2


_POOLS = st.fixed_dictionaries(
    {
        "shape": st.sampled_from([{"tp": 1}, {"tp": 8, "ep": 2}, {"tp": 4, "pp": 2}, {}]),
        "replicas": st.one_of(
            st.integers(1, 9), st.just("registered"), st.just(["grpc://10.0.0.1:5000", "grpc://10.0.0.2:5000"])
        ),
        "channels": st.integers(1, 4),
        "version": st.sampled_from(["", "v1"]),
    }
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pools=st.lists(_POOLS, min_size=1, max_size=1), workers=st.one_of(st.just("auto"), st.integers(1, 8)))
def test_whatever_is_valid_gives_values_that_the_chart_takes(
    pools: list[dict[str, Any]], workers: object, tmp_path: Path
) -> None:
    named = [SIMULATED | fields | {"name": f"pool-{number}"} for number, fields in enumerate(pools)]
    found = ejected(tmp_path, MODEL | {"pools": named}, listen={"workers": workers})
    SCHEMA.validate(found.values)


def _vllm(address: str) -> dict[str, Any]:
    return {
        "name": "vllm",
        "engine": "openai",
        "shape": {"tp": 4},
        "replicas": [address],
        "upstream": {"model": "org/served", "health": "/health"},
    }


def test_names_of_one_network_and_users_of_images_are_told(tmp_path: Path) -> None:
    addresses = ["http://vllm:8000/v1", "http://vllm.example/v1", "http://10.0.0.1/v1"]
    server = _vllm("http://vllm:8000/v1") | {"replicas": addresses}
    found = ejected(tmp_path, {"name": "m", "context": 10, "pools": [server]})
    (note,) = found.notes
    assert note.startswith("models[0].pools[0].replicas[0]: vllm is a name of one network")
    found = ejected(
        tmp_path, {"name": "m", "context": 10, "pools": [server]}, images={"m/vllm": "vllm/vllm-openai:v0.11"}
    )
    (note,) = found.notes
    assert "vllm/vllm-openai:v0.11" in note and "podSecurityContext" in note
    SCHEMA.validate(
        found.values | {"pools": [found.values["pools"][0] | {"podSecurityContext": {"runAsNonRoot": False}}]}
    )
