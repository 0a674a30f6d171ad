"""Pure: the chart's values for a configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from gateway.config.secret_variables import secret_variables
from gateway.config.settings import Config
from gateway.eject.files import MODELS, SECRET, STATE, FileUse, replaced
from gateway.eject.pools import EjectError, moved, stays, unreachable

#: Fields that the chart sets itself; docs/kubernetes.md says by which values.
_CHARTS: Final = (
    *(("state",), ("admin",), ("controller",), ("listen", "host"), ("listen", "port"), ("listen", "workers")),
    *(("listen", "tls"), ("store", "url"), ("store", "password"), ("launchers", "local"), ("launchers", "command")),
    ("kubernetes", "kubeconfig"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EjectOptions:
    """Options of the chart. `images` by `MODEL/POOL` or by engine; `models_claim`: a claim of a volume with models."""

    name: str = "penstock"
    images: Mapping[str, str] = field(default_factory=dict)
    models_claim: str = "models"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ejected:
    """Values, and what the chart cannot make: secrets by name with their keys, files of a Secret and of a volume."""

    values: dict[str, Any]
    #: Variables of the gateway's environment that its Secret has.
    variables: tuple[str, ...]
    secret_files: tuple[FileUse, ...]
    volume_files: tuple[FileUse, ...]
    external_store: bool
    tls: bool
    notes: tuple[str, ...]


def eject(config: Config, raw: Mapping[str, Any], uses: list[FileUse], options: EjectOptions) -> Ejected:
    """Make the values for a loaded configuration; `raw` is the file as it is written, `uses` its files.

    Raises:
        EjectError: A pool cannot run in the cluster as it is, or an image is named for no pool.
    """
    notes: list[str] = []
    uses = [use for use in uses if not _is_charts(use.field)]
    written = replaced(dict(raw), uses)
    assert isinstance(written, dict)
    plain = _without_charts(written)
    pools, images = _models(config, plain, options, notes)
    if unused := sorted(options.images.keys() - images):
        fitting = sorted({f"{model.name}/{pool.name}" for model in config.models for pool in model.pools})
        raise EjectError(
            f"--image {', '.join(unused)}: there is no pool of that name or engine that moves into the cluster; it has "
            f"{', '.join(fitting)}"
        )
    # Of simulated replicas' own files, none is left: what they answer is theirs.
    uses = [use for use in uses if "simulated" not in use.field]
    external = not config.store.embedded
    values: dict[str, Any] = {"fullnameOverride": options.name, "config": plain, "pools": pools}
    values["store"] = {"kind": "external" if external else "valkey"}
    without = msgspec.structs.replace(
        config, store=msgspec.structs.replace(config.store, url="embedded", password=None)
    )
    variables = tuple(sorted(secret_variables(msgspec.structs.replace(without, admin=type(config.admin)()))))
    values["secrets"] = {"name": options.name}
    if variables:
        values["secrets"]["env"] = {name: {"secret": f"{options.name}-env", "key": name} for name in variables}
    gateway: dict[str, Any] = {}
    if isinstance(config.listen.workers, int):
        gateway["workers"] = config.listen.workers
    secret_files = tuple(use for use in uses if use.target.startswith(SECRET))
    volume_files = tuple(use for use in uses if use.target.startswith(MODELS))
    _mount(gateway, options, bool(secret_files), bool(volume_files) or _has_models_path(config))
    if gateway:
        values["gateway"] = gateway
    tls = config.listen.tls is not None
    if tls:
        values["tls"] = {"enabled": True, "secretName": f"{options.name}-tls"}
    _note_what_differs(config, raw, uses, notes)
    return Ejected(
        values=values,
        variables=variables,
        secret_files=secret_files,
        volume_files=volume_files,
        external_store=external,
        tls=tls,
        notes=tuple(notes),
    )


def _models(
    config: Config, plain: dict[str, Any], options: EjectOptions, notes: list[str]
) -> tuple[list[dict[str, Any]], set[str]]:
    """Take the pools that move out of the models; returns their values, and the names of the images that they use."""
    pools: list[dict[str, Any]] = []
    used: set[str] = set()
    for m, (model, written) in enumerate(zip(config.models, plain["models"], strict=True)):
        left = []
        for p, (pool, raw) in enumerate(zip(model.pools, written["pools"], strict=True)):
            where = f"models[{m}].pools[{p}]"
            # Any server may have the API `openai`, a provider's too: such a pool moves by its name alone.
            keys = [f"{model.name}/{pool.name}", *([pool.engine] if pool.engine != "openai" else [])]
            key = next((key for key in keys if key in options.images), "")
            if stays(model, pool, where, bool(key)):
                left.append(raw)
                notes += unreachable(pool, where)
                continue
            used.add(key)
            moving = moved(model, pool, raw, where, options.images.get(key, ""))
            pools.append(moving.values)
            notes += moving.notes
        written.pop("pools")
        if left:
            written["pools"] = left
    return pools, used


def _is_charts(steps: tuple[str | int, ...]) -> bool:
    return any(steps[: len(path)] == path for path in _CHARTS)


def _without_charts(raw: dict[str, Any]) -> dict[str, Any]:
    """A copy without the fields that the chart sets, and without sections that are empty then."""
    kept = {key: dict(value) if isinstance(value, dict) else value for key, value in raw.items()}
    for path in _CHARTS:
        section = kept if len(path) == 1 else kept.get(path[0])
        if isinstance(section, dict):
            section.pop(path[-1], None)
    return {key: value for key, value in kept.items() if value not in ({}, None)}


def _has_models_path(config: Config) -> bool:
    return any(str(model.tokenizer or "").startswith(f"{MODELS}/") for model in config.models)


def _mount(gateway: dict[str, Any], options: EjectOptions, secret: bool, models: bool) -> None:
    volumes, mounts = [], []
    if models:
        volumes.append(
            {"name": "models", "persistentVolumeClaim": {"claimName": options.models_claim, "readOnly": True}}
        )
        mounts.append({"name": "models", "mountPath": MODELS, "readOnly": True})
    if secret:
        volumes.append({"name": "files", "secret": {"secretName": f"{options.name}-files"}})
        mounts.append({"name": "files", "mountPath": SECRET, "readOnly": True})
    if volumes:
        gateway |= {"volumes": volumes, "volumeMounts": mounts}


def _note_what_differs(config: Config, raw: Mapping[str, Any], uses: list[FileUse], notes: list[str]) -> None:
    for use in (use for use in uses if use.target.startswith(STATE)):
        shared = "; pods share files only by a location such as s3://BUCKET" if use.field[0] == "files" else ""
        notes.append(f"{use.shown}: {use.target} is on each pod's own disk{shared}")
    for m, model in enumerate(raw["models"]):
        path = str(model.get("tokenizer") or "")
        if path.startswith("/") and not path.startswith(f"{MODELS}/"):
            notes.append(
                f"models[{m}].tokenizer: {path} must be in gateways, by gateway.volumes and gateway.volumeMounts"
            )
    if config.admin.scrape_key is not None:
        notes.append("admin.scrape_key: pods take it from the Secret")
    if config.launchers.command is not None:
        notes.append("launchers.command: left out, since Kubernetes starts and stops replicas")
