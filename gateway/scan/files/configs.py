"""YAML, JSON and TOML: keys that name models, commands of containers, LiteLLM's lists, and environments."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import yaml

from gateway.scan.environment import Environment, expanded, variable_findings
from gateway.scan.files.commands import command_findings
from gateway.scan.files.urls import base_of, url_findings
from gateway.scan.finding import Finding, Kind, Task
from gateway.scan.names import hub_task, is_model_key, is_secret_name, ollama_id, plain_url, recognised
from gateway.scan.providers import OWN_SERVERS, PROVIDERS, provider_at, split_prefix

_URL_KEYS: Final = ("api_base", "base_url", "baseUrl", "baseURL", "openai_api_base", "endpoint", "url", "api_url")
_KEY_KEYS: Final = ("api_key", "apiKey", "api_key_env", "key")
_VARIABLE: Final = re.compile(r"(?:os\.environ/|\$\{?(?:env[.:])?|env:)?([A-Z][A-Z0-9_]{2,127})(?::?-?[^}]{0,64})?\}?")
#: Keys of lists of models, as of promptfoo's `providers`.
_LISTS: Final = ("models", "providers", "llms")
_MOST_NODES: Final = 200_000
#: Texts that are written otherwise than they read, after which lines are only those of what went before.
_MOST_MISSES: Final = 2_000
#: YAML is read at 100 KB a second.
_MOST_YAML: Final = 256 << 10


class UnreadableError(ValueError):
    """A file that is not of its format; the text says why."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value with the line that it stands in; of a mapping, `value` has nodes by key."""

    line: int
    value: "dict[str, Node] | list[Node] | str"


def parse_config(name: str, text: str) -> list[Node]:
    """Read the documents of a file by its name's ending.

    Raises:
        UnreadableError: It is not of that format, or nested too deeply.
    """
    try:
        if name.endswith(".json"):
            return [_plain(json.loads(text), _Lines(text), 0)]
        if name.endswith(".toml"):
            return [_plain(tomllib.loads(text), _Lines(text), 0)]
        if len(text) > _MOST_YAML:
            raise UnreadableError(f"larger than {_MOST_YAML >> 10} KiB of YAML")
        budget = [_MOST_NODES]
        return [
            _composed(document, budget, frozenset()) for document in yaml.compose_all(text, yaml.SafeLoader) if document
        ]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise UnreadableError(f"line {mark.line + 1 if mark else 1}: no YAML that can be read") from error
    except yaml.YAMLError as error:
        raise UnreadableError("no YAML that can be read") from error
    except RecursionError as error:
        raise UnreadableError("nested too deeply") from error
    except ValueError as error:
        kind = "TOML" if name.endswith(".toml") else "JSON"
        line = getattr(error, "lineno", 1)
        raise UnreadableError(f"line {line}: no {kind} that can be read") from error


class _Lines:
    """Finds the lines of texts in the order in which they stand in a file, whose parser tells no lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._misses = 0

    def of(self, value: str) -> int:
        """The line of the next mention of a text; the last one found where there is none."""
        wanted = value.splitlines()[0] if value.strip() and self._misses < _MOST_MISSES else ""
        at = self._text.find(wanted, self._at) if wanted else -1
        self._misses += at < 0
        if at >= 0:
            self._line += self._text.count("\n", self._at, at)
            self._at = at
        return self._line


def _plain(value: object, lines: _Lines, depth: int) -> Node:
    if depth > 200:
        raise RecursionError
    line = lines.of(value) if isinstance(value, str) else lines.of("")
    if isinstance(value, dict):
        found = {}
        for key, inner in value.items():
            line = lines.of(str(key))
            found[str(key)] = _plain(inner, lines, depth + 1)
        return Node(line, found)
    if isinstance(value, list):
        return Node(line, [_plain(inner, lines, depth + 1) for inner in value])
    return Node(line, str(value))


def _composed(node: yaml.Node, budget: list[int], within: frozenset[int]) -> Node:
    """Make values of YAML's nodes. What is referred to many times counts each time, up to a bound; circles end."""
    budget[0] -= 1
    line = node.start_mark.line + 1
    if budget[0] < 0 or id(node) in within or len(within) > 200:
        return Node(line, "")
    inside = within | {id(node)}
    if isinstance(node, yaml.MappingNode):
        pairs = [(key.value, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
        return Node(line, {str(key): _composed(value, budget, inside) for key, value in pairs})
    if isinstance(node, yaml.SequenceNode):
        return Node(line, [_composed(each, budget, inside) for each in node.value])
    return Node(line, str(node.value))


class ConfigReader:
    """Yields the findings of one file of configuration."""

    def __init__(self, file: str, environment: Environment) -> None:
        self._file = file
        self._environment = environment

    def learn(self, node: Node) -> None:
        """Note the variables that environments of containers set, before any command is read."""
        for name, value, _ in self._variables(node):
            self._environment.learn(name, value)

    def findings(self, documents: list[Node]) -> Iterator[Finding]:
        """Yield what the documents of the file say."""
        for document in documents:
            yield from self._of(document, "")

    def _of(self, node: Node, key: str) -> Iterator[Finding]:
        value = node.value
        if isinstance(value, str):
            yield from self._text(node.line, key, value)
            return
        if isinstance(value, list):
            for each in value:
                yield from self._of(each, key)
            return
        if (parameters := value.get("litellm_params")) is not None and isinstance(parameters.value, dict):
            yield from self._litellm(value, parameters.value)
            return
        yield from self._container(value, key)
        environment = [name for name in ("environment", "env", "ENV") if name in value]
        for name, content, line in self._variables(node):
            yield from variable_findings(self._file, line, name, expanded(content, self._environment.values))
            if content.lstrip()[:1] in ("[", "{"):
                yield from self._text(line, name, content)
        yield from self._models(value, key)
        for name, inner in value.items():
            if name not in environment and not is_secret_name(name):
                # The name of a service is the host that its containers are found at.
                yield from self._of(inner, name)

    def _text(self, line: int, key: str, text: str) -> Iterator[Finding]:
        if text.lstrip()[:1] in ("[", "{") and (inner := _as_json(text)) is not None:
            yield from self._of(_at_line(inner, line), key)
            return
        yield from url_findings(self._file, line, text[:4096])
        if key in ("run", "script", "cmd") or "serve" in text or "launch_server" in text:
            for offset, each in enumerate(text.splitlines()[:2000]):
                yield from command_findings(self._file, line + offset, each, self._environment.values)

    def _models(self, mapping: Mapping[str, Node], section: str) -> Iterator[Finding]:
        """Yield the models that keys of a mapping name; who serves them stands beside them, or over them."""
        texts = {name: node.value for name, node in mapping.items() if isinstance(node.value, str)}
        url = next((found for name in _URL_KEYS if (found := self._url(texts.get(name, "")))), "")
        variable = next((found for name in _KEY_KEYS if (found := _variable(texts.get(name, "")))), "")
        beside = texts.get("provider", "") or texts.get("model_provider", "") or texts.get("type", "")
        beside = beside or section
        for name, node in mapping.items():
            values = node.value if isinstance(node.value, list) else [node]
            # Of several, each is a model only by its own form: `providers` may be anybody's.
            listed = name in _LISTS and isinstance(node.value, list)
            entry = section.lower() in _LISTS and name in ("id", "name")
            for each in values if is_model_key(name) or listed or entry else ():
                if isinstance(each.value, str):
                    yield from self._model(each.line, name, each.value, url, variable, beside.lower())

    def _model(self, line: int, key: str, text: str, url: str, variable: str, provider: str) -> Iterator[Finding]:
        text = expanded(text, self._environment.values).removeprefix("hf://")
        found, at = recognised(text), provider_at(url)
        if found is None:
            name = ollama_id(text)
            # A name that says nothing by itself is a model's where a server or provider stands beside it.
            if name is None or not (
                provider in OWN_SERVERS or provider in PROVIDERS or (url.endswith("/v1") and not at)
            ):
                return
            hosted, task = provider in PROVIDERS and not url, hub_task(name)
        else:
            name, task = found.name, found.task
            hosted = found.hosted and (not url or bool(at))
            provider = at or ("" if url else provider if provider in PROVIDERS and found.hosted else found.provider)
        yield Finding(
            file=self._file, line=line, kind=Kind.HOSTED if hosted else Kind.ASKED, value=name, how=f"{key}:",
            provider=provider, task=Task.GENERATE if task is Task.UNKNOWN else task, base_url=url,
            key_variable=variable, engine=OWN_SERVERS.get(provider, ""),
        )  # fmt: skip

    def _litellm(self, entry: Mapping[str, Node], parameters: Mapping[str, Node]) -> Iterator[Finding]:
        """Yield a model of LiteLLM's `model_list`; docs.litellm.ai/docs/proxy/configs."""
        texts = {name: node.value for name, node in parameters.items() if isinstance(node.value, str)}
        text = expanded(texts.get("model", ""), self._environment.values)
        provider, rest = split_prefix(text)
        url = self._url(texts.get("api_base", "") or texts.get("base_url", ""))
        name = ollama_id(rest)
        if name is None:
            return
        own = provider in OWN_SERVERS or (bool(url) and not provider_at(url) and provider in ("", "openai"))
        known = recognised(text)
        provider = provider or (known.provider if known is not None else "")
        alias = entry["model_name"].value if "model_name" in entry else ""
        served = (alias,) if isinstance(alias, str) and ollama_id(alias) and alias not in (name, "*") else ()
        yield Finding(
            file=self._file, line=parameters["model"].line, value=name, how="litellm_params",
            kind=Kind.HOSTED if provider in PROVIDERS and not own else Kind.ASKED,
            provider="" if own and provider == "openai" else provider,
            task=known.task if known and known.task is not Task.UNKNOWN else Task.GENERATE, base_url=url,
            key_variable=_variable(texts.get("api_key", "")), engine=OWN_SERVERS.get(provider, "") if own else "",
            served_as=served,
        )  # fmt: skip

    def _container(self, mapping: Mapping[str, Node], service: str) -> Iterator[Finding]:
        """Yield what the command of a container serves, of compose files and of Kubernetes' manifests alike."""
        image = mapping["image"].value if "image" in mapping else ""
        image = expanded(image, self._environment.values) if isinstance(image, str) else ""
        parts, line = [], 0
        for name in ("entrypoint", "command", "args"):
            if name in mapping:
                line = line or mapping[name].line
                parts.append(_joined(mapping[name]))
        host = mapping["name"].value if "name" in mapping and isinstance(mapping["name"].value, str) else service
        if parts and (image or "command" in mapping):
            yield from command_findings(
                self._file, line, " ".join(parts), self._environment.values, image, host if image else ""
            )

    def _variables(self, node: Node) -> Iterator[tuple[str, str, int]]:
        """Yield name, value and line of each variable of a mapping's environment, in any of the usual forms."""
        if not isinstance(node.value, dict):
            return
        for key in ("environment", "env", "ENV"):
            inner = node.value.get(key)
            if inner is None:
                continue
            if isinstance(inner.value, dict):
                for name, each in inner.value.items():
                    if isinstance(each.value, str):
                        yield name, each.value, each.line
            elif isinstance(inner.value, list):
                for each in inner.value:
                    if isinstance(each.value, str):
                        name, _, value = each.value.partition("=")
                        yield name, value, each.line
                    elif isinstance(each.value, dict) and "name" in each.value:
                        named, given = each.value["name"].value, each.value.get("value", Node(0, "")).value
                        if isinstance(named, str) and isinstance(given, str):
                            yield named, given, each.line

    def learn_all(self, documents: list[Node]) -> None:
        """Note the variables of all containers of the file."""
        waiting = list(documents)
        while waiting:
            node = waiting.pop()
            self.learn(node)
            if isinstance(node.value, dict):
                waiting.extend(node.value.values())
            elif isinstance(node.value, list):
                waiting.extend(node.value)

    def _url(self, text: object) -> str:
        url = plain_url(expanded(text, self._environment.values)) if isinstance(text, str) else None
        return base_of(url) if url is not None else ""


def _as_json(text: str) -> Node | None:
    """A text that is JSON itself, as a variable with a list of models; None for any other."""
    try:
        return _plain(json.loads(text), _Lines(text), 0)
    except (ValueError, RecursionError):
        return None


def _at_line(node: Node, first: int) -> Node:
    """A value within a text, by the lines of the file that the text begins at."""
    value = node.value
    if isinstance(value, dict):
        value = {key: _at_line(each, first) for key, each in value.items()}
    elif isinstance(value, list):
        value = [_at_line(each, first) for each in value]
    return Node(first + node.line, value)


def _joined(node: Node) -> str:
    if isinstance(node.value, str):
        return node.value
    if isinstance(node.value, list):
        words = [each.value for each in node.value if isinstance(each.value, str)]
        # A word with blanks is a command for a shell, as after `sh -c`.
        return " ".join(words)
    return ""


def _variable(text: object) -> str:
    """The name of a variable that a text refers to, as `os.environ/NAME`, `${NAME}`; empty for values."""
    if not isinstance(text, str):
        return ""
    match = _VARIABLE.fullmatch(text.strip())
    return match[1] if match and ("_" in match[1]) and (text != match[1] or is_secret_name(match[1])) else ""


def is_model_folder(document: Node) -> bool:
    """Whether a `config.json` is that of a model's files, which are looked at by themselves."""
    value = document.value
    return isinstance(value, dict) and ("model_type" in value or "architectures" in value)
