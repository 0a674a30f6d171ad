"""Split lists into pages; a cursor is the last item's key, so that items added or removed meanwhile shift nothing."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from protos.errors import InvalidRequest

T = TypeVar("T")
K = TypeVar("K")


class PageQuery(Record, frozen=True, kw_only=True):
    """Query parameters of every paged list."""

    limit: Annotated[int, Meta(ge=1, le=1000, description="Entries on the page, at most.")] = 100
    after: Annotated[str | None, Meta(description="The page after this one: the `next` of its answer.")] = None


class Page(Record, Generic[T], frozen=True, kw_only=True):
    """One page of a list."""

    object: Literal["list"] = "list"
    data: list[T]
    has_more: bool
    next: Annotated[str | None, Meta(description="What `after` takes for the next page; null on the last.")] = None


def page_of(items: Sequence[T], query: PageQuery, key: Callable[[T], K], kind: type[K]) -> Page[T]:
    """Cut a page from a list sorted by `key`, whose values are distinct and of type `kind`.

    Raises:
        InvalidRequest: `after` is no cursor of such a list.
    """
    if query.after is not None:
        last: Any = read_cursor(query.after, kind)
        items = [item for item in items if key(item) > last]
    data = list(items[: query.limit])
    more = len(items) > len(data)
    return Page(data=data, has_more=more, next=cursor(key(data[-1])) if more else None)


def cursor(value: object) -> str:
    """Encode a position in a list as an opaque string."""
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


def read_cursor(text: str, kind: type[K]) -> K:
    """Decode the position that a cursor holds.

    Raises:
        InvalidRequest: The cursor does not belong to this list.
    """
    try:
        raw = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=kind)
    except (binascii.Error, msgspec.MsgspecError, ValueError, RecursionError):
        raise InvalidRequest("after: expected the `next` of a page of this list", param="after") from None
