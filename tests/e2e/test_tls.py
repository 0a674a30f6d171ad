"""Mutual TLS between processes: `penstock replica` and `penstock serve`, and files that are replaced under both."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.certificates import Authority
from tests.e2e.replica_processes import two_pools
from tests.e2e.stack import HANGS_SECONDS, MODEL, Stack, eventually
from tests.ports import free_port


class Tls:
    """A replica that shows a certificate and wants to see one, and a gateway in front of it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self.authority = Authority(folder)
        self.shown = self.authority.signed("replica")
        self.mine = self.authority.signed("gateway")
        self._address = f"127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None
        text = two_pools(free_port(), {"narrow": [f"grpcs://{self._address}"]}, workers=1)
        text = text.replace("]}", "], tls: {ca: authority.pem, certificate: gateway.pem, key: gateway.key}}")
        self.gateway = Stack(folder, text)
        stack.callback(self.stop_replica)
        stack.callback(self.gateway.close)

    def start_replica(self) -> None:
        command = [sys.executable, "-m", "gateway.cli.main", "replica", "--engine", "simulated", "--model", MODEL]
        command += ["--tp", "2", "--instant", "--listen", self._address]
        command += ["--tls-certificate", "replica.pem", "--tls-key", "replica.key", "--tls-client-ca", "authority.pem"]
        self._process = subprocess.Popen(command, cwd=self._folder, stderr=subprocess.DEVNULL)

    def stop_replica(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def answers(self) -> bool:
        """Whether a request is answered."""
        response = httpx.post(
            f"{self.gateway.base_url}/chat/completions",
            headers={"authorization": f"Bearer {self.gateway.key}"},
            json={"model": MODEL, "max_tokens": 3, "messages": [{"role": "user", "content": "Hello!"}]},
            timeout=HANGS_SECONDS,
        )
        return response.status_code == 200


@pytest.fixture
def tls() -> Iterator[Tls]:
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        yield Tls(Path(name), stack)


def test_processes_speak_mutual_tls_and_follow_their_files(tls: Tls) -> None:
    tls.start_replica()
    tls.gateway.start()
    assert tls.answers()
    # Everything is replaced, the authority too; the replica is started anew and the gateway is not.
    fresh = Authority(tls.authority.ca.parent, "fresh")
    tls.authority.ca.write_bytes(fresh.ca.read_bytes())
    tls.shown.replace_with(fresh.signed("next"))
    tls.mine.replace_with(fresh.signed("other"))
    tls.stop_replica()
    tls.start_replica()
    eventually(tls.answers, "the gateway is connected with the new certificates")


def test_files_that_cannot_be_used_end_the_start(tls: Tls) -> None:
    tls.mine.key.write_text("no key")
    tls.gateway.launch()
    assert tls.gateway.wait() == 1
    assert "models[0].pools[0].tls: " in tls.gateway.errors
    assert "gateway.key has no private key in PEM form" in tls.gateway.errors


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--tls-certificate", "c.pem"], "TLS needs both --tls-certificate and --tls-key"),
        (["--tls-client-ca", "c.pem"], "TLS needs both --tls-certificate and --tls-key"),
        (["--tls-certificate", "c.pem", "--tls-key", "k.pem"], "c.pem cannot be read: No such file or directory"),
    ],
)
def test_options_of_a_replica(options: list[str], problem: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gateway.cli.main", "replica", "--engine", "simulated", "--model", MODEL]
    done = subprocess.run(
        [*command, "--listen", "127.0.0.1:0", *options], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"penstock replica: {problem}" in done.stderr
    assert "Traceback" not in done.stderr
