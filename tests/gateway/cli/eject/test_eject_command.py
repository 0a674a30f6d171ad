"""`penstock eject`, with the real chart and Helm where it is here."""

from pathlib import Path

import pytest
import yaml

from gateway.cli.main import main
from gateway.config.load import load_config
from tests.deploy.chart import definitions, helm
from tests.deploy.manifests import problems, read

ROOT = Path(__file__).parents[4]
CONFIGS = ("penstock.yaml", "deploy/penstock.yaml", "deploy/scaling.yaml")


def eject(config: Path | str, to: Path, *more: str) -> int:
    return main(["eject", "--config", str(ROOT / config), "--to", str(to), *more])


def test_values_come_with_the_chart_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert eject("penstock.yaml", tmp_path / "out") == 0
    assert yaml.safe_load((tmp_path / "out/values.yaml").read_text())["fullnameOverride"] == "penstock"
    assert (tmp_path / "out/chart/Chart.yaml").is_file()
    assert (tmp_path / "out/chart/files/rules/alerts.yaml").is_file()
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))
    page = (tmp_path / "out/README.md").read_text()
    assert "helm install penstock chart --namespace penstock --values values.yaml" in page
    assert "create secret generic penstock " in page
    assert "image.repository" in page and "httpRoute" in page and "penstock keys create" in page


@pytest.mark.parametrize("config", CONFIGS)
def test_manifests_are_what_kubernetes_takes(config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PENSTOCK_STORE_PASSWORD", "PENSTOCK_SCRAPE_KEY"):
        monkeypatch.setenv(name, "x" * 32)
    assert eject(config, tmp_path / "out", "--form", "manifests", "--helm", str(helm())) == 0
    files = sorted((tmp_path / "out/manifests").iterdir())
    made = [one for file in files for one in read(file.read_text())]
    assert [problem for one in made for problem in problems(one, definitions())] == []
    assert all(one["metadata"].get("namespace", "penstock") == "penstock" for one in made)
    assert "managed-by: Helm" not in "".join(file.read_text() for file in files)
    (text,) = (one["data"]["penstock.yaml"] for one in made if one["kind"] == "ConfigMap")
    (tmp_path / "made.yaml").write_text(text)
    written = load_config(tmp_path / "made.yaml")
    assert written.model_names == load_config(ROOT / config).model_names
    assert all(pool.service is not None for model in written.models for pool in model.pools)


def test_what_cannot_be_done_is_said_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").write_text("")
    assert eject("penstock.yaml", full) == 1
    assert capsys.readouterr().err == f"penstock eject: {full} is not empty\n"
    assert eject("penstock.yaml", tmp_path / "m", "--form", "manifests", "--helm", "no-such-helm") == 1
    assert "no-such-helm is no program that can be run here; --form values needs none" in capsys.readouterr().err
    assert eject(tmp_path / "missing.yaml", tmp_path / "n") == 1
    assert "missing.yaml: cannot be read" in capsys.readouterr().err
    assert eject("penstock.yaml", tmp_path / "n", "--image", "x/y=image") == 1
    assert "--image x/y: there is no pool" in capsys.readouterr().err
    for bad in (["--image", "no-equals"], ["--name", "Not_a_name"]):
        with pytest.raises(SystemExit):
            eject("penstock.yaml", tmp_path / "n", *bad)
    assert not (tmp_path / "n").exists()


def test_a_value_that_the_chart_refuses_is_told_as_helm_tells_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        "models: [{name: m, tokenizer: mistral-tekken, context: 100, pools: [{name: p, engine: tensorrt_llm, "
        "shape: {tp: 8, pp: 2}, replicas: registered}]}]"
    )
    arguments = ("--form", "manifests", "--helm", str(helm()), "--image", "tensorrt_llm=example/trt:1")
    assert eject(config, tmp_path / "out", *arguments) == 1
    assert "pools[0].workers.command: required" in capsys.readouterr().err
