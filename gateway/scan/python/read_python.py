"""Findings of Python modules: which calls, dictionaries and constants name models, clients and keys."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.scan.environment import Environment
from gateway.scan.files.urls import url_findings
from gateway.scan.finding import Finding, Kind, Task
from gateway.scan.names import hub_id, hub_task, is_model_key, local_path, ollama_id, plain_url, recognised
from gateway.scan.providers import (
    BASE_VARIABLES,
    OWN_SERVERS,
    PROVIDERS,
    hosted_task,
    provider_at,
    provider_of,
    split_prefix,
)
from gateway.scan.python.call_rules import CALLS, CLASSES, CLIENTS, OPTIONS, PIPELINES, CallRule
from gateway.scan.python.constants import Constants, Module, Scope, dotted, imported, keywords_of

#: Parts of a client's methods, after which the name of the call is one of an API.
_API_PARTS: Final = ("completions", "responses", "messages", "embeddings", "models", "chat", "fim")
_API_CALLS: Final = (
    "create",
    "parse",
    "stream",
    "with_raw_response",
    "complete",
    "count_tokens",
    "generate_content",
    "generate_content_stream",
    "embed_content",
)
_NOT_TEXT: Final = (
    "images",
    "audio",
    "transcriptions",
    "speech",
    "translations",
    "fine_tuning",
    "moderations",
    "videos",
    "files",
)
_PART_ENDS: Final = ("Tokenizer", "TokenizerFast", "Processor", "Config", "FeatureExtractor")


@dataclass(frozen=True, slots=True)
class _Client:
    """Where a call goes: the provider that its client asks, its base URL and the variable of its key."""

    provider: str = ""
    base_url: str = ""
    key: str = ""


class PythonReader:
    """Yields the findings of modules, which may refer to each other."""

    def __init__(self, constants: Constants, environment: Environment) -> None:
        self._constants = constants
        self._environment = environment
        self._only: dict[str, tuple[Module, Scope, ast.Call] | None] = {}

    def findings(self, module: Module) -> Iterator[Finding]:
        """Yield what one module says."""
        for line, text in module.texts:
            yield from url_findings(module.file, line, text)
        for scope, call in module.calls:
            yield from self._call(module, scope, call)
        for scope, entry in module.dictionaries:
            yield from self._dictionary(module, scope, entry)
        yield from self._named_constants(module)

    def _call(self, module: Module, scope: Scope, call: ast.Call) -> Iterator[Finding]:
        full = imported(module, call.func)
        parts = full.split(".")
        last, root = parts[-1], parts[0]
        if last in ("getenv", "environ.get") or full.endswith("environ.get"):
            yield from self._key(module, call)
        rule = next((one for one in CALLS.get(last, ()) if not one.roots or root in one.roots), None)
        keywords = keywords_of(call)
        if (
            last in _API_CALLS
            and not (len(parts) > 1 and parts[-2] in _API_PARTS)
            and root not in ("openai", "litellm")
        ):
            rule = None if last != "generate_content" else rule
        if not set(_NOT_TEXT).isdisjoint(parts):
            rule = None
        if rule is None:
            yield from self._generic(module, scope, call, keywords)
            return
        client = self._client_of_call(module, scope, call) if last in CLIENTS else _Client()
        if client.base_url or client.provider in BASE_VARIABLES:
            yield Finding(
                file=module.file,
                line=call.lineno,
                kind=Kind.CLIENT,
                value=client.base_url or client.provider,
                how=last,
                base_url=client.base_url,
                provider=client.provider,
                key_variable=client.key,
            )
        node = next((keywords[name] for name in rule.keywords if name in keywords), None)
        position = 1 if root == "peft" and last == "from_pretrained" else rule.position
        if node is None and position is not None and position < len(call.args):
            node = call.args[position]
        for value in self._constants.values(module, scope, node):
            yield from self._model(module, scope, call, rule, value)

    def _model(self, module: Module, scope: Scope, call: ast.Call, rule: CallRule, value: str) -> Iterator[Finding]:
        name = imported(module, call.func)
        how = ".".join(name.split(".")[-3:])
        if rule.source == "hub":
            yield from self._weights(module, scope, call, rule, value)
            return
        if rule.source == "ollama":
            if (model := ollama_id(value)) is not None:
                task = Task.EMBED if rule.task is Task.EMBED or "embed" in model else Task.GENERATE
                client = self._client(module, scope, call, name)
                yield self._at(module, call, Kind.ASKED, model, how, "ollama", task, client, engine="ollama")
            return
        client = self._client(module, scope, call, name)
        keywords = keywords_of(call)
        given = next(iter(self._constants.values(module, scope, keywords.get("model_provider"))), "")
        found = recognised(value)
        if found is not None and not (client.base_url and not provider_at(client.base_url)):
            provider = found.provider
            if client.base_url and provider_at(client.base_url):
                provider = provider_at(client.base_url)
            elif given or rule.provider in ("azure", "groq", "together", "fireworks", "vertex", "bedrock"):
                provider = given or rule.provider
            elif client.provider in ("azure", "groq", "together"):
                provider = client.provider
            hosted = found.hosted or provider in PROVIDERS
            yield self._at(
                module,
                call,
                Kind.HOSTED if hosted else Kind.ASKED,
                found.name,
                how,
                provider,
                rule.task or found.task,
                client,
            )
            return
        if rule.source == "prefixed" and not client.base_url:
            if found is None and given and (model := ollama_id(value)):
                yield self._at(module, call, Kind.HOSTED, model, how, given, rule.task or hosted_task(model), client)
            return
        model = found.name if found is not None and rule.source == "prefixed" else ollama_id(value)
        if model is None:
            return
        task = Task.EMBED if "embeddings" in name else rule.task or hub_task(model)
        task = Task.GENERATE if task is Task.UNKNOWN else task
        provider = provider_at(client.base_url) or ("" if client.base_url else rule.provider or client.provider)
        hosted = provider in PROVIDERS and (
            bool(client.base_url) or provider not in ("openai",) or bool(provider_of(model))
        )
        yield self._at(module, call, Kind.HOSTED if hosted else Kind.ASKED, model, how, provider, task, client)

    def _weights(self, module: Module, scope: Scope, call: ast.Call, rule: CallRule, value: str) -> Iterator[Finding]:
        name = local_path(value) or hub_id(value)
        if name is None:
            return
        full = imported(module, call.func)
        parts = full.split(".")
        owner = parts[-2] if len(parts) > 1 and parts[-1].startswith("from_") else ""
        kind, task = Kind.WEIGHTS, rule.task
        if parts[0] == "peft" or owner.endswith(_PART_ENDS):
            kind = Kind.PART
        elif task is None:
            meant = next((what for starts, what in CLASSES if owner.startswith(starts)), None)
            if meant == "part":
                kind = Kind.PART
            elif isinstance(meant, Task):
                task = meant
            if parts[0] == "diffusers":
                task = Task.IMAGE
        keywords = keywords_of(call)
        if parts[-1] == "pipeline":
            node = keywords.get("task") or (call.args[0] if call.args else None)
            task = next(
                (PIPELINES[each] for each in self._constants.values(module, scope, node) if each in PIPELINES), None
            )
        options = dict(self._options(module, scope, keywords))
        filename = next(iter(self._constants.values(module, scope, keywords.get("filename"))), "")
        if filename.endswith(".gguf"):
            options["weights_file"] = filename
        yield Finding(
            file=module.file, line=call.lineno, kind=kind, value=name, how=".".join(parts[-2:]), provider=rule.provider,
            task=task or hub_task(name), engine=rule.engine, options=options,
        )  # fmt: skip

    def _options(self, module: Module, scope: Scope, keywords: Mapping[str, ast.expr]) -> Iterator[tuple[str, str]]:
        for argument, option in OPTIONS.items():
            node = keywords.get(argument)
            if argument.startswith("load_in_"):
                if isinstance(node, ast.Constant) and node.value is True:
                    yield option, argument.removeprefix("load_in_")
            elif values := self._constants.values(module, scope, node):
                yield option, values[0]

    def _at(
        self, module: Module, call: ast.expr, kind: Kind, value: str, how: str, provider: str, task: Task,
        client: _Client, engine: str = "",
    ) -> Finding:  # fmt: skip
        return Finding(
            file=module.file, line=call.lineno, kind=kind, value=value, how=how, provider=provider, task=task,
            base_url=client.base_url, key_variable=client.key, engine=engine or OWN_SERVERS.get(provider, ""),
        )  # fmt: skip

    def _client(self, module: Module, scope: Scope, call: ast.Call, name: str) -> _Client:
        """Find the client that a call goes through: the call itself, what it is called on, or the file's only one."""
        parts = dotted(call.func).split(".")
        if parts[-1] in CLIENTS or len(parts) == 1 or name.split(".")[0] == "litellm":
            return self._client_of_call(module, scope, call)
        if name.startswith("openai."):
            nodes = [each for attr in ("api_base", "base_url") for each in module.attributes.get(attr, ())]
            url = next((url for each in nodes if (url := self._url(module, scope, each))), "")
            return self._with_default("openai", url, "")
        holder = next((parts[at - 1] for at in range(1, len(parts)) if parts[at] in (*_API_PARTS, "beta")), parts[0])
        found = self._made(module, holder, 0)
        if not found:
            found = self._only_client(module)
        return self._client_of_call(*found) if found else _Client()

    def _only_client(self, module: Module) -> tuple[Module, Scope, ast.Call] | None:
        """The call that makes the module's client, if there is one such call."""
        if module.file not in self._only:
            every = [(module, at, one) for at, one in module.calls if dotted(one.func).rpartition(".")[2] in CLIENTS]
            self._only[module.file] = every[0] if len(every) == 1 else None
        return self._only[module.file]

    def _made(self, module: Module, name: str, depth: int) -> tuple[Module, Scope, ast.Call] | None:
        """Find the call that makes what a name holds, through functions that return it and through other modules."""
        if depth > 4:
            return None
        for scope, call in module.made.get(name, ())[:8]:
            last = dotted(call.func).rpartition(".")[2]
            if last in CLIENTS:
                return module, scope, call
            if last != name and (found := self._made(module, last, depth + 1)) is not None:
                return found
        target = module.imports.get(name, "")
        path, _, attribute = target.rpartition(".")
        elsewhere = self._constants.module(path) if path else None
        return None if elsewhere is None or elsewhere is module else self._made(elsewhere, attribute, depth + 1)

    def _client_of_call(self, module: Module, scope: Scope, call: ast.Call) -> _Client:
        keywords, name = keywords_of(call), dotted(call.func).rpartition(".")[2]
        rule = CallRule()
        url = next((url for each in rule.urls if (url := self._url(module, scope, keywords.get(each)))), "")
        key = next(
            (key for each in rule.keys if (key := self._constants.variable(module, scope, keywords.get(each)))), ""
        )
        if not url and name in CLIENTS and "provider" in keywords and isinstance(keywords["provider"], ast.Call):
            return self._client_of_call(module, scope, keywords["provider"])
        return self._with_default(CLIENTS.get(name, ""), url, key)

    def _with_default(self, provider: str, url: str, key: str) -> _Client:
        """A client; one without a base URL goes by the variable that its library reads."""
        for name in () if url else BASE_VARIABLES.get(provider, ()):
            url = url or next(
                (found for value in self._environment.values.get(name, ()) if (found := plain_url(value))), ""
            )
        return _Client(provider_at(url) or ("" if url else provider), url, key)

    def _url(self, module: Module, scope: Scope, node: ast.expr | None) -> str:
        return next((url for text in self._constants.values(module, scope, node) if (url := plain_url(text))), "")

    def _key(self, module: Module, call: ast.Call) -> Iterator[Finding]:
        if call.args and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str):
            name = call.args[0].value
            provider = next((one.name for one in PROVIDERS.values() if one.key == name), "")
            if provider:
                yield Finding(
                    file=module.file, line=call.lineno, kind=Kind.KEY, value=name, how="variable", provider=provider
                )

    def _generic(
        self, module: Module, scope: Scope, call: ast.Call, keywords: Mapping[str, ast.expr]
    ) -> Iterator[Finding]:
        for value in self._constants.values(module, scope, keywords.get("id")):
            if split_prefix(value)[0]:
                yield from self._loose(module, scope, call, value, "id=", _Client())
        for argument in filter(is_model_key, keywords):
            for value in self._constants.values(module, scope, keywords[argument]):
                yield from self._loose(
                    module, scope, call, value, f"{argument}=", self._client_of_call(module, scope, call)
                )

    def _dictionary(self, module: Module, scope: Scope, entry: ast.Dict) -> Iterator[Finding]:
        items = {
            key.value: value
            for key, value in zip(entry.keys, entry.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
        if "litellm_params" in items:
            return  # its `model_name` is what clients send, and the model stands in the inner one
        for value in self._constants.values(module, scope, items.get("id")):
            if split_prefix(value)[0]:
                yield from self._loose(module, scope, entry, value, '"id":', _Client())
        for name in filter(is_model_key, items):
            rule = CallRule()
            url = next((url for each in rule.urls if (url := self._url(module, scope, items.get(each)))), "")
            key = next(
                (key for each in rule.keys if (key := self._constants.variable(module, scope, items.get(each)))), ""
            )
            for value in self._constants.values(module, scope, items[name]):
                yield from self._loose(module, scope, entry, value, f'"{name}":', _Client("", url, key))

    def _loose(
        self, module: Module, scope: Scope, node: ast.expr, value: str, how: str, client: _Client
    ) -> Iterator[Finding]:
        """Yield a model of a place that might as well hold anything else: only where the text can mean nothing else."""
        found = recognised(value)
        if found is None:
            return
        own = bool(client.base_url) and not provider_at(client.base_url)
        kind = Kind.HOSTED if found.hosted and not own else Kind.ASKED
        yield self._at(module, node, kind, found.name, how, "" if own else found.provider, found.task, client)

    def _named_constants(self, module: Module) -> Iterator[Finding]:
        named = [(name, each) for names in module.constants.values() for name, nodes in names.items() for each in nodes]
        for name, node in named:
            if not is_model_key(name.lower()):
                continue
            for value in self._constants.values(module, (), node):
                yield from self._loose(module, (), node, value, name, _Client())
