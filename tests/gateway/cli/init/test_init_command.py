import json
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.init import init_report
from gateway.cli.main import main
from gateway.scan.providers import PROVIDERS
from tests.gateway.scan.labelled import Sample, samples


class Shell:
    """`penstock init` in this process, and `penstock check` of what it writes."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.app = folder / "app"
        self.app.mkdir()
        self.out = folder / "penstock.yaml"
        self._capsys = capsys

    def __call__(self, *arguments: str) -> dict[str, Any]:
        assert main(["init", str(self.app), "--out", str(self.out), "--force", "--json", *arguments]) == 0
        report: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        assert main(["check", "--config", str(self.out)]) == 0, self._capsys.readouterr().err
        self._capsys.readouterr()
        return report

    def fail(self, *arguments: str) -> str:
        assert main(["init", str(self.app), "--out", str(self.out), *arguments]) == 1
        return self._capsys.readouterr().err

    def write(self, name: str, text: str) -> None:
        path = self.app / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in (*(provider.key for provider in PROVIDERS.values()), "LLM_KEY"):
        monkeypatch.setenv(name, "x" * 20)
    return Shell(tmp_path, capsys)


@pytest.mark.parametrize("sample", [one for one in samples() if one.models], ids=lambda sample: sample.name)
def test_check_accepts_what_is_proposed(sample: Sample, shell: Shell) -> None:
    sample.write(shell.app)
    if sample.name == "diffusion-and-speech":
        assert "uses no model that the gateway could serve" in shell.fail()
        return
    report = shell("--gpu", "h100:8@2.5")
    named = {model["name"] for model in report["models"]} | {one["name"] for one in report["left_out"]}
    assert named == sample.models
    assert {model["name"] for model in report["models"] if model["sizing"] is None} <= sample.hosted
    for model in report["models"]:
        assert model["at"] and all(":" in at for at in model["at"])
    assert set().union(*report["tenants"].values()) == {model["name"] for model in report["models"]}


def test_the_report_is_a_table_with_files_and_lines(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.write("a.py", 'import openai\nopenai.chat.completions.create(model="gpt-4o")\n')
    assert main(["init", str(shell.app), "--out", str(shell.out)]) == 0
    said = capsys.readouterr()
    assert "a.py:2" in said.out and "gpt-4o" in said.out and "tenant app: gpt-4o" in said.out
    assert "was written" in said.err
    text = shell.out.read_text()
    assert "# Found in a.py:2." in text and "api_key: {env: OPENAI_API_KEY}" in text


def test_on_a_narrow_terminal_each_row_is_a_block(
    shell: Shell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.write("a.py", 'import openai\nopenai.chat.completions.create(model="gpt-4o")\n')
    monkeypatch.setattr(init_report, "_WIDTH", 40)
    assert main(["init", str(shell.app), "--out", str(shell.out)]) == 0
    said = capsys.readouterr().out
    assert "\nWhat  gpt-4o\nHow   chat.completions.create\nAt    a.py:2\n" in said
    assert "\nModel      gpt-4o\n" in said
    assert "┃" not in said


def test_the_shape_leaves_room_for_the_kv_cache(shell: Shell) -> None:
    shell.write("a.sh", "vllm serve meta-llama/Llama-3.1-70B-Instruct\n")
    (model,) = shell("--gpu", "h100:8", "--context", "8192", "--concurrency", "4")["models"]
    assert model["sizing"]["placed"]["tp"] == 4  # 131.5 GiB of weights, 10 GiB of KV
    assert model["sizing"]["kv_tokens"] >= 4 * 8192
    (model,) = shell("--gpu", "h100:8", "--context", "65536", "--concurrency", "16")["models"]
    assert model["sizing"]["placed"]["tp"] == 8
    assert "--max-model-len 65536" in model["command"] and model["context"] == 65536


def test_a_model_that_does_not_fit_is_said_with_the_shapes_that_would(shell: Shell) -> None:
    shell.write("a.sh", "vllm serve meta-llama/Llama-3.1-405B-Instruct\n")
    (model,) = shell("--gpu", "h100:8")["models"]
    assert model["sizing"]["placed"] is None
    would = {(one["gpu"], one["tp"], one["pp"]) for one in model["sizing"]["would_fit_on"]}
    assert ("h100", 8, 2) in would and ("h200", 8, 1) in would
    assert "Does not fit on the GPUs that were given. It would on: h100 tp8 pp2" in shell.out.read_text()
    assert "l4" not in {one[0] for one in would}


def test_what_is_unknown_is_said(shell: Shell) -> None:
    shell.write("a.sh", "vllm serve acme/assistant\nvllm serve acme/other-30b\n")
    known, unknown = sorted(shell()["models"], key=lambda one: -(one["sizing"]["weight_bytes"] or 0))
    assert unknown["sizing"]["weight_bytes"] is None and unknown["sizing"]["placed"] is None
    assert unknown["sizing"]["notes"][0].startswith("weights: unknown")
    assert known["sizing"]["kv_bytes_per_token"] is None
    assert any("KV cache: unknown" in note for note in known["sizing"]["notes"])


def test_a_model_in_the_folder_is_sized_by_its_files(shell: Shell) -> None:
    shell.write("run.sh", "vllm serve ./models/mine\n")
    config = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8}
    shell.write(
        "models/mine/config.json", json.dumps(config | {"max_position_embeddings": 4096, "num_key_value_heads": 2})
    )
    (shell.app / "models/mine/model.safetensors").write_bytes(b"x" * 5000)
    (model,) = shell()["models"]
    assert model["name"] == "mine" and model["context"] == 4096
    assert model["sizing"]["weight_bytes"] == 5000
    assert model["sizing"]["kv_bytes_per_token"] == 2 * 4 * 2 * 64 * 2


def test_each_application_is_a_tenant_of_the_models_that_it_uses(shell: Shell) -> None:
    shell.write("api/pyproject.toml", '[project]\nname = "orders api"\n')
    shell.write("api/a.py", 'import openai\nopenai.chat.completions.create(model="gpt-4o")\n')
    shell.write("web/package.json", '{"name": "@acme/web", "dependencies": {"openai": "4"}}')
    shell.write(
        "web/a.js", 'import OpenAI from "openai";\nnew OpenAI().chat.completions.create({ model: "gpt-4.1" });\n'
    )
    assert shell()["tenants"] == {"orders-api": ["gpt-4o"], "acme-web": ["gpt-4.1"]}


def test_what_cannot_be_done_is_said_in_a_line(shell: Shell, tmp_path: Path) -> None:
    assert (
        shell.fail()
        == f"penstock init: {shell.app} uses no model that the gateway could serve, so {shell.out} was not written\n"
    )
    assert not shell.out.exists()
    shell.out.write_text("mine")
    assert "exists; --force writes it anew" in shell.fail()
    assert shell.out.read_text() == "mine"
    shell.write("a.py", 'x(model="gpt-4o")')
    shell.out = tmp_path / "no" / "folder.yaml"
    assert "No such file or directory" in shell.fail()
    shell.app = tmp_path / "missing"
    assert "No such file or directory" in shell.fail()


@pytest.mark.parametrize("text", ["h100", "h100:0", "what:4", "h100:8@x", "h100:8:0x", "a b:3"])
def test_a_gpu_that_is_not_known_is_refused(text: str, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["init", str(shell.app), "--gpu", text])
    assert "--gpu" in capsys.readouterr().err


def test_what_is_to_be_pointed_at_the_gateway_and_names_of_one_network_are_told(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.write("a.py", 'from openai import OpenAI\n\nOpenAI().chat.completions.create(model="org/m-7b")\n')
    service = "{image: vllm/vllm-openai, command: --model org/m-7b}"
    shell.write("compose.yaml", f"services: {{vllm: {service}}}\n")
    assert main(["init", str(shell.app), "--out", str(shell.out)]) == 0
    said = capsys.readouterr().out
    assert "base URLs to point at the gateway: a.py:3 (none: OPENAI_BASE_URL gives OpenAI one)" in said
    assert "note: org/m-7b: vllm is a name of one network, such as Docker Compose's" in said
