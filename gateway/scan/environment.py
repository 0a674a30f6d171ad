"""Variables of the application's environment: values of models and URLs, and only the names of secrets."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.scan.finding import Finding, Kind
from gateway.scan.names import is_secret_name, local_path, looks_secret, ollama_id, plain_url, recognised
from gateway.scan.providers import PROVIDERS, provider_at

_KEY: Final = re.compile(r"(?:[A-Z0-9_]*_)?(?:API_?KEY|API_?TOKEN|HF_TOKEN|HUGGING_?FACE(?:HUB)?_(?:API_)?TOKEN)")
_OF_MODELS: Final = re.compile(
    r"OPENAI|ANTHROPIC|LLM|VLLM|SGLANG|OLLAMA|TGI|TRT|AZURE|MISTRAL|GROQ|TOGETHER|GEMINI|COHERE|DEEPSEEK|OPENROUTER"
    r"|FIREWORKS|XAI|INFERENCE|EMBED|RERANK|CHAT|COMPLETION|MODEL|HUGGING|HF_|LANGCHAIN|AI_"
)
_URL: Final = re.compile(r"URL|BASE|ENDPOINT|HOST|ADDRESS|SERVER")
_MODEL: Final = re.compile(r"(?:^|_)(?:MODEL|MODELS|LLM|DEPLOYMENT)(?:$|_)|MODEL$")


@dataclass(slots=True)
class Environment:
    """Values by name, of those that are a model's id, a path or a URL; no other value is kept."""

    values: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def learn(self, name: str, value: str) -> None:
        """Keep a value if it may be used as a model or URL, and neither name nor value look like a secret's."""
        if is_secret_name(name) or looks_secret(value) or len(self.values) > 10_000:
            return
        kept = plain_url(value) or local_path(value) or ollama_id(value)
        if kept is not None and kept not in (known := self.values.get(name, ())) and len(known) < 8:
            self.values[name] = (*known, kept)


def variable_findings(file: str, line: int, name: str, value: str) -> Iterator[Finding]:
    """Yield what one variable says: that it has a key, or where an API is, or which model is used."""
    if _KEY.fullmatch(name):
        provider = next((one.name for one in PROVIDERS.values() if one.key == name), "")
        yield Finding(file=file, line=line, kind=Kind.KEY, value=name, how="variable", provider=provider)
        return
    if is_secret_name(name) or not _OF_MODELS.search(name.upper()):
        return
    if _URL.search(name.upper()) and (url := plain_url(value)) is not None:
        yield Finding(
            file=file, line=line, kind=Kind.CLIENT, value=url, how=name, base_url=url, provider=provider_at(url)
        )
    elif _MODEL.search(name.upper()) and (found := recognised(value)) is not None:
        yield Finding(
            file=file,
            line=line,
            kind=Kind.HOSTED if found.hosted else Kind.ASKED,
            value=found.name,
            how=name,
            provider=found.provider,
            task=found.task,
        )


_LINE: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]{0,127})\s*=\s*(.*)")


def env_file(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and value of each assignment of an environment file."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) <= 4096 and (match := _LINE.match(line)):
            yield number, match[1], unquoted(match[2])


def unquoted(value: str) -> str:
    """A value without its quotes, or without the comment behind it."""
    value = value.strip()
    if value[:1] in ("'", '"') and (end := value.find(value[0], 1)) > 0:
        return value[1:end]
    return value.partition(" #")[0].strip()


_REFERENCE: Final = re.compile(
    r"\$\{([A-Za-z_][A-Za-z0-9_]{0,127})(?::?[-=]([^${}]{0,200}))?\}|\$([A-Za-z_][A-Za-z0-9_]{0,127})"
)


def expanded(text: str, values: Mapping[str, tuple[str, ...]]) -> str:
    """A text with references as a shell has them filled in, from their defaults or known variables; others stay."""

    def filled(match: re.Match[str]) -> str:
        known = values.get(match[1] or match[3], ())
        return known[0] if known else match[2] or match[0]

    return _REFERENCE.sub(filled, text) if "$" in text else text
