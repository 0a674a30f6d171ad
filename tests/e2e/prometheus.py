"""A real Prometheus for a test, in a folder of its own, and what its HTTP API says."""

import contextlib
import json
import math
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.e2e.stack import HANGS_SECONDS, eventually
from tests.ports import free_port
from tools.dashboards.alert import Alert
from tools.dashboards.dashboard import Dashboard
from tools.dashboards.objectives import Objectives
from tools.dashboards.rules import alert_rules

BINARY = shutil.which("prometheus")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Prometheus:
    """One that scrapes one target, once a second, with a key."""

    def __init__(self, folder: Path, target: str, key_file: Path, rules: dict[str, str]) -> None:
        self._folder = folder
        self._port = free_port()
        folder.mkdir()
        for name, text in rules.items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "prometheus.yaml").write_text(
            f"""\
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [{", ".join(rules)}]
scrape_configs:
  - job_name: penstock
    authorization: {{credentials_file: {key_file}}}
    static_configs: [{{targets: ["{target}"]}}]
""",
            encoding="utf-8",
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8")

    def start(self) -> None:
        assert BINARY is not None
        command = [BINARY, "--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--log.level=warn"]
        command.append(f"--web.listen-address=127.0.0.1:{self._port}")
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=subprocess.STDOUT)
        eventually(self._ready, "Prometheus is ready")

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(HANGS_SECONDS)

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        try:
            return bool(_DIRECT.open(f"http://127.0.0.1:{self._port}/-/ready", timeout=HANGS_SECONDS).status == 200)
        except OSError:
            return False

    def numbers(self, expr: str, *, instant: bool) -> list[float]:
        """Every number that a query gives, now or over the last half minute; those that are none are left out."""
        now = time.time()
        if instant:
            found = self._post("query", query=expr, time=f"{now}")["result"]
            values = [one["value"] for one in found]
        else:
            found = self._post("query_range", query=expr, start=f"{now - 30}", end=f"{now}", step="1")["result"]
            values = [value for one in found for value in one["values"]]
        return [number for _, text in values if not math.isnan(number := float(text))]

    def _post(self, path: str, **parameters: str) -> Any:
        """The data of an answer, of a query that may be long."""
        url, data = f"http://127.0.0.1:{self._port}/api/v1/{path}", urllib.parse.urlencode(parameters).encode()
        try:
            with _DIRECT.open(url, data, HANGS_SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def values_of(self, label: str, selector: str) -> list[str]:
        """What a variable of a dashboard offers."""
        found: list[str] = self.get(f"label/{label}/values?{urllib.parse.urlencode({'match[]': selector})}")
        return found

    def offers(self, label: str, selector: str, wanted: set[str]) -> None:
        """Wait until a variable offers these: what a test asks first may not have been scraped yet."""
        eventually(lambda: set(self.values_of(label, selector)) == wanted, f"{selector} by {label} is {wanted}")

    def get(self, path: str) -> Any:
        """The data of an answer."""
        with _DIRECT.open(f"http://127.0.0.1:{self._port}/api/v1/{path}", timeout=HANGS_SECONDS) as answer:
            return json.load(answer)["data"]


@contextlib.contextmanager
def watched(page: Callable[[], bytes]) -> Iterator[Prometheus]:
    """One that scrapes this page, with the alerts' rules."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = page()
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="penstock-prom-") as name:
        key = Path(name) / "key"
        key.write_text("sk")
        rules = {"alerts.yaml": alert_rules(Objectives(), interval="1s")}
        watching = Prometheus(Path(name) / "prometheus", f"127.0.0.1:{server.server_port}", key, rules)
        try:
            watching.start()
            yield watching
        finally:
            watching.close()
            server.shutdown()
            server.server_close()


def all_have_data(
    prometheus: Prometheus, dashboard: Dashboard, put_in: Callable[[str], str], metric: str = "", without: str = "none"
) -> None:
    """Wait until each query of a dashboard's panels about a metric has data, or about any but one.

    `put_in` fills its variables in.
    """
    empty = {
        f"{panel.title}: {query.legend}": query
        for panel in dashboard.panels
        for query in panel.queries
        if metric in query.expr and without not in query.expr
    }
    assert empty

    def filled() -> bool:
        for name, query in list(empty.items()):
            if prometheus.numbers(put_in(query.expr), instant=query.instant):
                del empty[name]
        return not empty

    try:
        eventually(filled, "every panel has data")
    except AssertionError as error:
        error.add_note("\n".join(f"{name}: {query.expr}" for name, query in empty.items()))
        raise


def all_compare(prometheus: Prometheus, alerts: Iterable[Alert]) -> None:
    """Check that each alert has something to compare, and that every rule is evaluated."""
    for alert in alerts:
        for value in alert.condition.values:
            eventually(lambda value=value: bool(prometheus.numbers(value, instant=True)), f"{alert.name}: {value}")  # type: ignore[misc]

    def evaluated() -> bool:
        return {rule["health"] for group in prometheus.get("rules")["groups"] for rule in group["rules"]} == {"ok"}

    eventually(evaluated, "every rule is evaluated")
