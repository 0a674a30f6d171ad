"""Responses in the store, each tenant's under keys of its own.

A response has its input, its answer and the id of the response before it, so that a long conversation is stored once;
one script follows the links. Use extends the lifetime. A deleted or expired response breaks the chain: no request is
answered with half a context.
"""

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from gateway.jobs.responses import response_scripts as scripts
from gateway.jobs.responses.packing import pack
from gateway.jobs.responses.response_space import ResponseSpace, sizes, unpacked
from protos.errors import InvalidRequest, PreviousResponseNotFound, ResponseNotFound

#: A background response that its worker has not renewed for so many seconds has failed.
LEASE_SECONDS: Final = 10.0
#: Seconds that the events of a background response are kept after its end.
EVENTS_SECONDS: Final = 3600.0
ENDED: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})


class NewItem(msgspec.Struct, frozen=True):
    """A new item of a conversation, as JSON."""

    id: str
    text: bytes


class Addition(msgspec.Struct, frozen=True):
    """The items that a response adds to its conversation."""

    conversation: str
    items: Sequence[NewItem]


class StoredResponse(msgspec.Struct, frozen=True):
    """A response as JSON. `goes_on`: it is a background one that a worker still generates."""

    status: str
    goes_on: bool
    background: bool
    response: bytes

    @property
    def abandoned(self) -> bool:
        """Whether its worker has died."""
        return self.status not in ENDED and not self.goes_on


class Turn(msgspec.Struct, frozen=True):
    """One response of a chain: its input and the response as JSON, and the conversation's items before it."""

    id: str
    status: str
    goes_on: bool
    input: bytes
    response: bytes
    before: tuple[bytes, ...]


class Followed(msgspec.Struct, frozen=True):
    """The state of a background response, and its new events: packed parts of its stream."""

    status: str
    goes_on: bool
    background: bool
    parts: tuple[bytes, ...]

    @property
    def abandoned(self) -> bool:
        """Whether its worker has died."""
        return self.status not in ENDED and not self.goes_on


class ResponseStore:
    """Every method raises StoreUnavailable. Another tenant's ids are not found."""

    def __init__(self, space: ResponseSpace) -> None:
        self._space = space
        self.bounds = space.bounds

    async def require(self) -> None:
        """Raise StoreUnavailable if the store is known to be away."""
        await self._space.require()

    async def put(
        self, tenant: str, response_id: str, status: str, previous: str, given: bytes, response: bytes,
        addition: Addition | None = None, *, lease: bool = False,
    ) -> None:  # fmt: skip
        """Store a response in one round trip. `given` are its input's items; `lease`: it goes on in the background."""
        await self._space.run(
            scripts.PUT, tenant, self._space.bound, response_id, status, previous, await pack(given),
            await pack(response), _milliseconds(LEASE_SECONDS) if lease else "", *await _added(addition),
        )  # fmt: skip

    async def get(self, tenant: str, response_id: str) -> StoredResponse:
        """Return a response. Raises ResponseNotFound."""
        reply = cast("list[bytes | int]", await self._space.run(scripts.GET, tenant, response_id))
        if not reply:
            raise _missing(response_id)
        status, goes_on, background, response = reply
        return StoredResponse(_text(status), bool(goes_on), bool(background), await unpacked(response))

    async def chain(self, tenant: str, response_id: str) -> list[Turn]:
        """Return a response after all that precede it.

        Raises:
        PreviousResponseNotFound: One of them does not exist.
        InvalidRequest: They are more, or longer, than the configuration allows.
        """
        bounds = self.bounds
        kind, *rest = cast(
            "list[bytes]",
            await self._space.run(
                scripts.CHAIN, tenant, response_id, str(bounds.max_turns), str(bounds.max_context_bytes)
            ),
        )
        if kind == b"missing":
            raise PreviousResponseNotFound(
                f"Previous response with id '{_text(rest[0])}' not found.", param="previous_response_id"
            )
        replies = [cast("list[bytes]", reply) for reply in rest] if kind == b"ok" else []
        # Small packed texts may be large unpacked.
        read = sum(sizes([reply[3], reply[4], *reply[5]]) for reply in replies)
        if kind == b"long" or read > bounds.max_context_bytes:
            raise InvalidRequest(
                f"The conversation before this is over what is kept: {bounds.max_turns} responses, and "
                f"{bounds.max_context_bytes} bytes.",
                param="previous_response_id",
            )
        turns = []
        for at, status, goes_on, given, response, before in reversed(replies):
            turns.append(
                Turn(
                    _text(at),
                    _text(status),
                    bool(goes_on),
                    await unpacked(given),
                    await unpacked(response),
                    tuple([await unpacked(item) for item in cast("list[bytes]", before)]),
                )
            )
        return turns

    async def delete(self, tenant: str, response_id: str) -> None:
        """Delete a response. Raises ResponseNotFound."""
        if not await self._space.run(scripts.DELETE, tenant, response_id):
            raise _missing(response_id)

    async def progress(self, tenant: str, response_id: str, events: bytes) -> str | None:
        """Renew a background response and append events. Returns the status that has ended it meanwhile, if any."""
        reply = await self._space.run(
            scripts.PROGRESS, tenant, self._space.bound, response_id, _milliseconds(LEASE_SECONDS),
            await pack(events) if events else b"", str(self.bounds.max_bytes),
        )  # fmt: skip
        found = _text(reply)
        return None if found == "ok" else found

    async def finish(
        self, tenant: str, response_id: str, status: str, response: bytes, events: bytes, addition: Addition | None
    ) -> bool:
        """Store the end of a background response. False: something else had ended it before."""
        done = await self._space.run(
            scripts.FINISH, tenant, self._space.bound, response_id, status, await pack(response),
            await pack(events) if events else b"", _milliseconds(EVENTS_SECONDS), *await _added(addition),
        )  # fmt: skip
        return bool(done)

    async def cancel(self, tenant: str, response_id: str, response: bytes) -> bool:
        """Cancel a background response. False: it has ended already."""
        packed, stay = await pack(response), _milliseconds(EVENTS_SECONDS)
        return bool(await self._space.run(scripts.CANCEL, tenant, response_id, packed, stay))

    async def follow(self, tenant: str, response_id: str, known: int) -> Followed:
        """Return the state of a background response and its parts after the first `known`. Raises ResponseNotFound."""
        reply = cast("list[object]", await self._space.run(scripts.FOLLOW, tenant, response_id, str(known)))
        if not reply:
            raise _missing(response_id)
        status, goes_on, background, parts = reply
        return Followed(_text(status), bool(goes_on), bool(background), tuple(cast("list[bytes]", parts)))


async def _added(addition: Addition | None) -> list[str | bytes]:
    if addition is None:
        return [""]
    arguments: list[str | bytes] = [addition.conversation]
    for item in addition.items:
        arguments += (item.id, await pack(item.text))
    return arguments


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))


def _text(reply: object) -> str:
    return cast("bytes", reply).decode()


def _missing(response_id: str) -> ResponseNotFound:
    shown = response_id if len(response_id) <= 128 else response_id[:128] + "..."
    return ResponseNotFound(f"Response with id '{shown}' not found.")
