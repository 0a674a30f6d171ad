"""Converts structural tags of TensorRT-LLM's XGrammar (0.1.25 and newer) to grammars of llguidance.

The library's lexer is greedy and does not backtrack: alternatives with a common beginning would hide one another, so
each of a tag's alternatives is a grammar of its own.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any, Final

from replicas.engines.guided.errors import GuideError

#: A part of a structural tag, or a schema.
Format = dict[str, Any]

_MAX_ALTERNATIVES: Final = 64
#: What must be escaped between the slashes of an expression, or is escaped already.
_TO_ESCAPE: Final = re.compile(r"\\(?s:.)|/|\n")
_ESCAPED: Final = {"/": r"\/", "\n": r"\n", "\\\n": r"\n"}


def alternatives(described: Any) -> list[Format]:
    """Return alternative formats without `or`, one of which an answer must match. Raises GuideError."""
    try:
        found = _alternatives(described["format"])
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise GuideError("a structural tag needs a format") from None
    if not 0 < len(found) <= _MAX_ALTERNATIVES:
        raise GuideError("a structural tag needs some alternatives, and not too many")
    return found


def _alternatives(node: Format) -> list[Format]:
    kind = node["type"]
    if kind == "or":
        return [one for element in node["elements"] for one in _alternatives(element)]
    if kind == "sequence":
        choices = product(*map(_alternatives, node["elements"]))
        return [node | {"elements": list(chosen)} for chosen in islice(choices, _MAX_ALTERNATIVES + 1)]
    if kind == "tag":
        return [node | {"content": content} for content in _alternatives(node["content"])]
    return [node]


@dataclass
class TagGrammar:
    """The grammar of one alternative. `begins` are the texts that begin a tag in free text, `ends` those that end such
    a text, `schemas` those inside it; `styled` sets how their JSON is written.
    """

    styled: Callable[[Format], Format]
    begins: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    schemas: list[Format] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)

    def lark(self, node: Format) -> str:
        """Return the grammar's text. Raises GuideError."""
        try:
            start = self._part(node)
        except (KeyError, TypeError, AttributeError, RecursionError):
            raise GuideError("a structural tag has a format that is not known, or not whole") from None
        return "\n".join(["%llguidance {}", f"start: {start}", "TEXT: /(.|\\n)*/", *self._lines])

    def _part(self, node: Format) -> str:
        readers: dict[str, Callable[[Format], str]] = {
            "any_text": lambda node: "TEXT",
            "const_string": lambda node: _literal(node["value"]),
            "json_schema": self._schema,
            "regex": self._regex,
            "or": self._either,
            "sequence": lambda node: " ".join(map(self._part, node["elements"])),
            "tag": self._tag,
            "tags_with_separator": self._separated,
            "triggered_tags": self._triggered,
        }
        return readers[node["type"]](node)

    def _either(self, node: Format) -> str:
        if not node["elements"]:
            raise GuideError("a structural tag needs some alternatives")
        return f"({' | '.join(map(self._part, node['elements']))})"

    def _schema(self, node: Format) -> str:
        schema = node["json_schema"]
        if not isinstance(schema, dict):
            raise GuideError("a schema is no object")
        self.schemas.append(schema)
        return self._rule("json", f"%json {json.dumps(self.styled(schema))}")

    def _regex(self, node: Format) -> str:
        pattern = _TO_ESCAPE.sub(lambda found: _ESCAPED.get(found.group(), found.group()), str(node["pattern"]))
        return self._rule("REGEX", f"/{pattern}/")

    def _tag(self, node: Format) -> str:
        content, end = node["content"], str(node["end"])
        if content["type"] != "any_text" or not end:
            return f"{_literal(node['begin'])} {self._part(content)} {_literal(end)}"
        self.ends.append(end)
        return f"{_literal(node['begin'])} {self._rule('free', f'TEXT {_literal(end)}', lazy=True)}"

    def _separated(self, node: Format) -> str:
        tag = self._rule("tag", " | ".join(map(self._part, node["tags"])))
        more = "" if node["stop_after_first"] else f" ({_literal(node['separator'])} {tag})*"
        return f"{tag}{more}" if node["at_least_one"] else f"({tag}{more})?"

    def _triggered(self, node: Format) -> str:
        """Write the rule of tags in free text."""
        names = []
        for tag in node["tags"]:
            begin = str(tag["begin"])
            trigger = next((each for each in node["triggers"] if each and begin.startswith(each)), None)
            if trigger is None:
                raise GuideError("a tag begins with no trigger")
            self.begins.append(begin)
            opened = self._rule("open", f"TEXT {_literal(trigger)}", lazy=True)
            rest = self._tag(tag | {"begin": begin[len(trigger) :]})
            names.append(self._rule("tag", f"{opened} {rest}"))
        if not names:
            raise GuideError("a structural tag needs tags")
        return f"({' | '.join(names)})* TEXT"

    def _rule(self, kind: str, body: str, *, lazy: bool = False) -> str:
        """Add a rule and return its name."""
        name = f"{kind}_{len(self._lines)}"
        self._lines.append(f"{name}{'[lazy]' * lazy}: {body}")
        return name


def _literal(text: Any) -> str:
    return json.dumps(str(text)) if text else ""
