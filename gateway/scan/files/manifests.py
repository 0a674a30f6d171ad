"""Libraries that manifests and lock files of Python and Node list; only those that have to do with models."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Final

from gateway.scan.finding import Finding, Kind

#: Files that make their folder an application of its own.
MANIFESTS: Final = ("pyproject.toml", "setup.py", "setup.cfg", "pipfile", "package.json", "requirements.txt")
_NPM_LOCKS: Final = ("package-lock.json", "npm-shrinkwrap.json")
#: Files that list each library of an application, which makes them longer than others.
LOCKS: Final = (*_NPM_LOCKS, "pnpm-lock.yaml", "yarn.lock", "bun.lock", "poetry.lock", "uv.lock", "pipfile.lock")
#: Libraries of models and of their APIs, by their names at PyPI and npm, in lower case with dashes.
_KNOWN: Final = frozenset(
    {
        *(
            "transformers",
            "huggingface-hub",
            "sentence-transformers",
            "diffusers",
            "peft",
            "vllm",
            "sglang",
            "tensorrt-llm",
        ),
        *(
            "llama-cpp-python",
            "ctransformers",
            "auto-gptq",
            "autoawq",
            "optimum",
            "fastembed",
            "text-generation",
            "mlx-lm",
        ),
        *(
            "openai",
            "anthropic",
            "litellm",
            "google-generativeai",
            "google-genai",
            "mistralai",
            "cohere",
            "groq",
            "together",
        ),
        *(
            "ollama",
            "langchain",
            "langchain-openai",
            "langchain-anthropic",
            "langchain-community",
            "langgraph",
            "llama-index",
        ),
        *("llama-index-core", "haystack-ai", "farm-haystack", "dspy", "dspy-ai", "pydantic-ai", "crewai", "instructor"),
        *(
            "semantic-kernel",
            "smolagents",
            "openai-agents",
            "guidance",
            "outlines",
            "xinference",
            "lmdeploy",
            "unsloth",
        ),
        *("ai", "groq-sdk", "llamaindex", "ollama-ai-provider", "replicate", "voyageai", "@xenova/transformers"),
        *(
            "@anthropic-ai/sdk",
            "@huggingface/transformers",
            "@huggingface/inference",
            "@google/generative-ai",
            "@google/genai",
        ),
        *(
            "@mistralai/mistralai",
            "cohere-ai",
            "@azure/openai",
            "@langchain/openai",
            "@langchain/anthropic",
            "@langchain/core",
        ),
        *("@langchain/community", "@langchain/ollama", "@langchain/langgraph", "@openrouter/ai-sdk-provider"),
    }
)
_NAME: Final = re.compile(r"^\s*[\"']?([A-Za-z0-9@][A-Za-z0-9._/@-]{0,100}?)[\"']?\s*(?:\[|[=<>~!;@^,:]|$)")
_PNPM: Final = re.compile(r"^\s{2,8}'?/?(@?[a-z0-9][\w.-]*(?:/[\w.-]+)?)@\d")
#: With `node_modules/` from the second form of the file on, without it in the first.
_NPM: Final = re.compile(r'^\s*"(?:node_modules/)?((?:@[\w.-]+/)?[\w.-]+)": \{')
_BUN: Final = re.compile(r'^\s*"((?:@[\w.-]+/)?[\w.-]+)": \["')
_YARN: Final = re.compile(r'^"?(@?[a-z0-9][\w.-]*(?:/[\w.-]+)?)@(?:npm:)?[^"]*"?:$')


def is_manifest(name: str) -> bool:
    """Whether a file lists libraries, by its name in lower case."""
    return name in MANIFESTS or name in LOCKS or (name.startswith("requirements") and name.endswith(".txt"))


def package_findings(file: str, name: str, text: str) -> Iterator[Finding]:
    """Yield the known libraries that a file of this name lists, each once."""
    seen = set()
    for line, package in _listed(name, text):
        shown = package.lower() if package.startswith("@") else package.lower().replace("_", "-").replace(".", "-")
        if shown not in seen and (shown in _KNOWN or shown.startswith("@ai-sdk/")):
            seen.add(shown)
            yield Finding(file=file, line=line, kind=Kind.PACKAGE, value=shown, how=name)


def application_name(name: str, text: str) -> str:
    """The name that a manifest gives its application; empty if it gives none, or cannot be read."""
    try:
        if name == "package.json":
            found = json.loads(text).get("name", "")
        elif name == "pyproject.toml":
            project = tomllib.loads(text)
            found = project.get("project", {}).get("name", "") or project.get("tool", {}).get("poetry", {}).get(
                "name", ""
            )
        else:
            return ""
    except (ValueError, AttributeError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def _listed(name: str, text: str) -> Iterator[tuple[int, str]]:
    lines = text.splitlines()
    if name == "pnpm-lock.yaml":
        yield from _matching(lines, _PNPM)
    elif name == "yarn.lock":
        yield from _matching(lines, _YARN)
    elif name in _NPM_LOCKS:
        yield from _matching(lines, _NPM)
    elif name == "bun.lock":
        yield from _matching(lines, _BUN)
    elif name in ("poetry.lock", "uv.lock"):
        yield from _matching(lines, re.compile(r'^name = "([\w.-]+)"'))
    elif name.endswith((".toml", ".py", ".cfg")) or name == "pipfile":
        # Lists of requirements and tables of versions alike: a name at the beginning of a line or of a text.
        yield from _matching(lines, _NAME)
        for number, line in enumerate(lines, 1):
            for match in re.finditer(
                r"[\"']([A-Za-z0-9][\w.-]{1,60})(?:\[[^\]]{0,60}\])?\s{0,4}(?:[=<>~!][^\"']{0,80})?[\"']", line[:2000]
            ):
                yield number, match[1]
    else:
        yield from _matching(lines, _NAME)


def _matching(lines: list[str], pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, 1):
        if len(line) <= 1000 and (match := pattern.match(line)):
            yield number, match[1]
