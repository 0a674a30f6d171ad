"""Pure: the differences between two configurations, as paths with values, without anything that is secret."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from gateway.config.settings import Config

#: Lists whose items have a name; their paths have it in place of the index, so that an item may move.
_KEYED: Final = frozenset({"models", "pools", "tenants", "tiers", "filters", "policies", "adapters"})
#: Fields whose values may be secret or lead to a secret, with all that is in them.
_SECRET: Final = frozenset(
    {"url", "webhook", "headers", "proxy", "api_key", "api_keys", "encryption_key", "password", "scrape_key", "tokens"}
)
_LONGEST_SHOWN: Final = 160
#: Before the name of such a list: the path of the order of its items.
ORDER_OF: Final = "order of "


class _Unset:
    """The value of a path that one of the configurations does not have."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()


class Change(msgspec.Struct, frozen=True):
    """One path whose value differs. `before` or `after` is `UNSET` where the path is not there."""

    path: tuple[str | int, ...]
    before: Any
    after: Any

    @property
    def shown_path(self) -> str:
        """The path as messages have it: `models[llama].price.input`, `listen.port`, `aliases[0]`."""
        text = ""
        for before, step in zip(("", *self.path), self.path, strict=False):
            bracketed = isinstance(step, int) or before in _KEYED
            text += f"[{step}]" if bracketed else f".{step}" if text else str(step)
        return text

    def __str__(self) -> str:
        """The change in one line. Values of fields that may hold a secret are not in it."""
        if self.before is UNSET:
            return f"{self.shown_path}: added{self._of(self.after)}"
        if self.after is UNSET:
            return f"{self.shown_path}: removed{self._of(self.before)}"
        if self._is_secret:
            return f"{self.shown_path}: changed (values are not shown)"
        return f"{self.shown_path}: {shown(self.before)} -> {shown(self.after)}"

    @property
    def _is_secret(self) -> bool:
        return not _SECRET.isdisjoint(self.path)

    def _of(self, value: Any) -> str:
        """The value of a path that has come or gone; of a whole item only its name is told, which the path has."""
        return "" if self._is_secret or isinstance(value, Mapping) else f" ({shown(value)})"


def shown(value: Any) -> str:
    """A value for one line: bounded, without what is secret in it."""
    if value is None:
        return "unset"
    text = json.dumps(_public(value), ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def changes(before: Config, after: Config) -> list[Change]:
    """List what differs, in the file's order. It is empty exactly where the configurations are equal."""
    return list(_changes((), msgspec.to_builtins(before), msgspec.to_builtins(after)))


def _changes(path: tuple[str | int, ...], before: Any, after: Any) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            yield from _between((*path, name), before.get(name, UNSET), after.get(name, UNSET))
    elif path and path[-1] in _KEYED and _has_names(before) and _has_names(after):
        olds, news = _by_name(before), _by_name(after)
        for name in dict.fromkeys((*olds, *news)):
            yield from _between((*path, name), olds.get(name, UNSET), news.get(name, UNSET))
        kept = [name for name in olds if name in news]
        moved = [name for name in news if name in olds]
        if kept != moved:
            yield Change((*path[:-1], f"{ORDER_OF}{path[-1]}"), kept, moved)
    elif _is_list(before) and _is_list(after):
        for index in range(max(len(before), len(after))):
            old = before[index] if index < len(before) else UNSET
            new = after[index] if index < len(after) else UNSET
            yield from _between((*path, index), old, new)
    elif before != after:
        yield Change(path, before, after)


def _between(path: tuple[str | int, ...], before: Any, after: Any) -> Iterator[Change]:
    if before is UNSET or after is UNSET:
        yield Change(path, before, after)
    else:
        yield from _changes(path, before, after)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _has_names(items: Any) -> bool:
    """Whether each item has a name, and each its own."""
    if not _is_list(items) or not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
        return False
    return len({item["name"] for item in items}) == len(items)


def _by_name(items: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in items}


def _public(value: Any) -> Any:
    if isinstance(value, Mapping):
        given = {name: inner for name, inner in value.items() if inner is not None}
        return {name: "(not shown)" if name in _SECRET else _public(inner) for name, inner in given.items()}
    if _is_list(value):
        return [_public(inner) for inner in value]
    return _without_user(value) if isinstance(value, str) and "://" in value else value


def _without_user(address: str) -> str:
    """An address without its user, password and query."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "(not shown)"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
