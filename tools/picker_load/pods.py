"""The pods of an InferencePool, as an API server that knows nothing else tells of them."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

POOL: Final = "pool"
_LABELS: Final = {"app": "m"}
#: llm-d's.
_ROLE_LABEL: Final = "llm-d.ai/role"
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


class Pods:
    """Pods by their addresses, all of them ready, with the role of each; all listen on the same port."""

    def __init__(self, roles: Mapping[str, str], port: int) -> None:
        spec = {"selector": {"matchLabels": _LABELS}, "targetPorts": [{"number": port}]}
        pools = [{"metadata": {"name": POOL, "resourceVersion": "1"}, "spec": spec}]
        pods = [_pod(address, role) for address, role in roles.items()]
        self._lists = {"inferencepools": _list(pools), "pods": _list(pods)}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer lists, and keep watches open, of which none is ever told anything."""
        try:
            while True:
                line = (await reader.readuntil(b"\r\n\r\n")).partition(b" HTTP/")[0].decode()
                path, _, query = line.partition(" ")[2].partition("?")
                if "watch=" in query:
                    writer.write(_HEAD + b"transfer-encoding: chunked\r\n\r\n")
                    await reader.read()
                    return
                body = self._lists[path.rpartition("/")[2]]
                writer.write(_HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


def write_kubeconfig(path: Path, port: int) -> None:
    """Write the file by which a client finds it on this machine."""
    named = {"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}
    path.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [named],
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )


def _pod(address: str, role: str) -> dict[str, Any]:
    name = f"pod-{address.replace('.', '-')}"
    metadata = {"name": name, "uid": name, "resourceVersion": "1", "labels": {**_LABELS, _ROLE_LABEL: role}}
    ready = [{"type": "Ready", "status": "True"}]
    return {"metadata": metadata, "status": {"phase": "Running", "podIP": address, "conditions": ready}}


def _list(items: list[dict[str, Any]]) -> bytes:
    return json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()
