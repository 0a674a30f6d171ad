"""KV tokens that replicas hold which launchers start in each other's place: as configured, else as they last told."""

from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.config.models.settings import Model, Pool
from gateway.scaling.status import PREFIX
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import Storage

#: A hash: pool -> what was learned of it, as JSON of `Learned`.
LEARNED: Final = f"{PREFIX}learned"


class KvRoom(msgspec.Struct, frozen=True, kw_only=True):
    """Of what was learned of a pool, the KV tokens that a replica on so many GPUs has told; 0: none has."""

    kv_tokens: int = 0
    gpus: int = 0


_DECODER: Final = msgspec.json.Decoder(KvRoom)


def learned_field(model: str, pool: str, launcher: str | None) -> str:
    """The field of a pool and its launcher: other launchers start otherwise."""
    return f"{model} {pool} {launcher}"


def relaunch_pools(model: Model) -> tuple[Pool, Pool] | None:
    """The pools of a model whose replicas take each other's GPUs, the narrow ones first; None: it has none."""
    told = model.reshape.relaunch if model.reshape is not None else None
    if told is None:
        return None
    narrow, wide = (next(pool for pool in model.pools if pool.name == name) for name in (told.narrow, told.wide))
    return narrow, wide


def relaunch_rooms(model: Model, learned: Mapping[str, KvRoom]) -> tuple[int, int]:
    """The KV tokens that a narrow and a wide replica hold; 0: nobody knows. `learned` is by `learned_field`."""
    told, pools = model.reshape.relaunch if model.reshape is not None else None, relaunch_pools(model)
    if told is None or pools is None:
        return 0, 0
    narrow, wide = (_told(model, pool, learned) for pool in pools)
    return told.narrow_kv_tokens or narrow, told.wide_kv_tokens or wide


async def read_rooms(storage: Storage) -> dict[str, KvRoom]:
    """What all pools' replicas last told, by `learned_field`; what cannot be read is left out.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    found = {}
    for field, raw in (await storage.hgetall(LEARNED)).items():
        try:
            found[field.decode()] = _DECODER.decode(raw)
        except UNREADABLE:
            continue
    return found


def _told(model: Model, pool: Pool, learned: Mapping[str, KvRoom]) -> int:
    room = learned.get(learned_field(model.name, pool.name, pool.launcher))
    # One of another shape held something else.
    return room.kv_tokens if room is not None and room.gpus == pool.shape.value.gpus else 0
