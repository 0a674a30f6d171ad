"""Tell ids of models and URLs from other texts, and secrets from both."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gateway.scan.finding import Task
from gateway.scan.providers import OWN_SERVERS, hosted_task, provider_of, split_prefix

_LONGEST: Final = 128
_HUB: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_BARE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,95}")
_OLLAMA: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,95}(?::[A-Za-z0-9._-]{1,48})?")
_PATH: Final = re.compile(r"(?:\.{1,2}/|/|~/)[^\0\n]{0,500}|[A-Za-z0-9._/-]{1,200}\.(?:gguf|safetensors)")
#: What stands in names of language and embedding models, and hardly in anything else of the form ORG/NAME.
_FAMILIES: Final = re.compile(
    r"llama|mistral|mixtral|ministral|qwen|qwq|gemma|phi-?[1-4]|deepseek|falcon|yi-\d|gpt-oss|gpt2|gpt-neo|gpt-j|granite|command-r"
    r"|starcoder|zephyr|vicuna|nomic-embed|glm-?\d|chatglm|olmo|smollm|bloom|flan|t5-|pythia|opt-\d|mpt-\d|dbrx|arctic|nemotron"
    r"|bge-|e5-|gte-|minilm|mpnet|jina-|mxbai|sentence-t5|bert|kimi|minimax|exaone|internlm|baichuan|solar-|hermes"
    r"|tinyllama|stablelm|codestral|devstral|magistral|jamba|aya-|whisper|stable-diffusion|sdxl|flux|clip-vit",
    re.I,
)
#: A name and a size of Ollama's library.
_TAGGED: Final = re.compile(
    r"[a-z][a-z0-9.-]{1,48}:(?:\d{1,3}(?:\.\d)?b|\d{1,2}x\d{1,2}b|latest|mini|medium|small)(?:-[a-z0-9_.-]{1,40})?"
)
_OWNERS: Final = ("google/", "openai/", "mistralai/")
_NOT_ORGS: Final = frozenset(
    {
        "text",
        "application",
        "image",
        "audio",
        "video",
        "multipart",
        "font",
        "models",
        "model",
        "src",
        "app",
        "api",
        "v1",
    }
)
_NOT_ENDS: Final = (
    ".py",
    ".js",
    ".ts",
    ".json",
    ".yaml",
    ".yml",
    ".html",
    ".txt",
    ".md",
    ".sh",
    ".css",
    ".png",
    ".jpg",
)
#: What stands where a model is still to be named, and names of headers.
_PLACEHOLDER: Final = re.compile(
    r"<|x-|(?:your|my|some|the)[-_ ]?(?:model|org|llm|deployment)|path[-_/]to|example[-_/]", re.I
)
_SECRET: Final = re.compile(
    r"(?:sk|pk|rk|hf|gsk|xai|ghp|gho|ghs|glpat|xox[abprs]|AKIA|AIza|eyJ|r8|pplx|tgp|nvapi|lsv2)[-_A-Za-z0-9]{14,}"
    r"|[A-Fa-f0-9]{32,}|(?=[A-Za-z0-9+/_-]*[0-9])(?=[A-Za-z0-9+/_-]*[A-Z])(?=[A-Za-z0-9+/_-]*[a-z])[A-Za-z0-9+/_]{28,}={0,2}"
)
_SECRET_NAME: Final = re.compile(
    r"(?:^|[_.-])(?:key|keys|apikey|token|secret|password|passwd|pass|pwd|credentials?|auth|cookie|private|dsn|salt)"
    r"(?:$|[_.-])",
    re.I,
)
_MODEL_KEY: Final = re.compile(
    r"(?:^|[_-])(?:model|llm)(?:[_-]?(?:id|name|path|repo|checkpoint|ur[li]))?$|(?:^|[_-])repo[_-]?id$"
    r"|(?:^model|[a-z]Model)(?:I[Dd]|Name|Path|U[Rr][LlIi])?$|^(?:storageUri|default_models?)$"
)
_HUB_TASKS: Final = (
    (re.compile(r"rerank|cross-encoder|ms-marco", re.I), Task.RERANK),
    (
        re.compile(r"bge-|e5-|gte-|minilm|mpnet|embed|jina-emb|mxbai|sentence-t5|sentence-transformers/", re.I),
        Task.EMBED,
    ),
    (re.compile(r"whisper|wav2vec|speecht5|bark|tts|parakeet", re.I), Task.SPEECH),
    (
        re.compile(r"stable-diffusion|sdxl|flux|diffusion|controlnet|clip-|/vit-|/detr-|segformer|/sam-", re.I),
        Task.IMAGE,
    ),
    (re.compile(r"(?:^|/|-)(?:distil|ro|de)?bert", re.I), Task.CLASSIFY),
)


@dataclass(frozen=True, slots=True)
class ModelId:
    """A text taken apart: the model, its provider (or the kind of one's own server), and whether it is hosted."""

    name: str
    provider: str
    hosted: bool
    task: Task


def is_model_key(name: str) -> bool:
    """Whether a key, keyword or field of this name has a model, as `model`, `embedding_model_name`, `modelId`."""
    return len(name) <= 64 and _MODEL_KEY.search(name) is not None


def looks_secret(text: str) -> bool:
    """Whether a text has the form of a key or token, which is then shown nowhere."""
    return any(_SECRET.fullmatch(part) is not None for part in re.split(r"[/:@?&=\s]", text))


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name has a secret, by its words."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return _SECRET_NAME.search(words) is not None


def hub_id(text: str) -> str | None:
    """A Hugging Face id, with or without an owner, as callers of `from_pretrained` give it; None for other texts."""
    if len(text) > _LONGEST or looks_secret(text) or text.lower().endswith(_NOT_ENDS) or _PLACEHOLDER.match(text):
        return None
    if "/" not in text:
        return text if _BARE.fullmatch(text) else None
    return text if _HUB.fullmatch(text) and text.partition("/")[0].lower() not in _NOT_ORGS else None


def local_path(text: str) -> str | None:
    """A path of files of weights; None for other texts."""
    return text if _PATH.fullmatch(text) and not looks_secret(text) and text.isprintable() else None


def ollama_id(text: str) -> str | None:
    """A name in Ollama's library, such as `llama3.1:8b`; None for other texts."""
    if len(text) > _LONGEST or looks_secret(text) or _PLACEHOLDER.match(text):
        return None
    return text if _OLLAMA.fullmatch(text) else None


def hub_task(text: str) -> Task:
    """Guess what a model of the hub is for by its name; UNKNOWN where nothing says it."""
    found = next((task for pattern, task in _HUB_TASKS if pattern.search(text)), None)
    return found or (Task.GENERATE if _FAMILIES.search(text) else Task.UNKNOWN)


def recognised(text: str) -> ModelId | None:
    """Take a text for a model wherever it stands; only forms that mean little else: known ids, prefixes, families."""
    if not 2 <= len(text) <= _LONGEST or looks_secret(text):
        return None
    prefix, rest = split_prefix(text)
    if prefix in OWN_SERVERS:
        name = ollama_id(rest) if prefix.startswith("ollama") else hub_id(rest)
        return None if name is None else ModelId(name, prefix, False, hub_task(name))
    if provider := provider_of(text):
        return ModelId(text, provider, True, hosted_task(text))
    # `google/` and `openai/` are owners of the hub's models as well: google/gemma-2-9b-it, openai/gpt-oss-20b.
    owned = text[: -len(rest)] in _OWNERS and not provider_of(rest) and bool(_FAMILIES.search(rest))
    if prefix and not owned:
        if not _OLLAMA.fullmatch(rest) or rest.lower().endswith(_NOT_ENDS):
            return None
        return ModelId(rest, prefix, True, hosted_task(rest))
    if _TAGGED.fullmatch(text) and _FAMILIES.search(text):
        return ModelId(text, "ollama", False, hub_task(text))
    name = hub_id(text)
    if name is not None and "/" in name and _FAMILIES.search(name):
        return ModelId(name, "huggingface", False, hub_task(name))
    return None


def plain_url(text: str) -> str | None:
    """An http URL without user, password, query and fragment; None for other texts and where a part is a secret."""
    if len(text) > 512 or not text.isprintable() or any(character in text for character in " <>{}\"'`$"):
        return None
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host or looks_secret(parts.path):
        return None
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
