import json
import re
from pathlib import Path

import pytest

from gateway.cli.configuration_docs import render
from gateway.cli.main import main
from gateway.config.settings import schema
from tests.valkeys import valkeys

ROOT = Path(__file__).parents[3]


def test_check_says_what_would_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--config", str(ROOT / "penstock.yaml")]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    assert lines[0] == f"{ROOT}/penstock.yaml is valid. penstock serve would run:"
    assert "listen   127.0.0.1:8080" in lines
    assert f"store    embedded Valkey, data in {ROOT}/.penstock" in lines
    assert "  tokenizer  mistral-tekken (bundled)" in lines
    assert "  POOL    SHAPE    ROLE  ENGINE     REPLICAS  GPUS         WHERE" in lines
    assert "  wide    tp8 ep2  both  simulated  1         8 simulated  started here" in lines
    assert "  narrow  tp2      both  simulated  4         8 simulated  started here" in lines
    assert "  3 pools, 7 replicas, 24 GPUs" in lines
    assert "  gold    4       30 %" in lines
    assert lines[-1].startswith("tenants  none in this file")


@pytest.mark.parametrize("mode", ["act", "advise"])
def test_check_says_what_is_launched(mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "deploy" / "scaling.yaml").read_text(encoding="utf-8")
    (tmp_path / "c.yaml").write_text(text.replace("scaling: {down_seconds", f"scaling: {{mode: {mode}, down_seconds"))
    assert main(["check", "--config", str(tmp_path / "c.yaml")]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    advice = "advice only, nothing is started or stopped; " if mode == "advise" else ""
    assert f"  scaling    {advice}99 % in time, budget 20 US dollars an hour\n" in said.out
    assert "  scaling    99 % in time, no budget\n" in said.out
    assert "  small  tp1    both  simulated  1 to 6    1 each simulated  launched: local\n" in said.out
    assert "  1 pool, 0 replicas, 0 GPUs, and those that are launched\n" in said.out


def test_the_page_names_values_as_they_are_written() -> None:
    page = render((ROOT / "penstock.yaml").read_text(encoding="utf-8"))
    assert "| `schemes` | list of `data`, `http`, `https` |" in page
    assert '| `version` | string | `""` |' in page
    assert "`s," not in page


def test_check_says_which_shapes_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    launched = "engine: simulated, replicas: registered, launcher: local"
    path.write_text(
        "launchers: {local: {gpus: [0, 1, 2, 3, 4, 5, 6, 7]}}\n"
        "models:\n"
        "- {name: m, tokenizer: mistral-tekken, context: 9, reshape: {mode: apply}, "
        f"pools: [{{name: host, {launched}, group_gpus: 4, scaling: {{min: 4, max: 4}}}}]}}\n"
        "- {name: n, tokenizer: mistral-tekken, context: 9, reshape: {relaunch: {narrow: tp1, wide: tp4}}, "
        f"pools: [{{name: tp1, {launched}, scaling: {{min: 0, max: 4}}}}, "
        f"{{name: tp4, {launched}, shape: {{tp: 4}}, scaling: {{min: 0, max: 1}}}}]}}\n"
    )
    assert main(["check", "--config", str(path)]) == 0
    said = capsys.readouterr().out
    assert "  shapes     changed where that is worth it; groups of 4 GPUs in host\n" in said
    relaunch = "replicas of tp1 and tp4 take each other's GPUs"
    assert f"  shapes     advice only, operators change them; {relaunch}\n" in said


def test_check_shows_addresses_and_hides_passwords(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "listen: {workers: 3}\nstore: {url: 'rediss://u:hunter2@db:6379/0'}\n"
        "models: [{name: m, tokenizer: mistral-tekken, context: 9, pools: [{name: far, shape: {tp: 2, pp: 2}, "
        "engine: simulated, replicas: ['grpc://h:1', 'unix:/r']}]}]\n"
    )
    assert main(["check", "--config", str(path)]) == 0
    said = capsys.readouterr().out
    assert "workers  3\n" in said
    assert "store    rediss://***@db:6379/0\n" in said
    assert "  far   tp2 pp2  both  simulated  2         8 simulated  grpc://h:1, unix:/r\n" in said


def test_check_tries_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    models = (
        "models: [{name: m, tokenizer: mistral-tekken, context: 9, "
        "pools: [{name: p, engine: simulated, replicas: 1}]}]\n"
    )
    path.write_text(f"{models}store: {{url: 'redis://:hunter2@127.0.0.1:1/0'}}\n")
    # The gateway may run elsewhere, and the store later.
    assert main(["check", "--config", str(path)]) == 0
    said = capsys.readouterr()
    assert "is valid" in said.out
    assert said.err == "\nwarning: the store cannot be used from here now: nobody listens at 127.0.0.1:1\n"
    with valkeys(tmp_path, 1, password="right") as (server,):
        path.write_text(f"{models}store: {{url: 'redis://:hunter2@127.0.0.1:{server.port}'}}\n")
        assert main(["check", "--config", str(path)]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err == (
            f"{path}: store.url: the store at redis://***@127.0.0.1:{server.port}: "
            "it refuses the password of the address\n"
        )
        path.write_text(f"{models}store: {{url: 'redis://:right@127.0.0.1:{server.port}'}}\n")
        assert main(["check", "--config", str(path)]) == 0
        assert capsys.readouterr().err == ""
    path.write_text(f"{models}store: {{url: {{env: NO_SUCH_THING}}}}\n")
    assert main(["check", "--config", str(path)]) == 1
    assert "store.url: the environment variable NO_SUCH_THING is not set" in capsys.readouterr().err


def test_check_shows_chains_adapters_and_upstreams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "models:\n"
        "- {name: a, context: 9, adapters: [{name: x}, {name: y}], fallbacks: {models: [b], order: cost}, "
        "pools: [{name: up, engine: openai, replicas: ['https://h/v1'], upstream: {lora: true}}]}\n"
        "- {name: b, tokenizer: mistral-tekken, context: 9, pools: [{name: p, engine: simulated, replicas: 1}]}\n"
    )
    assert main(["check", "--config", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  tokenizer  its upstreams have it" in lines
    assert "  fallbacks  b (order: cost)" in lines
    assert "  adapters   x, y" in lines
    assert "  up    tp1    both  openai  1         -     https://h/v1" in lines
    assert "  1 pool, 1 replica, 0 GPUs" in lines
    assert "  1 pool, 1 replica, 1 GPU" in lines


def test_check_shows_tiers_tenants_and_prices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "models: [{name: m, tokenizer: mistral-tekken, context: 9, price: {input: 0.6, output: 1}, "
        "pools: [{name: p, engine: simulated, replicas: 1}]}]\n"
        "tiers: [{name: paid, reserved: 0.25}, {name: free, weight: 0.5}]\n"
        "tenants: [{name: acme, tier: paid, limits: {rpm: 5, budget: {usd: 9.5}}}, {name: default}]\n"
        "admin: {enabled: false}\n"
    )
    assert main(["check", "--config", str(path)]) == 0
    said = capsys.readouterr().out
    assert "admin    off\n" in said
    assert "  price      0.6 input, 0.6 cached input, 1 output (US dollars per million tokens)\n" in said
    assert "  TIER  WEIGHT  RESERVED\n  paid  1       25 %\n  free  0.5     0 %\n" in said
    assert re.search(r"\n  acme +paid +\* +rpm 5, budget 9\.5 USD/month +\(default\)\n", said)
    assert re.search(r"\n  default +free +\* +none +\(default\)\n$", said)


def test_check_refuses_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    for text, problem in [
        ("models: []\n", "models: expected list of length >= 1, got []"),
        (
            "models: [{name: m, tokenizer: ./, context: 9, pools: [{name: p, engine: simulated, replicas: 1}]}]",
            f"models[0].tokenizer: {tmp_path}: no tokenizer.json, no tekken file and no tiktoken file in this folder",
        ),
    ]:
        path.write_text(text)
        assert main(["check", "--config", str(path)]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err == f"{path}: {problem}\n"


def test_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(schema()))


def test_the_documentation_is_generated_from_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == render((ROOT / "penstock.yaml").read_text(encoding="utf-8")), "run: make docs"
    assert main(["schema", "--markdown", "--example", str(ROOT / "penstock.yaml")]) == 0
    assert capsys.readouterr().out == page


def test_every_field_is_on_the_page() -> None:
    page = render("")
    for definition in schema()["$defs"].values():
        for field in definition.get("properties", {}):
            assert f"| `{field}` | " in page


def test_markdown_without_an_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--markdown", "--example", str(tmp_path / "none.yaml")]) == 1
    assert capsys.readouterr().err == f"{tmp_path}/none.yaml: cannot be read: No such file or directory\n"


def test_check_says_that_a_base_url_has_no_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    urls = "['https://a.example', 'https://b.example/', 'https://c.example/v1', 'http+dns://d.example:80']"
    path.write_text(f"models: [{{name: m, context: 9, pools: [{{name: p, engine: openai, replicas: {urls}}}]}}]")
    assert main(["check", "--config", str(path)]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("replicas")[2][:3] for line in said] == ["[0]", "[1]", "[3]"]
    assert all(line.startswith(f"warning: {path}: models[0].pools[0]") and "/v1" in line for line in said)


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        ("http://127.0.0.1:1/v1", "penstock epp would run:\n  listen   127.0.0.1:7000, health 127.0.0.1:9003"),
        ("http://a.example/v1", "penstock epp would refuse this file: models[0].pools[0].replicas[0]: "),
    ],
)
def test_check_says_what_the_picker_would_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replicas: str, said: str
) -> None:
    path = tmp_path / "c.yaml"
    pool = f"{{name: p, engine: openai, replicas: ['{replicas}']}}"
    path.write_text(f"epp: {{host: 127.0.0.1, port: 7000}}\nmodels: [{{name: m, context: 9, pools: [{pool}]}}]")
    assert main(["check", "--config", str(path)]) == 0
    assert said in capsys.readouterr().out


def test_check_says_which_versions_and_rollouts_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pools = [{"name": name, "engine": "simulated", "replicas": 1, "version": name} for name in ("v1", "v2")]
    model = {"name": "m", "tokenizer": "mistral-tekken", "context": 4096, "stable": "v2", "pools": pools}
    rollout = {"model": "m", "to": "v1", "plan": "blue_green"}
    file = tmp_path / "penstock.json"
    file.write_text(json.dumps({"store": {"url": "embedded"}, "models": [model], "rollouts": [rollout]}))
    assert main(["check", "--config", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  versions   v2 (stable), v1" in lines
    assert "  rollout    to v1 (blue-green), which starts when it is new here, and once only" in lines
