"""Bodies that an official SDK's types allow: for each parameter and each enumerated value one body that has it.

A body differs from a base in one place. What a type does not say (a name, an address, an id) is a sample by the name of
its member.
"""

import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Required, get_args, get_origin

import typing_extensions

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
#: Other types are those of answers, which may be sent back: they have the same members as those of parameters.
_UNION: Any = typing.Union
_REQUIRED: Any = Required
_NOT_REQUIRED: Any = NotRequired
_PLAIN: dict[Any, Any] = {str: "text", int: 1, float: 0.5, object: {}, dict: {}}
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


@dataclass(frozen=True)
class Case:
    """A value at a place, as `tools[].type=mcp`, and the parameter with that value in it."""

    place: str
    parameter: str
    value: Any


def cases(params: type, samples: Mapping[str, Any], last: Iterable[str] = ()) -> Iterator[Case]:
    """Give each parameter of an SDK's TypedDict at each of its values, those of `last` after the others.

    What is a part of several is looked at whole in the first of them, and in the others at its simplest.
    """
    walk = Walk(samples)
    hints = typing_extensions.get_type_hints(params, include_extras=True)
    for name in sorted(hints, key=lambda name: name in last):
        for place, value in walk.variants(hints[name], name, name):
            yield Case(place, name, value)


def bare(kind: Any) -> Any:
    """Take off what says whether a member must be there."""
    while get_origin(kind) in (Required, NotRequired, typing.Annotated):
        kind = get_args(kind)[0]
    return kind


def is_required(kind: Any, name: str, hint: Any) -> bool:
    """Tell whether a TypedDict has to have a member; where annotations are kept as text, it does not know its marks."""
    mark: Any = get_origin(hint)
    return mark is _REQUIRED or (mark is not _NOT_REQUIRED and name in kind.__required_keys__)


def label_of(value: Mapping[str, Any], place: str) -> str:
    """Name which of several structures is at a place."""
    tag = value.get("type", value.get("role"))
    return f"{place}({tag})" if isinstance(tag, str) else place


class Walk:
    """Values of types, with samples for what they leave open."""

    def __init__(self, samples: Mapping[str, Any]) -> None:
        self._samples = samples
        #: TypedDicts on the way here: some have themselves as a part.
        self._within: list[type] = []
        self._seen: dict[type, dict[str, Any]] = {}

    def variants(self, kind: Any, place: str, name: str) -> Iterator[tuple[str, Any]]:
        """Give a type's values, the simplest first, each with its place."""
        kind = bare(kind)
        origin, parts = get_origin(kind), get_args(kind)
        if kind is NoneType:
            yield f"{place}=null", None
        elif origin is Literal:
            yield from ((f"{place}={value}", value) for value in parts)
        elif isinstance(kind, UnionType) or origin is _UNION:
            # A name beside the names that are known today says no more than they do.
            open_names = str in map(bare, parts) and any(get_origin(bare(part)) is Literal for part in parts)
            for part in parts:
                if not (open_names and get_origin(bare(part)) is Literal):
                    yield from self.variants(part, place, name)
        elif typing_extensions.is_typeddict(kind) and name in self._samples:
            yield place, self._samples[name]
        elif typing_extensions.is_typeddict(kind):
            yield from self._members(kind, place)
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            yield place, self._samples.get(name, {})
        elif isinstance(origin, type) and issubclass(origin, Iterable):
            for inner, value in self.variants(parts[0], f"{place}[]", name):
                yield inner, [value]
        elif kind is bool:
            yield f"{place}=false", False
            yield f"{place}=true", True
        elif kind in _PLAIN:
            yield place, self._samples.get(name, _PLAIN[kind])

    def _members(self, kind: type, place: str) -> Iterator[tuple[str, Any]]:
        if kind in self._within:
            return
        if kind in self._seen:
            yield label_of(self._seen[kind], place), self._seen[kind]
            return
        self._within.append(kind)
        hints = typing_extensions.get_type_hints(kind, include_extras=True)
        required = [name for name, hint in hints.items() if is_required(kind, name, hint)]
        found = {name: list(self.variants(hints[name], f"{place}.{name}", name)) for name in hints}
        self._within.pop()
        if any(not found[name] for name in required):
            return
        least = {name: found[name][0][1] for name in required}
        self._seen[kind] = least
        label = label_of(least, place)
        yield label, least
        for name, values in found.items():
            for inner, value in values if len(values) > 1 or name not in required else ():
                yield label + inner[len(place) :], least | {name: value}


_STEP = re.compile(r"\.?[^.\[(=]+|\[\]|\([^)]*\)|=.*")


def folded(refused: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Name what is refused by the fewest places: at and within each of them nothing is taken but null."""
    prefixes = {prefix for place in taken if not place.endswith("=null") for prefix in _prefixes(place)}
    found = (next((prefix for prefix in _prefixes(place) if prefix not in prefixes), place) for place in refused)
    return list(dict.fromkeys(found))


def _prefixes(place: str) -> list[str]:
    ends = [step.end() for step in _STEP.finditer(place)]
    return [place[:end] for end in ends]
