"""Providers whose APIs applications ask: addresses, names of key variables, and the forms of their models' ids.

Addresses are those of the providers' documentation for clients of OpenAI's API (`base_url`):
platform.openai.com/docs/api-reference, docs.anthropic.com/en/api/openai-sdk, ai.google.dev/gemini-api/docs/openai,
docs.mistral.ai/api, console.groq.com/docs/openai, docs.together.ai/docs/openai-api-compatibility,
api-docs.deepseek.com, openrouter.ai/docs, docs.x.ai/docs/api-reference,
docs.cohere.com/docs/compatibility-api, docs.fireworks.ai/tools-sdks/openai-compatibility, docs.perplexity.ai,
huggingface.co/docs/inference-providers.
"""

import re
from dataclasses import dataclass
from typing import Final

from gateway.scan.finding import Task


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider. `base_url` is empty where each customer has an address of their own."""

    name: str
    base_url: str
    key: str
    #: The forms of ids that are this provider's alone.
    ids: str = r"(?!)"
    #: What clients write before a model's id to choose the provider, beside its name.
    prefixes: tuple[str, ...] = ()


PROVIDERS: Final = {
    provider.name: provider
    for provider in (
        Provider(
            "openai",
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            r"(?:gpt-(?:3\.5|4|5)[\w.-]*|chatgpt-[\w.-]+|o[134](?:-(?:mini|pro|preview|deep-research)[\w.-]*|-\d{4}[\d-]*)?"
            r"|text-embedding-(?:3-small|3-large|ada-002)|codex-mini[\w.-]*"
            r"|(?:text-)?(?:davinci|babbage|curie|ada)-00\d|gpt-35-turbo[\w-]*"
            r"|omni-moderation[\w-]*|(?:gpt-)?(?:dall-e|image)-[\w.-]+|whisper-1|tts-1(?:-hd)?|sora-[\w-]+)",
            ("text-completion-openai", "openai-chat", "openai-responses"),
        ),
        Provider("anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", r"claude-[\w.-]+"),
        Provider(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "GEMINI_API_KEY",
            r"gemini-[\w.-]+|text-embedding-00\d|gemini-embedding-\d+",
            ("google", "google-gla", "google_genai", "google-genai", "google_ai"),
        ),
        Provider(
            "mistral",
            "https://api.mistral.ai/v1",
            "MISTRAL_API_KEY",
            r"open-(?:mistral|mixtral|codestral)-[\w-]+|(?:codestral|devstral|magistral)-(?:latest|\d{4})|mistral-embed"
            r"|(?:mistral|ministral|pixtral|magistral|devstral)-(?:tiny|small|medium|large|saba|3b|8b|12b)(?:-latest|-\d{4})?",
            ("mistralai",),
        ),
        Provider(
            "cohere",
            "https://api.cohere.ai/compatibility/v1",
            "COHERE_API_KEY",
            r"command-(?:r|a|light|nightly)[\w.-]*|(?:embed|rerank)-(?:english|multilingual|v\d)[\w.-]*",
        ),
        Provider("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        Provider(
            "together",
            "https://api.together.xyz/v1",
            "TOGETHER_API_KEY",
            prefixes=("together_ai", "togetherai"),
        ),
        Provider("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", r"deepseek-(?:chat|reasoner|coder)"),
        Provider("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        Provider("huggingface-router", "https://router.huggingface.co/v1", "HF_TOKEN"),
        Provider("xai", "https://api.x.ai/v1", "XAI_API_KEY", r"grok-[\w.-]+"),
        Provider("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", prefixes=("fireworks_ai",)),
        Provider("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY", r"(?:llama-\S+-)?sonar(?:-[\w.-]+)?"),
        Provider("azure", "", "AZURE_OPENAI_API_KEY", prefixes=("azure_openai", "azure_ai", "azure-openai")),
        Provider(
            "bedrock",
            "",
            "AWS_BEARER_TOKEN_BEDROCK",
            r"(?:(?:us|eu|apac|global)\.)?(?:anthropic|amazon|meta|mistral|cohere|ai21|deepseek)\."
            r"[a-z][\w-]*[\w.-]*(?::\d+k?)?",
            ("bedrock_converse", "amazon-bedrock"),
        ),
        Provider(
            "vertex", "", "GOOGLE_APPLICATION_CREDENTIALS", prefixes=("vertex_ai", "google-vertex", "google_vertexai")
        ),
        Provider("voyage", "", "VOYAGE_API_KEY", r"voyage-[\w.-]+", ("voyageai",)),
    )
}
#: What clients write before the id of a model that is served by a server of one's own.
OWN_SERVERS: Final = {
    "hosted_vllm": "vllm",
    "vllm": "vllm",
    "huggingface": "",
    "ollama": "ollama",
    "ollama_chat": "ollama",
    "lm_studio": "",
    "llamafile": "llama.cpp",
    "openai_like": "",
    "sglang": "sglang",
}
_PREFIXES: Final = {
    prefix: provider.name for provider in PROVIDERS.values() for prefix in (provider.name, *provider.prefixes)
}
_IDS: Final = tuple((provider.name, re.compile(provider.ids)) for provider in PROVIDERS.values())
_BY_URL: Final = {
    provider.base_url.split("/")[2]: provider.name for provider in PROVIDERS.values() if provider.base_url
} | {"api.together.ai": "together", "api.cohere.com": "cohere"}

_TASKS: Final = (
    (re.compile(r"embed|voyage-", re.I), Task.EMBED),
    (re.compile(r"rerank", re.I), Task.RERANK),
    (re.compile(r"dall-e|image|sora|imagen", re.I), Task.IMAGE),
    (re.compile(r"whisper|tts|transcribe|audio|realtime", re.I), Task.SPEECH),
    (re.compile(r"moderation", re.I), Task.CLASSIFY),
)


def split_prefix(text: str) -> tuple[str, str]:
    """Split `openai/gpt-4o` or `openai:gpt-4o` into provider (or own server) and id; the provider may be empty."""
    for separator in ("/", ":"):
        prefix, found, rest = text.partition(separator)
        if found and rest and (prefix in _PREFIXES or prefix in OWN_SERVERS):
            return _PREFIXES.get(prefix, prefix), rest
    return "", text


def provider_of(model: str) -> str:
    """Name the provider that alone has ids of this form; empty if there is none."""
    return next((name for name, ids in _IDS if ids.fullmatch(model)), "")


def provider_at(url: str) -> str:
    """Name the provider whose API is at this URL; empty for any other server."""
    host = url.partition("://")[2].partition("/")[0].partition(":")[0].lower()
    if host.endswith((".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")):
        return "azure"
    if host.startswith("bedrock") and host.endswith(".amazonaws.com"):
        return "bedrock"
    return _BY_URL.get(host, "")


def hosted_task(model: str) -> Task:
    """Tell what a provider's model is for by its id."""
    return next((task for pattern, task in _TASKS if pattern.search(model)), Task.GENERATE)


#: Context windows in tokens by the beginning of ids, from the providers' pages of models (platform.openai.com/docs/
#: models, docs.anthropic.com/en/docs/about-claude/models, ai.google.dev/gemini-api/docs/models).
_CONTEXTS: Final = (
    ("gpt-4o", 128_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4-turbo", 128_000),
    ("gpt-4-32k", 32_768),
    ("gpt-4", 8_192),
    ("gpt-3.5-turbo", 16_385),
    ("gpt-5", 400_000),
    ("o1-mini", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("text-embedding-", 8_191),
    ("claude-", 200_000),
    ("gemini-1.5-pro", 2_097_152),
    ("gemini-1.5-flash", 1_048_576),
    ("gemini-2", 1_048_576),
    ("deepseek-", 65_536),
)


def hosted_context(model: str) -> int | None:
    """The context window that a provider states for a model, in tokens; None where none is known here."""
    return next((tokens for start, tokens in _CONTEXTS if model.startswith(start)), None)


#: Variables that clients of a provider take their base URL from where the code gives none.
BASE_VARIABLES: Final = {"openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"), "anthropic": ("ANTHROPIC_BASE_URL",)}
