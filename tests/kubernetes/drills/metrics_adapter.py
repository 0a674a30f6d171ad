"""External metrics for HorizontalPodAutoscalers: what `/metrics` says, as Prometheus Adapter would give it."""

import base64
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.kubernetes.api import Object, wait_until
from tests.kubernetes.control_plane import ControlPlane

_GROUP = "external.metrics.k8s.io"
_PATH = re.compile(rf"/apis/{re.escape(_GROUP)}/v1beta1/namespaces/([^/]+)/([^/?]+)$")
_SAMPLE = re.compile(r"^(\w+){([^}]*)} ([0-9.e+-]+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')

#: Namespace -> the text of a scrape there.
Scrape = Callable[[str], str]


def values_of(text: str, metric: str, selector: str) -> list[Object]:
    """The samples of a metric whose labels a selector such as `model=m,pool=p` has."""
    wanted = dict(part.split("=", 1) for part in selector.replace("==", "=").split(",") if part)
    found = []
    for name, labels, value in _SAMPLE.findall(text):
        have = dict(_LABEL.findall(labels))
        if name == metric and wanted.items() <= have.items():
            found.append({"metricName": metric, "metricLabels": have, "value": f"{float(value):.0f}"})
    return found


@contextmanager
def metrics_adapter(plane: ControlPlane, scrape: Scrape) -> Iterator[None]:
    """Serve the group `external.metrics.k8s.io` meanwhile, behind the API server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            if asked := _PATH.match(url.path):
                selector = parse_qs(url.query).get("labelSelector", [""])[0]
                said = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                items = [{**one, "timestamp": said} for one in values_of(scrape(asked[1]), asked[2], selector)]
                self._say({"kind": "ExternalMetricValueList", "apiVersion": f"{_GROUP}/v1beta1", "items": items})
            else:
                self._say({"kind": "APIResourceList", "groupVersion": f"{_GROUP}/v1beta1", "resources": []})

        def _say(self, answer: Object) -> None:
            body = json.dumps({"apiVersion": "v1", "metadata": {}} | answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Nothing: each sync of an autoscaler asks."""

    host = plane.network.control_plane
    name = "metrics-adapter"
    signed = plane.authority.signed(name, hosts=(f"{name}.kube-system.svc",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.certificate, signed.key)
    with ThreadingHTTPServer((host, 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        made = _objects(plane, name, host, server.server_address[1])
        try:
            for one in made:
                plane.api.apply(one)
            path = f"/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.{_GROUP}"
            wait_until(lambda: _available(plane.api.get(path)), 60, "the metrics adapter is asked")
            yield
        finally:
            plane.api.delete(f"/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.{_GROUP}")
            server.shutdown()
            thread.join()


def _available(one: Object) -> bool:
    conditions = one.get("status", {}).get("conditions", [])
    return any(said["type"] == "Available" and said["status"] == "True" for said in conditions)


def _objects(plane: ControlPlane, name: str, host: str, port: int) -> list[Object]:
    """A Service without a selector, its one endpoint, and what says that the group is served there."""
    meta = {"name": name, "namespace": "kube-system"}
    ports = [{"name": "https", "port": 443, "protocol": "TCP"}]
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": ports}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**meta, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1beta1.{_GROUP}"},
            "spec": {
                "group": _GROUP,
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {**meta, "port": 443},
                "caBundle": _bundle(plane),
            },
        },
    ]


def _bundle(plane: ControlPlane) -> str:
    return base64.b64encode(plane.authority.ca.read_bytes()).decode()
