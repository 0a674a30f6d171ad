"""Load the context of a response: the items of earlier responses, or of a conversation."""

import re
from collections.abc import Iterable
from typing import Any, Final

import orjson

from gateway.api.responses.items import ReferenceItem, kind_of, shown_items
from gateway.api.responses.response_answer import RESPONSE_PREFIX
from gateway.api.responses.responses_body import Prompting
from gateway.api.server.body_decoder import read_part
from gateway.jobs.responses.conversation_store import ConversationStore
from gateway.jobs.responses.response_store import ResponseStore, Turn
from protos.errors import (
    ConversationNotFound,
    InvalidRequest,
    ItemNotFound,
    PreviousResponseNotFound,
    StoreUnavailable,
)

CONVERSATION_PREFIX: Final = "conv_"
#: The form of ids made here; nothing else is looked up.
_ID: Final = re.compile(r"(resp|conv)_[0-9a-f]{24}")
_ITEM_ID: Final = re.compile(r"[a-z]+_(?P<suffix>[0-9a-f]{24})_i?\d+")
#: Bound on the responses that one input's references may point to.
_MOST_REFERRED: Final = 32


def is_id(text: str, prefix: str) -> bool:
    """Whether a text has the form of ids with that prefix."""
    return text.startswith(prefix) and _ID.fullmatch(text) is not None


def turn_items(turn: Turn, *, with_output: bool = True) -> list[dict[str, Any]]:
    """List the items of a stored turn, in the API's form."""
    items: list[dict[str, Any]] = [orjson.loads(item) for item in turn.before]
    items += shown_items(orjson.loads(turn.input), turn.id.removeprefix(RESPONSE_PREFIX))
    if with_output:
        items += orjson.loads(turn.response)["output"]
    return items


async def items_before(
    responses: ResponseStore, conversations: ConversationStore, tenant: str, body: Prompting
) -> list[dict[str, Any]]:
    """List the items before the input. Raises the client's error for unknown ids, and StoreUnavailable."""
    previous, conversation = body.previous_response_id, body.conversation_id
    if previous is not None:
        if not is_id(previous, RESPONSE_PREFIX):
            raise PreviousResponseNotFound(
                f"Previous response with id '{previous}' not found.", param="previous_response_id"
            )
        turns = await responses.chain(tenant, previous)
        if turns[-1].goes_on:
            raise InvalidRequest(
                f"The response '{previous}' is still in progress; wait for its end.", param="previous_response_id"
            )
        return [item for turn in turns for item in _readable(turn)]
    if conversation is not None:
        if not is_id(conversation, CONVERSATION_PREFIX):
            raise ConversationNotFound(f"Conversation with id '{conversation}' not found.", param="conversation")
        return [orjson.loads(item) for item in await conversations.items(tenant, conversation)]
    return []


async def resolved(
    responses: ResponseStore, tenant: str, before: Iterable[dict[str, Any]], items: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Replace references by the items they point to. Raises ItemNotFound and StoreUnavailable."""
    wanted: dict[int, str] = {}
    for position, item in enumerate(items):
        where = f"input[{position}]"
        if kind_of(item, where) == "item_reference":
            wanted[position] = read_part(item, ReferenceItem, where).id
    if not wanted:
        return items
    known = {item["id"]: item for item in before}
    requested: set[str] = set()
    for reference in wanted.values():
        match = _ITEM_ID.fullmatch(reference)
        if match is None or reference in known or match["suffix"] in requested:
            continue
        requested.add(match["suffix"])
        if len(requested) > _MOST_REFERRED:
            raise InvalidRequest(f"An input may refer to items of {_MOST_REFERRED} responses at most.", param="input")
        try:
            turns = await responses.chain(tenant, RESPONSE_PREFIX + match["suffix"])
        except PreviousResponseNotFound:
            continue
        known |= {item["id"]: item for item in turn_items(turns[-1])}
    found = list(items)
    for position, reference in wanted.items():
        if reference not in known:
            raise ItemNotFound(f"Item with id '{reference[:128]}' not found.", param=f"input[{position}]")
        found[position] = known[reference]
    return found


def _readable(turn: Turn) -> list[dict[str, Any]]:
    try:
        return turn_items(turn)
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise StoreUnavailable("The gateway's store holds a response that cannot be read.") from error
