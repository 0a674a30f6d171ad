"""A gateway whose model scales, from real processes, and what its controller says."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gateway.scaling.status import ModelStatus, PoolStatus
from tests.e2e.stack import HANGS_SECONDS, Stack, eventually
from tests.e2e.test_admin import admin, up
from tests.ports import free_port

SHIPPED = Path(__file__).parents[2] / "deploy" / "scaling.yaml"
MODEL, AT_ZERO = "llama-3.1-8b", "mixtral-8x7b"


def shipped_config(models: dict[str, dict[str, Any]] | None = None, **fields: Any) -> str:
    """deploy/scaling.yaml with other ports; `models` replaces what `scaling` says of a model, by its name."""
    config: dict[str, Any] = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    config |= {"state": "./state", "store": {"url": "embedded", "timeout_seconds": 5}, **fields}
    for model in config["models"]:
        model["scaling"] = model["scaling"] | (models or {}).get(model["name"], {})
    port, admin_port = free_port(), free_port()
    config["listen"] = {"workers": 1, "grace_seconds": 0, "drain_seconds": 5, **config["listen"], "port": port}
    config["admin"] = {"port": admin_port}
    return yaml.safe_dump(config, sort_keys=False)


class ScaledSite:
    """A stack with pools that scale."""

    def __init__(self, folder: Path, text: str) -> None:
        # The stack reads its two ports in this order.
        found = re.findall(r"port: (\d+)", text)
        assert len(found) == 2, found
        self.stack = Stack(folder, text)

    def start(self) -> None:
        self.stack.start()
        eventually(lambda: up(self.stack), "the admin API is up")
        eventually(self._is_fresh, "a controller acts")

    def close(self) -> None:
        self.stack.close()

    def _is_fresh(self) -> bool:
        status, _, body = admin(self.stack, "GET", "/admin/scaling")
        return status == 200 and json.loads(body)["controller"] is not None

    def controllers(self) -> list[int]:
        """The controllers' processes."""
        return self.stack.pids("gateway.cli.main controller")

    def model(self, name: str = MODEL) -> ModelStatus:
        status, _, body = admin(self.stack, "GET", f"/admin/scaling?model={name}")
        assert status == 200, body
        (found,) = json.loads(body)["models"]
        return msgspec.convert(found, ModelStatus)

    def pool(self, name: str = MODEL) -> PoolStatus:
        (pool,) = self.model(name).pools
        return pool

    def replicas(self, name: str = MODEL) -> list[int]:
        """The processes of a model's replicas."""
        return self.stack.pids(f"replica --engine simulated --model {name}")

    def at_rest(self, replicas: int, name: str = MODEL) -> bool:
        """Whether so many replicas are wanted, serve, and exist, and none is on its way."""
        pool = self.pool(name)
        settled = not pool.starting and not pool.stopping
        return settled and pool.wanted == pool.ready == replicas == len(self.replicas(name))

    def wait_for(self, replicas: int, name: str = MODEL, seconds: float = HANGS_SECONDS) -> None:
        try:
            eventually(lambda: self.at_rest(replicas, name), f"{name} has {replicas} replicas", seconds)
        except AssertionError as error:
            error.add_note(f"{self.pool(name)}\n{self.replicas(name)}\n{self.stack.errors[-3000:]}")
            raise

    def set(self, replicas: int | None, name: str = MODEL) -> None:
        body = {"model": name, "pool": self.pool(name).name, "replicas": replicas}
        status, _, answer = admin(self.stack, "POST", "/admin/scaling/set", body)
        assert status == 200, answer
