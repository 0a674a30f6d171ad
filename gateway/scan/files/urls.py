"""URLs within texts: of models' files, and of APIs."""

import re
from collections.abc import Iterator
from typing import Final

from gateway.scan.finding import Finding, Kind
from gateway.scan.names import hub_id, hub_task, plain_url
from gateway.scan.providers import provider_at

_URL: Final = re.compile(r"(?:https?|s3|gs|hf)://[^\s\"'`<>(){},;|\\]{4,400}")
_HUB: Final = re.compile(
    r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/([A-Za-z0-9][\w.-]*/[\w.-]+)/(?:resolve|blob|raw)/[^/]+/(\S+)"
)
_HUB_API: Final = re.compile(r"https?://api-inference\.huggingface\.co/models/([A-Za-z0-9][\w.-]*/[\w.-]+)")
_NOT_MODELS: Final = ("spaces/", "datasets/", "docs/", "blog/", "papers/", "collections/", "settings/", "api/")
_FILES: Final = (".gguf", ".safetensors", ".ggml", ".onnx", ".pt", ".pth", ".bin", ".ckpt", ".engine", ".nemo")
#: Base URLs and paths of APIs as servers of OpenAI's, Anthropic's and Ollama's have them; other APIs end in /v1, too.
_API: Final = re.compile(
    r"https?://[^/]+(?:/openai)?/v1|.*/(?:chat/completions|v1/completions|v1/embeddings|v1/responses|v1/messages)"
    r"|https?://[^/]+/api/(?:chat|generate)"
)


def url_findings(file: str, line: int, text: str) -> Iterator[Finding]:
    """Yield what the URLs within a text say."""
    if "://" not in text:
        return
    for match in _URL.finditer(text):
        url = match[0].rstrip(".,:")
        if hub := _HUB.match(url) or _HUB_API.match(url):
            name = hub_id(hub[1])
            if name is None or hub[1].startswith(_NOT_MODELS):
                continue
            within = hub[2].partition("?")[0] if hub.re is _HUB else ""
            # What lies beside the weights, such as a picture, makes no use of a model.
            if within and not within.lower().endswith((*_FILES, ".json", ".model")):
                continue
            options = {"weights_file": within} if within.lower().endswith(".gguf") else {}
            kind = Kind.WEIGHTS if within else Kind.ASKED
            yield Finding(
                file=file,
                line=line,
                kind=kind,
                value=name,
                how="URL",
                provider="huggingface",
                task=hub_task(name),
                options=options,
                engine="llama.cpp" if options else "",
            )
            continue
        plain = url.partition("?")[0]
        if plain.lower().endswith(_FILES):
            shown = plain_url(plain) if plain.startswith("http") else plain.rpartition("@")[2]
            if shown is not None:
                yield Finding(file=file, line=line, kind=Kind.URL, value=shown, how="URL of weights")
            continue
        base = plain_url(plain)
        if base is not None and (provider_at(base) or _API.fullmatch(base)):
            base = base_of(base)
            yield Finding(
                file=file, line=line, kind=Kind.CLIENT, value=base, how="URL", base_url=base, provider=provider_at(base)
            )


def base_of(url: str) -> str:
    """The base URL that an API's paths follow: `https://HOST/v1` of `https://HOST/v1/chat/completions`."""
    for end in (
        "/chat/completions",
        "/completions",
        "/embeddings",
        "/responses",
        "/messages",
        "/models",
        "/chat",
        "/generate",
    ):
        if url.endswith(end):
            return url[: -len(end)]
    return url
