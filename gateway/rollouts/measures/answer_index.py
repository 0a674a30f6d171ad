"""Which version has answered, by an answer's id, for what clients tell later.

The index is bounded for each tenant, and each tenant's is its own: an answer of another tenant's is unknown.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal, cast

import msgspec

from gateway.store.lua_script import Script
from gateway.store.unreadable import UNREADABLE
from gateway.tenancy.tenants.transactions import Storage
from routing.rollouts.measures.version_counter import Answered

#: What clients may tell; each counts once for an answer. `rating` is a thumb, up or down.
TellKind = Literal["rating", "regenerated", "accepted"]
KINDS: Final[tuple[TellKind, ...]] = ("rating", "regenerated", "accepted")
#: Answers of one tenant that are known, and for how many seconds after the last one.
MOST_ANSWERS: Final = 20_000
KEPT_SECONDS: Final = 86_400

_PREFIX: Final = "penstock:{rollouts}:answers:"
_ANSWERS: Final = Script.load("gateway.rollouts.measures", "lua/answers.lua")
_FIND: Final = Script("return redis.call('HGET', KEYS[1], ARGV[1])")
_TELL: Final = Script.load("gateway.rollouts.measures", "lua/tell.lua")
#: All ids of one request end alike: of its record, its answer, and the header `x-request-id`.
_ID: Final = re.compile(r"[a-z]{1,16}[-_]([0-9a-f]{24})")


class Place(msgspec.Struct, array_like=True, frozen=True):
    """Where an answer was counted."""

    model: str
    rollout: str
    version: str
    begin: int


async def index_answers(storage: Storage, tenant: str, answers: Sequence[Answered]) -> None:
    """Remember a tenant's answers.

    Raises:
        StoreUnavailable: The store did not answer; they may be remembered.
    """
    arguments: list[str | bytes] = [str(MOST_ANSWERS), str(KEPT_SECONDS * 1000), str(len(KINDS)), *KINDS]
    for answer in answers:
        suffix = suffix_of(answer.id)
        if suffix is not None:
            arguments += [
                suffix,
                msgspec.msgpack.encode(Place(answer.model, answer.rollout, answer.version, answer.begin)),
            ]
    await storage.run(_ANSWERS, [_PREFIX + tenant, f"{_PREFIX}{tenant}:order"], arguments)


async def find_answer(storage: Storage, tenant: str, answer: str) -> Place | None:
    """Return where an answer was counted, by its id; None: this tenant has no such answer.

    Raises:
        StoreUnavailable: The store did not answer.
    """
    suffix = suffix_of(answer)
    if suffix is None:
        return None
    reply = cast("bytes | None", await storage.run(_FIND, [_PREFIX + tenant], [suffix]))
    try:
        return None if reply is None else msgspec.msgpack.decode(reply, type=Place)
    except UNREADABLE:
        return None


async def tell(storage: Storage, tenant: str, answer: str, kinds: Sequence[TellKind]) -> list[TellKind]:
    """Note what is told of an answer that there is; return those kinds that were not told before.

    Raises:
        StoreUnavailable: The store did not answer; it may be noted.
    """
    suffix = suffix_of(answer)
    reply = cast("list[bytes]", await storage.run(_TELL, [_PREFIX + tenant], [suffix or "", *kinds]))
    return [kind for kind in kinds if kind.encode() in reply]


def suffix_of(answer: str) -> str | None:
    """Return what all ids of one request have in common; None: it is no id of ours."""
    found = _ID.fullmatch(answer)
    return None if found is None else found[1]
