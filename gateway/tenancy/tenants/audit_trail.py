"""The audit trail of changes to tenants and keys: actor, time by the store's clock, old and new record."""

import re
from typing import Any, Final, cast

import msgspec

from gateway.store.lua_script import Script
from gateway.tenancy.tenants.transactions import AUDIT, Storage
from protos.errors import InvalidRequest

MOST_ENTRIES: Final = 1000

_AUDIT = Script.load("gateway.tenancy.tenants", "lua/audit.lua")
_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `time` is in seconds since the epoch; `before` and `after` are records as JSON has them, or None."""

    id: str
    time: float
    actor: str
    action: str
    subject: str
    before: Any
    after: Any


async def read_audit(storage: Storage, before: str | None, limit: int) -> list[AuditEntry]:
    """Read at most `limit` entries, the newest first; with `before`, those older than the entry of that id.

    Raises:
        InvalidRequest: `before` is no entry's id, or `limit` is not from 1 to 1000.
        StoreUnavailable: The store did not answer.
    """
    if before is not None and not _ID.fullmatch(before):
        raise InvalidRequest("before: expected the id of an audit entry", param="before")
    if not 1 <= limit <= MOST_ENTRIES:
        raise InvalidRequest(f"limit: expected 1 to {MOST_ENTRIES}, got {limit}", param="limit")
    reply = await storage.run(_AUDIT, [AUDIT], ["+" if before is None else f"({before}", str(limit)])
    return [_entry(entry_id, fields) for entry_id, fields in cast("list[tuple[bytes, list[bytes]]]", reply)]


def _entry(entry_id: bytes, fields: list[bytes]) -> AuditEntry:
    values = dict(zip(fields[::2], fields[1::2], strict=True))
    return AuditEntry(
        id=entry_id.decode(),
        time=int(entry_id.partition(b"-")[0]) / 1000,
        actor=values[b"actor"].decode(),
        action=values[b"action"].decode(),
        subject=values[b"subject"].decode(),
        before=_json(values[b"before"]),
        after=_json(values[b"after"]),
    )


def _json(text: bytes) -> Any:
    return msgspec.json.decode(text) if text else None
