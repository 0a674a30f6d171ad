"""Clear what the store has of a model's rollout where this program version cannot read it, as after a downgrade."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gateway.config.models.settings import Model
from gateway.rollouts.declared import stable_now
from gateway.rollouts.rollout_records import MOST_STORED, Records
from gateway.store.lua_script import Script
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import Place, Storage, read
from protos.errors import Conflict
from routing.rollouts.rollout import HISTORY, ROLLOUTS, Rollout
from routing.rollouts.settings import Rollout as Settings
from routing.rollouts.split import CHANGED, SPLITS, Split
from routing.rollouts.split_of import split_of
from routing.rollouts.stages import told

#: Nothing is known of a candidate that cannot be read.
_UNKNOWN: Final = "unknown"
# What has been written since it was read stays.
_CLEAR: Final = Script("""
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
if (redis.call('HGET', KEYS[2], ARGV[1]) or '') ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[5])
if ARGV[6] ~= '' then redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[7], '*', 'entry', ARGV[6]) end
redis.pcall('PUBLISH', KEYS[4], ARGV[1])
return 1
""")


def said(model: str, keys: Mapping[str, bytes]) -> str:
    """Say what of a model cannot be read, and what to do."""
    return (
        f"this program version cannot read what the store has of {model} in {', '.join(sorted(keys))}; `penstock "
        f"rollout abort {model}` clears it"
    )


def check_nobody_reads(model: str, records: Records) -> None:
    """Raise Conflict where the controller that acts, of another program version, may be able to read it."""
    if records.foreign:
        raise Conflict(
            "The controller of rollouts is of another program version, or was: clear it with that version, or start "
            "a controller of this one first."
        )
    if records.controller and records.told is not None and model not in records.told.unreadable:
        raise Conflict(f"The controller {records.controller} can read it: use a command of its program version.")


async def clear(storage: Storage, model: Model, records: Records, actor: str) -> Rollout | None:
    """End what cannot be read as an aborted rollout, so that the stable version answers everything. One that has
    ended and can be read stays as it is.

    Returns None where it has changed meanwhile. Raises StoreUnavailable.
    """
    raw = records.unreadable[model.name]
    _, found = await read(storage, [Place(key, model.name) for key in (ROLLOUTS, SPLITS)])
    if any(raw.get(key, value) != value for key, value in zip((ROLLOUTS, SPLITS), found, strict=True)):
        return None
    last = records.rollouts.get(model.name)
    ended = cleared(model, records, actor) if last is None else last
    event = b"" if last is not None else msgspec.json.encode(ended.history[-1])
    arguments: list[str | bytes] = [
        model.name,
        *found,
        msgspec.json.encode(ended),
        msgspec.json.encode(split_of(ended)),
        event,
    ]
    done = await storage.run(_CLEAR, [ROLLOUTS, SPLITS, HISTORY, CHANGED], [*arguments, str(MOST_STORED)])
    return ended if done else None


def cleared(model: Model, records: Records, actor: str) -> Rollout:
    """Return the rollout that is left in place of what cannot be read: what of it can be made out, and ended."""
    raw, now = records.unreadable[model.name], records.now
    lost, lost_split = (_fields(raw.get(key, b"")) for key in (ROLLOUTS, SPLITS))
    split = records.splits.get(model.name)
    if split is None and SPLITS in raw:
        split = Split(
            model=model.name,
            stable=_text(lost_split, "stable") or model.stable_version,
            configured=_text(lost_split, "configured"),
        )
    epochs = [_number(lost, "epoch"), _number(lost_split, "epoch"), split.epoch if split is not None else 0]
    candidate = _text(lost, "candidate") or (split.candidate if split is not None else "") or _UNKNOWN
    ended = Rollout(
        id=_text(lost, "id") or f"{model.name}-{_UNKNOWN}",
        model=model.name,
        stable=stable_now(model, split),
        candidate=candidate,
        configured=model.stable_version,
        settings=Settings(model=model.name, to=candidate),
        actor=_text(lost, "actor") or actor,
        started=now,
        phase="rolled_back",
        epoch=max(epochs) + 1,
        first_epoch=max(epochs) + 1,
        since=now,
        ended=now,
        steps=_number(lost, "steps"),
    )
    keys = ", ".join(sorted(raw))
    return told(ended, now, "aborted", f"{actor} has cleared what this program version cannot read in {keys}")


def _fields(raw: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except UNREADABLE:
        return {}


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) and 0 < len(value) <= 128 else ""


def _number(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0
