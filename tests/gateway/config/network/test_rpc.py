"""The sections of the gateway's own gRPC servers."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.network.rpc import unusable_rpc_files
from gateway.config.settings import Config
from tests.certificates import Authority

MODEL = {"name": "m", "context": 9, "pools": [{"name": "p", "engine": "openai", "replicas": ["http://127.0.0.1:1/v1"]}]}


def loaded(folder: Path, **sections: Any) -> Config:
    path = folder / "penstock.yaml"
    path.write_text(yaml.safe_dump({"models": [MODEL], **sections}))
    return load_config(path)


def test_files_are_relative_to_the_configuration_and_hosts_have_no_brackets(tmp_path: Path) -> None:
    tls = {"certificate": "a.pem", "key": "b.pem", "client_ca": "c.pem"}
    config = loaded(tmp_path, epp={"host": "[::1]", "tls": tls}, external_scaler={"host": "[::]", "tls": tls})
    assert config.epp.host == "::1"
    assert config.external_scaler is not None
    assert config.external_scaler.host == "::"
    for listen in (config.epp, config.external_scaler):
        assert listen.tls is not None
        assert listen.tls.certificate == str(tmp_path / "a.pem")
        assert listen.tls.client_ca == str(tmp_path / "c.pem")


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"epp": {"health_port": 9002}}, "epp.health_port: epp.port has that port already"),
        ({"epp": {"metrics_port": 9003}}, "epp.metrics_port: epp.health_port has that port already"),
        ({"epp": {"host": "unix:/x"}}, "epp.host: "),
        ({"external_scaler": {"host": "a b"}}, "external_scaler.host: "),
        ({"external_scaler": {"port": 0}}, "external_scaler.port: "),
        ({"epp": {"tls": {"certificate": "a.pem"}}}, "epp.tls"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(tmp_path: Path, sections: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, **sections)
    assert said in str(caught.value)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    signed = Authority(tmp_path).signed()
    tls = {"certificate": str(signed.certificate), "key": str(signed.key)}
    assert list(unusable_rpc_files(loaded(tmp_path, epp={"tls": tls}).epp, "epp")) == []
    tls |= {"key": "missing.pem", "client_ca": "missing.pem"}
    found = dict(unusable_rpc_files(loaded(tmp_path, epp={"tls": tls}).epp, "epp"))
    assert found.keys() == {"epp.tls", "epp.tls.client_ca"}
