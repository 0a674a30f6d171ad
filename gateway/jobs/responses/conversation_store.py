"""Conversations in the store: a record of each, and its items in order."""

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from gateway.jobs.responses import response_scripts as scripts
from gateway.jobs.responses.packing import pack
from gateway.jobs.responses.response_space import ResponseSpace, sizes, unpacked
from gateway.jobs.responses.response_store import NewItem
from protos.errors import ConversationNotFound, InvalidRequest, ItemNotFound

_FULL: Final = "A conversation has {} items of {} bytes together at most."


class Conversation(msgspec.Struct, frozen=True):
    """A conversation without its items."""

    id: str
    created_at: int
    metadata: dict[str, str] = {}


class ConversationStore:
    """Every method raises StoreUnavailable; all but `create` ConversationNotFound, also for another tenant's id."""

    def __init__(self, space: ResponseSpace) -> None:
        self._space = space
        self.bounds = space.bounds

    async def create(self, tenant: str, conversation: Conversation, items: Sequence[NewItem]) -> None:
        """Create a conversation with its first items."""
        await self._set(tenant, conversation, items, "")

    async def change(self, tenant: str, conversation: Conversation) -> None:
        """Replace a conversation's record."""
        if not await self._set(tenant, conversation, (), "1"):
            raise _missing(conversation.id)

    async def _set(self, tenant: str, conversation: Conversation, items: Sequence[NewItem], there: str) -> object:
        record = msgspec.json.encode(conversation)
        return await self._space.run(
            scripts.CREATE_CONVERSATION,
            tenant,
            self._space.bound,
            conversation.id,
            record,
            there,
            *await _packed(items),
        )

    async def get(self, tenant: str, conversation_id: str) -> Conversation:
        """Return a conversation."""
        return (await self._read(tenant, conversation_id, ""))[0]

    async def items(self, tenant: str, conversation_id: str) -> list[bytes]:
        """Return all items, for a response that continues the conversation.

        Raises:
        InvalidRequest: They are longer than the configuration allows, or there is no room for more.
        """
        _, items = await self._read(tenant, conversation_id, str(self.bounds.max_context_bytes))
        if len(items) >= self.bounds.max_items:
            raise InvalidRequest(
                _FULL.format(self.bounds.max_items, self.bounds.max_context_bytes), param="conversation"
            )
        return items

    async def _read(self, tenant: str, conversation_id: str, most: str) -> tuple[Conversation, list[bytes]]:
        reply = cast("list[bytes]", await self._space.run(scripts.CONVERSATION, tenant, conversation_id, most))
        if not reply:
            raise _missing(conversation_id)
        if reply == [b"long"] or sizes(reply[1:]) > self.bounds.max_context_bytes:
            raise InvalidRequest(
                f"The conversation is longer than the {self.bounds.max_context_bytes} bytes that are looked at.",
                param="conversation",
            )
        record = msgspec.json.decode(reply[0], type=Conversation)
        return record, [await unpacked(item) for item in reply[1:]]

    async def add(self, tenant: str, conversation_id: str, items: Sequence[NewItem]) -> None:
        """Append items. Raises InvalidRequest where there is no room for them."""
        most, longest = self.bounds.max_items, self.bounds.max_context_bytes
        reply = await self._space.run(
            scripts.ADD_ITEMS,
            tenant,
            self._space.bound,
            conversation_id,
            str(most),
            str(longest),
            *await _packed(items),
        )
        if reply == b"missing":
            raise _missing(conversation_id)
        if reply == b"full":
            raise InvalidRequest(_FULL.format(most, longest), param="items")

    async def page(
        self, tenant: str, conversation_id: str, order: str, count: int, after: str
    ) -> tuple[list[bytes], bool]:
        """Return up to `count` items in that order (`asc` or `desc`) after the id `after`, and whether there are more.

        There are fewer where they would be too long together. Raises ItemNotFound.
        """
        longest = self.bounds.max_context_bytes
        kind, *items = cast(
            "list[bytes]",
            await self._space.run(
                scripts.LIST_ITEMS, tenant, conversation_id, order, str(count + 1), after, str(longest)
            ),
        )
        if kind == b"missing":
            raise _missing(conversation_id)
        if kind == b"after":
            raise _no_item(after)
        shown: list[bytes] = []
        for item in items[:count]:
            longest -= sizes([item])
            if longest < 0 and shown:
                break
            shown.append(await unpacked(item))
        return shown, kind == b"cut" or len(shown) < len(items)

    async def item(self, tenant: str, conversation_id: str, item_id: str) -> bytes:
        """Return one item. Raises ItemNotFound."""
        return (await self._item(tenant, conversation_id, item_id, ""))[1]

    async def delete_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        """Delete an item and return its conversation. Raises ItemNotFound."""
        return (await self._item(tenant, conversation_id, item_id, "1"))[0]

    async def _item(self, tenant: str, conversation_id: str, item_id: str, gone: str) -> tuple[Conversation, bytes]:
        reply = cast("list[bytes]", await self._space.run(scripts.ITEM, tenant, conversation_id, item_id, gone))
        if not reply:
            raise _missing(conversation_id)
        if not reply[1]:
            raise _no_item(item_id)
        return msgspec.json.decode(reply[0], type=Conversation), await unpacked(reply[1])

    async def delete(self, tenant: str, conversation_id: str) -> None:
        """Delete a conversation with all of its items."""
        if not await self._space.run(scripts.DELETE, tenant, conversation_id):
            raise _missing(conversation_id)


async def _packed(items: Sequence[NewItem]) -> list[str | bytes]:
    arguments: list[str | bytes] = []
    for item in items:
        arguments += (item.id, await pack(item.text))
    return arguments


def _missing(conversation_id: str) -> ConversationNotFound:
    shown = conversation_id if len(conversation_id) <= 128 else conversation_id[:128] + "..."
    return ConversationNotFound(f"Conversation with id '{shown}' not found.")


def _no_item(item_id: str) -> ItemNotFound:
    shown = item_id if len(item_id) <= 128 else item_id[:128] + "..."
    return ItemNotFound(f"Item with id '{shown}' not found.")
