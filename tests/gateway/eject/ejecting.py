"""Configurations that tests eject."""

from pathlib import Path
from typing import Any

import msgspec

from gateway.config.load import load_config
from gateway.eject.files import file_uses
from gateway.eject.values import Ejected, EjectOptions, eject

SIMULATED: dict[str, Any] = {"name": "narrow", "shape": {"tp": 2}, "engine": "simulated", "replicas": 3}
MODEL: dict[str, Any] = {"name": "mixtral-8x7b", "tokenizer": "mistral-tekken", "context": 32768, "pools": [SIMULATED]}
HOSTED: dict[str, Any] = {
    "name": "gpt-4o",
    "context": 128000,
    "pools": [
        {
            "name": "openai",
            "engine": "openai",
            "replicas": ["https://api.openai.com/v1"],
            "upstream": {"api_key": {"env": "OPENAI_API_KEY"}},
        }
    ],
}


def pool(**fields: Any) -> dict[str, Any]:
    """A model with one pool, which is a simulated one but for these fields."""
    return MODEL | {"pools": [SIMULATED | fields]}


def ejected(folder: Path, *models: dict[str, Any], images: dict[str, str] | None = None, **more: Any) -> Ejected:
    """Eject a configuration of these models."""
    path = folder / "penstock.yaml"
    raw = {"models": list(models), **more}
    path.write_bytes(msgspec.yaml.encode(raw))
    config = load_config(path)
    uses = file_uses(raw, msgspec.to_builtins(config), path.resolve().parent)
    return eject(config, raw, uses, EjectOptions(images=images or {}))
