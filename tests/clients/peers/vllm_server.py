"""A plugin of pytest that gives vLLM's remote tests a gateway in place of a server of their own; see docs/clients.md.

usage, with the root of vLLM's sources on PYTHONPATH and as working directory: ROOT=http://... KEY=sk-... \
    pytest -p vllm_server tests/entrypoints/openai/...
"""

# mypy: ignore-errors
import importlib.util
import os
import urllib.parse

import httpx
import huggingface_hub
import requests

ROOT, KEY = os.environ["ROOT"], os.environ["KEY"]
SERVED = {"server", "client", "remote_server", "unified_client", "base_url", "default_server", "async_client"}


def with_key(url: object, headers: object) -> dict[str, str]:
    """Some tests send requests without a client, and so without a key."""
    found = dict(headers or {})
    if str(url).startswith(ROOT) and not {"authorization", "x-api-key"} & {name.lower() for name in found}:
        found["Authorization"] = f"Bearer {KEY}"
    return found


def patch_requests() -> None:
    send = requests.Session.request
    requests.Session.request = lambda self, method, url, **more: send(
        self, method, url, **more | {"headers": with_key(url, more.get("headers"))}
    )
    for kind in (httpx.Client, httpx.AsyncClient):
        build = kind.build_request

        def build_request(self, method, url, build=build, **more):
            request = build(self, method, url, **more)
            request.headers.update(with_key(request.url, request.headers))
            return request

        kind.build_request = build_request


def patch_downloads() -> None:
    """Adapters that the tests would download are aliases here; the package gpt_oss is asked for and not used."""
    bring = huggingface_hub.HfApi.snapshot_download

    def snapshot_download(self, repo_id, *names, **more):
        try:
            return bring(self, repo_id, *names, **more)
        except OSError:
            return "/nonexistent"

    huggingface_hub.HfApi.snapshot_download = snapshot_download
    find = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *more: object() if name == "gpt_oss" else find(name, *more)


patch_requests()
patch_downloads()
import tests.utils as theirs  # noqa: E402


class Server(theirs.RemoteVLLMServer):
    DUMMY_API_KEY = KEY

    def __init__(self, model, vllm_serve_args=(), **more) -> None:
        place = urllib.parse.urlsplit(ROOT)
        self.uds, self.host, self.port = None, place.hostname, place.port
        self.model, self.vllm_serve_args = model, vllm_serve_args

    def __enter__(self):
        return self

    def __exit__(self, *raised) -> None:
        pass


theirs.RemoteOpenAIServer = Server


def pytest_collection_modifyitems(config, items) -> None:
    """Leave out what needs no server: those are unit tests of vLLM."""
    config.hook.pytest_deselected(items=[item for item in items if not SERVED & set(item.fixturenames)])
    items[:] = [item for item in items if SERVED & set(item.fixturenames)]
