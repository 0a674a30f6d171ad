"""Run programs that are not of this environment, and keep them from sending anything but to the gateway."""

import os
import subprocess
from pathlib import Path

from tests.e2e.stack import Stack

#: The environment variable that names what `make test-clients` has put together, and so says that it runs.
ENVIRONMENT = "PENSTOCK_CLIENTS"
#: Nothing listens there. What heeds proxies finds no way out; what does not is told by its own settings.
_NOWHERE = "http://127.0.0.1:9"
_SILENT = {
    "HTTP_PROXY": _NOWHERE,
    "HTTPS_PROXY": _NOWHERE,
    "NO_PROXY": "127.0.0.1,localhost",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_SHARE": "1",
}


def run(site: Stack, *command: str | Path, folder: Path | None = None, seconds: float = 120, **environment: str) -> str:
    """Run a program that finds the gateway in BASE_URL and API_KEY; gives what it printed. It must end well."""
    variables = os.environ | _SILENT | {"BASE_URL": site.base_url, "API_KEY": site.key} | environment
    # Of what comes with a virtual environment of ours, nothing is for others.
    variables.pop("PYTHONPATH", None)
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
