"""Launchers, which start and stop replicas of pools that scale."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.config.base import Record

_Command = Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(min_length=1, max_length=256)]


_Secrets = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...],
    Meta(
        max_length=64,
        description="Environment variables that this file names for secrets and that the commands get, as "
        "`[STORE_URL]`. They have the controller's environment without all others that are.",
    ),
]


class LocalLauncher(Record, frozen=True, kw_only=True):
    """Processes of this machine."""

    gpus: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=1023)], ...] | None,
        Meta(
            description="Indexes of the GPUs that replicas are given, by `CUDA_VISIBLE_DEVICES`; each replica takes as "
            "many as its shape has. Unset: none are given, as for simulated replicas."
        ),
    ] = None
    standby: Annotated[
        Annotated[int, Meta(ge=0, le=256)],
        Meta(
            description="Processes that wait, with libraries loaded and no model, for each engine of pools with this "
            "launcher; a replica that is started takes one. With `gpus`, for each engine and number of GPUs, on those "
            "that no replica has. 0: none."
        ),
    ] = 0


class CommandLauncher(Record, frozen=True, kw_only=True):
    """Commands of the operator's own, with JSON in and out; docs/scaling.md says what they get and have to write."""

    start: Annotated[_Command, Meta(description="Starts replicas: `{replicas: [{id, model, pool, shape, ...}]}`.")]
    observe: Annotated[
        _Command, Meta(description="Tells what exists: `{replicas: [{id, model, pool, step, since, ...}]}`.")
    ]
    stop: Annotated[_Command, Meta(description="Ends replicas: `{ids: [...], grace_seconds: N}`.")]
    secrets: _Secrets = ()
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=35, description="After so long a command is killed, and counts as failed.")
    ] = 30.0


class SpotPrices(Record, frozen=True, kw_only=True):
    """Where prices of preemptible capacity are told; exactly one of `file`, `url` and `command`.

    The source gives JSON: `{"pools": [{"model", "pool", "price_per_hour", "interruptions_per_hour"}]}`.
    """

    file: Annotated[
        Annotated[str, Meta(min_length=1)] | None, Meta(description="A file, relative to this file's folder.")
    ] = None
    url: Annotated[Annotated[str, Meta(pattern="^https?://.")] | None, Meta(description="What a GET answers.")] = None
    command: Annotated[_Command | None, Meta(description="What a command writes.")] = None
    secrets: _Secrets = ()
    every_seconds: Annotated[
        float,
        Meta(ge=1, le=86_400, description="How often it is asked. What it said last holds for ten times as long."),
    ] = 60.0


class Launchers(Record, frozen=True, kw_only=True):
    """The launchers that pools can name."""

    local: Annotated[LocalLauncher, Meta(description="Processes of this machine.")] = LocalLauncher()
    command: Annotated[
        CommandLauncher | None, Meta(description="Commands; needed where a pool names this launcher.")
    ] = None
    spot_prices: Annotated[
        SpotPrices | None,
        Meta(description="Prices and interruptions of preemptible capacity; unset: `scaling.spot_price_per_hour`."),
    ] = None


def with_absolute_prices(launchers: Launchers, folder: Path) -> Launchers:
    """Make the path of the file with prices absolute."""
    prices = launchers.spot_prices
    if prices is None or prices.file is None:
        return launchers
    prices = msgspec.structs.replace(prices, file=str((folder / prices.file).resolve()))
    return msgspec.structs.replace(launchers, spot_prices=prices)
