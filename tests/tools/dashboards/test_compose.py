"""deploy/compose.yaml and what it mounts. No Docker is needed, so none of it is started here."""

import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config.load import load_config

DEPLOY = Path(__file__).parents[3] / "deploy"
PROMTOOL = shutil.which("promtool")
#: Their images have no program that could ask; Prometheus scrapes both.
WITHOUT_HEALTH_CHECK = {"tempo", "collector"}


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


COMPOSE = read("compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def test_everything_is_there() -> None:
    assert set(SERVICES) == {"penstock", "store", "prometheus", "grafana", "tempo", "collector"}
    for name, service in SERVICES.items():
        assert ("healthcheck" in service) != (name in WITHOUT_HEALTH_CHECK), name
        assert set(service.get("depends_on", {})) <= set(SERVICES)


def test_images_are_pinned_and_of_the_default_registry() -> None:
    for name, service in SERVICES.items():
        if "build" in service:
            continue
        image, _, tag = service["image"].rpartition(":")
        assert re.fullmatch(r"v?\d+\.\d+\.\d+(-alpine)?", tag), name
        assert image.count("/") == 1, name
        assert "." not in image.split("/")[0], name


def test_what_is_mounted_is_there() -> None:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), (name, source)
                assert volume.endswith(":ro"), (name, source)
            else:
                assert source in COMPOSE["volumes"], (name, source)
    dockerfile = DEPLOY.parent / SERVICES["penstock"]["build"]["dockerfile"]
    copied = {line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[0] == "!"}
    assert dockerfile.exists()
    assert all((DEPLOY.parent / name).exists() for name in copied)


def test_ports_are_for_this_machine_alone() -> None:
    assert all(port.startswith("127.0.0.1:") for service in SERVICES.values() for port in service.get("ports", ()))


def test_no_secret_is_in_a_file() -> None:
    declared = set(COMPOSE["secrets"])
    used = {secret for service in SERVICES.values() for secret in service.get("secrets", ())}
    assert used == declared
    assert all(str(secret["file"]).startswith("./secrets/") for secret in COMPOSE["secrets"].values())
    ignored = (DEPLOY / "secrets" / ".gitignore").read_text().split()
    assert ignored == ["*", "!.gitignore"]
    text = "".join(path.read_text() for path in DEPLOY.rglob("*") if path.is_file() and path.parent.name != "secrets")
    assert not re.search(r"sk-penstock-admin-\w", text)
    assert not re.search(r"(?i)(password|secret|token)[\"']?: *[\"']?[\w-]{8,}$", text)


def test_the_script_makes_secrets_once(tmp_path: Path) -> None:
    script = tmp_path / "secrets.sh"
    shutil.copy(DEPLOY / "secrets.sh", script)
    folder = tmp_path / "secrets"
    folder.mkdir()
    for _ in range(2):
        subprocess.run(["sh", str(script)], check=True, timeout=20)
        made = {path.name: path.read_text() for path in folder.iterdir()}
        assert set(made) == {"admin.key", "scrape.key", "grafana.password"}
        assert re.fullmatch(r"sk-penstock-admin-[0-9a-f]{64}\n", made["admin.key"])
        assert re.fullmatch(r"sk-penstock-scrape-[0-9a-f]{64}\n", made["scrape.key"])
        assert re.fullmatch(r"[0-9a-f]{64}\n", made["grafana.password"])
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "grafana.password").write_text("0" * 64 + "\n")
    subprocess.run(["sh", str(script)], check=True, timeout=20)
    assert (folder / "admin.key").read_text() == made["admin.key"]
    assert (folder / "grafana.password").read_text() == "0" * 64 + "\n"


def test_the_gateways_configuration_is_valid() -> None:
    config = load_config(DEPLOY / "penstock.yaml")
    traces = config.observability.traces
    assert traces.enabled
    host, _, port = traces.endpoint.removeprefix("http://").partition(":")
    collector = read("observability/collector/collector.yaml")
    assert host in SERVICES
    assert collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"].endswith(f":{port}")
    assert config.store.url == "redis://store:6379/0"


def test_spans_find_their_way() -> None:
    collector, tempo = read("observability/collector/collector.yaml"), read("observability/tempo/tempo.yaml")
    for name, pipeline in collector["service"]["pipelines"].items():
        for part in ("receivers", "processors", "exporters"):
            assert set(pipeline[part]) <= set(collector[part]), name
    host, _, port = collector["exporters"]["otlp"]["endpoint"].partition(":")
    assert host in SERVICES
    assert tempo["distributor"]["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"].endswith(f":{port}")
    sources = read("observability/grafana/provisioning/datasources/datasources.yaml")["datasources"]
    assert {source["url"] for source in sources} == {
        "http://prometheus:9090",
        f"http://tempo:{tempo['server']['http_listen_port']}",
    }
    assert [source["type"] for source in sources if source.get("isDefault")] == ["prometheus"]


def test_grafana_finds_the_dashboards() -> None:
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    provider = read("observability/grafana/provisioning/dashboards/dashboards.yaml")["providers"][0]
    assert mounts["./observability/grafana/dashboards"] == provider["options"]["path"]
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == provider["options"]["path"]
    assert (DEPLOY / "observability/grafana/dashboards" / home.name).exists()


def test_prometheus_scrapes_each_as_it_is() -> None:
    found = {job["job_name"]: job for job in read("observability/prometheus/prometheus.yaml")["scrape_configs"]}
    assert found["penstock"]["authorization"]["credentials_file"] == "/run/secrets/scrape_key"
    targets = [config["static_configs"][0]["targets"][0] for config in found.values()]
    assert {target.split(":")[0] for target in targets} == {"penstock", "localhost", "tempo", "collector"}
    assert load_config(DEPLOY / "penstock.yaml").admin.port == int(targets[0].split(":")[1])


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    folder = DEPLOY / "observability" / "prometheus"
    key = tmp_path / "key"
    key.write_text("key")
    text = (folder / "prometheus.yaml").read_text()
    placed = text.replace("/etc/prometheus", str(folder)).replace("/run/secrets/scrape_key", str(key))
    (tmp_path / "prometheus.yaml").write_text(placed)
    command = [PROMTOOL, "check", "config", str(tmp_path / "prometheus.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rule files found" in done.stdout
