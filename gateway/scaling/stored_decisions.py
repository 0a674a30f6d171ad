"""The controllers' decisions as the store keeps them: a bounded stream."""

from typing import Final, cast

import msgspec

from gateway.scaling.status import PREFIX, DecisionRecord
from gateway.store.lua_script import Script
from gateway.store.unreadable import readable
from gateway.tenancy.tenants.transactions import Storage

#: A stream of decisions, as JSON.
DECISIONS: Final = f"{PREFIX}decisions"
#: Entries that it keeps, each of some hundred bytes.
MOST_STORED: Final = 4000
#: Entries that are read at a time.
MOST_READ: Final = 200

_SCRIPT: Final = Script.load("gateway.scaling", "lua/entries.lua")
_DECODER: Final = msgspec.json.Decoder(DecisionRecord)


async def read_decisions(storage: Storage, most: int = MOST_READ) -> list[DecisionRecord]:
    """The newest decisions, the newest last; those of another program version are left out.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    found = cast("list[bytes]", await storage.run(_SCRIPT, [DECISIONS], [str(most)]))
    return readable(reversed(found), _DECODER.decode)
