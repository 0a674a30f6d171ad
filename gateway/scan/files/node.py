"""JavaScript and TypeScript by expressions: imports, clients, and texts that name models. Comments are left out."""

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from gateway.scan.environment import Environment
from gateway.scan.files.urls import url_findings
from gateway.scan.finding import Finding, Kind, Task
from gateway.scan.names import hub_id, hub_task, ollama_id, plain_url, recognised
from gateway.scan.providers import BASE_VARIABLES, OWN_SERVERS, PROVIDERS, hosted_task, provider_at, split_prefix

#: Strings, templates and comments; each ends at the end of the text if not before, so no text is read twice.
_TOKENS: Final = re.compile(
    r"\"(?:[^\"\\\n]|\\.)*+(?:\"|$)|'(?:[^'\\\n]|\\.)*+(?:'|$)|`(?:[^`\\]|\\.)*+(?:`|\Z)|//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)",
    re.MULTILINE,
)
_IMPORT: Final = re.compile(r"(?:\bfrom\s*|\brequire\s*\(\s*|\bimport\s*\(?\s*)[\"']([@\w][\w@./-]{0,127})[\"']")
_TEXT: Final = r"[\"'`]([^\"'`\n$]{1,200})[\"'`]"
#: Literals, and what stands between them and the operators `??`, `||` and `? :`.
_PARTS: Final = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`|[^\"'`?|:]+")
_CONSTANT: Final = re.compile(
    r"\b(?:const|let|var|static|readonly|public|private)\s+([A-Za-z_$][\w$]{0,63})"
    r"(?:\s*:\s*[\w<>|\"' ]{1,60})?\s*=\s*([^;\n]{1,300})"
)
_ENV: Final = re.compile(
    r"(?:process\.env|import\.meta\.env|Deno\.env\.get|env)(?:\.|\[[\"']|\([\"'])([A-Z][A-Z0-9_]{1,127})"
)
_MODEL: Final = re.compile(
    r"[\"']?\b(model|modelName|modelId|model_id|deploymentName|azureOpenAIApiDeploymentName|embeddingModel|llm|defaultModel)"
    r"[\"']?\s*[:=]\s*([^,;\n}]{1,200})"
)
#: An id in a list of choices; taken for a model's only with its provider in front.
_ID: Final = re.compile(rf"\b(?:id|value)\s*:\s*{_TEXT}")
_BASE: Final = re.compile(r"\b(baseURL|baseUrl|base_url|basePath|endpoint|apiBase)\s*[:=]\s*([^,;\n}]{1,300})")
_KEY: Final = re.compile(
    r"\b(?:apiKey|api_key|openAIApiKey)\s*:\s*(?:process\.env|import\.meta\.env)\.([A-Z][A-Z0-9_]{1,127})"
)
#: Clients and classes, each with the provider that it asks unless it has a base URL.
_NEW: Final = re.compile(
    r"(?:\bnew\s+(OpenAI|AzureOpenAI|Anthropic|Groq|Mistral|ChatOpenAI|OpenAIEmbeddings|ChatAnthropic|ChatGroq|ChatOllama|Ollama"
    r"|OllamaEmbeddings|ChatMistralAI|ChatGoogleGenerativeAI|AzureChatOpenAI|HfInference|InferenceClient)"
    r"|\b(createOpenAI|createAnthropic|createOpenAICompatible|createGroq|createMistral|createAzure|createOllama|createTogetherAI"
    r"|createDeepSeek|createGoogleGenerativeAI|createXai|createOpenRouter))\s*\("
)
_PROVIDERS: Final = {
    "openai": "openai", "chatopenai": "openai", "openaiembeddings": "openai", "azureopenai": "azure",
    "azurechatopenai": "azure",
    "anthropic": "anthropic", "chatanthropic": "anthropic", "groq": "groq", "chatgroq": "groq", "mistral": "mistral",
    "chatmistralai": "mistral", "chatollama": "ollama", "ollama": "ollama", "ollamaembeddings": "ollama",
    "chatgooglegenerativeai": "gemini", "hfinference": "huggingface", "inferenceclient": "huggingface",
    "azure": "azure",
    "togetherai": "together", "deepseek": "deepseek", "googlegenerativeai": "gemini", "xai": "xai",
    "openrouter": "openrouter",
    "google": "gemini", "cohere": "cohere", "fireworks": "fireworks", "perplexity": "perplexity", "bedrock": "bedrock",
    "openaicompatible": "",
}  # fmt: skip
#: `openai("gpt-4o")` and `openai.embedding("...")` of the AI SDK.
_SDK_CALL: Final = re.compile(
    r"\b([A-Za-z_$][\w$]{0,40})(?:\.(chat|completion|responses|embedding|textEmbedding|textEmbeddingModel|languageModel|chatModel))?"
    r"\(\s*([\"'`][^\"'`\n$]{1,200}[\"'`]|[A-Za-z_$][\w$.]{0,60})\s*[,)]"
)
_PROVIDER: Final = re.compile(r"\bprovider\s*:\s*[\"']([\w-]{2,20})[\"']")
_CALLED: Final = re.compile(r"([A-Za-z_$][\w$]{0,63})(?:\.[\w$]{1,64}){0,8} ?\(")
_PIPELINE: Final = re.compile(rf"\bpipeline\(\s*{_TEXT}\s*,\s*{_TEXT}")
_NAMED: Final = re.compile(
    r"(?:^|_)(?:MODEL|LLM)(?:_(?:NAME|ID))?$|[a-z](?:Model|ModelName|ModelId)$|^model(?:Name|Id)?$"
)
_LONGEST_LINE: Final = 5_000
_MOST_FOUND: Final = 2_000


def is_minified(text: str) -> bool:
    """Whether a file is made by a bundler; what it says stands in its sources as well."""
    return any(len(line) > _LONGEST_LINE for line in text.splitlines())


def node_findings(file: str, text: str, environment: Environment) -> Iterator[Finding]:
    """Yield what one source says."""
    code = _TOKENS.sub(_without_comment, text)
    reader = _Reader(file, code, environment)
    yield from reader.findings()


def _without_comment(match: re.Match[str]) -> str:
    token = match[0]
    return re.sub(r"[^\n]", " ", token) if token.startswith(("//", "/*")) else token


class _Reader:
    def __init__(self, file: str, code: str, environment: Environment) -> None:
        self._file = file
        self._code = code
        self._environment = environment
        self._starts = [0, *(match.end() for match in re.finditer("\n", code))]
        self._packages = set(_IMPORT.findall(code))
        self._constants: dict[str, str] = {}
        for match in self._found(_CONSTANT):
            self._constants.setdefault(match[1], match[2])
        self._clients = self._found_clients()

    def findings(self) -> Iterator[Finding]:
        """Yield everything, by kind."""
        for number, line in enumerate(self._code.splitlines(), 1):
            yield from url_findings(self._file, number, line)
        for client in self._clients.values():
            if client.base_url or client.provider in BASE_VARIABLES:
                yield client
        for match in self._found(_ENV):
            if provider := next((one.name for one in PROVIDERS.values() if one.key == match[1]), ""):
                yield self._at(match.start(), Kind.KEY, match[1], "variable", provider, Task.UNKNOWN)
        uses = bool(self._clients) or any(self._is_of_models(package) for package in self._packages)
        for match in self._found(_MODEL):
            for value in self._values(match[2]):
                yield from self._model(match.start(), value, match[1], uses)
        for match in self._found(_SDK_CALL):
            yield from self._sdk(match)
        for match in self._found(_ID):
            if split_prefix(match[1])[0]:
                yield from self._model(match.start(), match[1], "id", False)
        for match in self._found(_PIPELINE):
            if any("transformers" in package for package in self._packages) and (name := hub_id(match[2])):
                task = {"feature-extraction": Task.EMBED, "text-generation": Task.GENERATE}.get(
                    match[1], hub_task(name)
                )
                yield self._at(match.start(), Kind.WEIGHTS, name, "pipeline", "huggingface", task)
        for match in self._found(_CONSTANT):
            for value in self._values(match[2]) if _NAMED.search(match[1]) else ():
                yield from self._model(match.start(), value, match[1], False)

    def _is_of_models(self, package: str) -> bool:
        return package == "ai" or package.startswith(
            ("openai", "@ai-sdk/", "@anthropic-ai/", "langchain", "@langchain/", "groq-sdk", "ai/")
        )

    def _found_clients(self) -> dict[str, Finding]:
        """Map the names of variables that hold clients to what was found of them."""
        found: dict[str, Finding] = {}
        for match in self._found(_NEW):
            name = match[1] or match[2].removeprefix("create")
            block = self._block(match.end() - 1)
            url = next((one for base in _BASE.finditer(block) for one in self._urls(base[2])), "")
            key = next((one[1] for one in _KEY.finditer(block)), "")
            provider = _PROVIDERS.get(name.lower(), "")
            if not url and provider == "openai":
                url = next(
                    (one for one in map(plain_url, self._environment.values.get("OPENAI_BASE_URL", ())) if one), ""
                )
            provider = provider_at(url) or ("" if url else provider)
            before = re.search(
                r"([A-Za-z_$][\w$]{0,63})\s*(?::\s*\w+\s*)?=\s*(?:await\s*)?$",
                self._code[max(0, match.start() - 120) : match.start()],
            )
            found[before[1] if before else f"<{match.start()}>"] = Finding(
                file=self._file, line=self._line(match.start()), kind=Kind.CLIENT, value=url or provider or name,
                how=match[1] or match[2], base_url=url, provider=provider, key_variable=key,
            )  # fmt: skip
        return found

    def _block(self, start: int) -> str:
        """The text of a call's arguments from its opening parenthesis on, at most 1,000 characters."""
        depth, text = 0, self._code[start : start + 1000]
        for at, character in enumerate(text):
            depth += (character == "(") - (character == ")")
            if depth == 0:
                return text[:at]
        return text

    def _values(self, expression: str, depth: int = 0) -> list[str]:
        """The texts that a short expression may be: literals, defaults after `??` and `||`, constants, variables."""
        found: list[str] = []
        for token in _PARTS.findall(expression)[:16]:
            part = token.strip().rstrip(")]} ").lstrip("(")
            if literal := re.fullmatch(_TEXT, part):
                found.append(literal[1])
            elif variable := _ENV.match(part):
                found.extend(self._environment.values.get(variable[1], ()))
            elif depth < 4 and (name := part.rpartition(".")[2]) in self._constants:
                found.extend(self._values(self._constants[name], depth + 1))
        return found[:8]

    def _urls(self, expression: str) -> list[str]:
        # A colon ends no part here: it is in each URL.
        parts = [part.strip().strip("\"'`") for part in re.split(r"\?\?|\|\|", expression)]
        named = [self._constants[part].strip().strip("\"'`") for part in parts if part in self._constants]
        variables = [
            value for part in parts if (env := _ENV.match(part)) for value in self._environment.values.get(env[1], ())
        ]
        return [url for part in (*variables, *parts, *named) if (url := plain_url(part)) is not None]

    def _client(self, at: int) -> Finding | None:
        """The client of the call that a place is in: the named one on its left, or the file's only one."""
        before = self._code[max(0, at - 400) : at]
        for match in reversed(list(_CALLED.finditer(before))):
            if match[1] in self._clients:
                return self._clients[match[1]]
        every = list(self._clients.values())
        return every[0] if len(every) == 1 else None

    def _enclosing(self, at: int) -> Finding | None:
        """The client whose own arguments a place is in, as in `new ChatOpenAI({ model: ... })`."""
        starts = list(_NEW.finditer(self._code, max(0, at - 600), at))
        return next(
            (one for one in self._clients.values() if starts and one.line == self._line(starts[-1].start())), None
        )

    def _model(self, at: int, value: str, how: str, uses: bool) -> Iterator[Finding]:
        client = (self._enclosing(at) or self._client(at)) if uses else None
        found = recognised(value)
        own = client is not None and bool(client.base_url) and not provider_at(client.base_url)
        ollama = client is not None and client.provider == "ollama"
        beside = self._beside(at) if found is None and how in ("model", "modelId") else ""
        if found is None and not (own or ollama or beside):
            return
        name = found.name if found is not None else ollama_id(value)
        if name is None:
            return
        provider = found.provider if found is not None else beside
        if client is not None and (client.base_url or client.provider in ("azure", "groq", "together", "ollama")):
            provider = client.provider
        hosted = (found is not None and found.hosted and not own and not ollama) or (provider in PROVIDERS and not own)
        task = found.task if found is not None else hub_task(name)
        yield self._at(at, Kind.HOSTED if hosted else Kind.ASKED, name, how, provider, task, client)

    def _beside(self, at: int) -> str:
        """The provider that stands beside a model in a list of choices, as `provider: "groq"`."""
        match = _PROVIDER.search(self._code, max(0, at - 300), at + 300)
        return match[1].lower() if match is not None and match[1].lower() in PROVIDERS else ""

    def _sdk(self, match: re.Match[str]) -> Iterator[Finding]:
        name, method = match[1], match[2] or ""
        client = self._clients.get(name)
        provider = _PROVIDERS.get(name.lower())
        known = any(
            package.startswith(("@ai-sdk/", "ai", "ollama-ai-provider", "@openrouter/")) for package in self._packages
        )
        if client is None and (provider is None or not known):
            return
        for value in self._values(match[3]):
            model = ollama_id(value)
            if model is None or model.endswith((".js", ".ts", ".json", ".css")):
                continue
            own = client is not None and bool(client.base_url) and not provider_at(client.base_url)
            who = client.provider if client is not None else provider or ""
            task = Task.EMBED if "mbedding" in method else hosted_task(model)
            hosted = who in PROVIDERS and not own
            yield self._at(match.start(), Kind.HOSTED if hosted else Kind.ASKED, model, f"{name}()", who, task, client)

    def _at(
        self, at: int, kind: Kind, value: str, how: str, provider: str, task: Task, client: Finding | None = None
    ) -> Finding:
        return Finding(
            file=self._file, line=self._line(at), kind=kind, value=value, how=how, provider=provider,
            task=Task.GENERATE if task is Task.UNKNOWN and kind is not Kind.KEY else task,
            base_url=client.base_url if client else "", key_variable=client.key_variable if client else "",
            engine=OWN_SERVERS.get(provider, ""),
        )  # fmt: skip

    def _line(self, at: int) -> int:
        return bisect_right(self._starts, at)

    def _found(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yield what a pattern finds, of very many the first ones: each is looked at with what surrounds it."""
        return itertools.islice(pattern.finditer(self._code), _MOST_FOUND)
