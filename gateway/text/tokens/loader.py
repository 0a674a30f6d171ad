"""Loads a model's tokenizer and chat template from a folder, a tekken file or a bundled name."""

import ctypes
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from gateway.text.tokens.chat_format import ChatFormat
from gateway.text.tokens.mistral_instruct import MistralInstruct
from gateway.text.tokens.shared_tokenizers import SharedTokenizers
from gateway.text.tokens.tekken import load_tekken
from gateway.text.tokens.tokenizer import Tokenizer, TokenizerError
from gateway.text.tokens.tokenizer_json import TokenizerJson, byte_pair_tokenizer
from gateway.text.tokens.unknown import UnknownChatFormat, UnknownTokenizer

#: Bundled tokenizers.
BUNDLED = ("mistral-tekken",)

# Texts on which two implementations of one vocabulary must agree: case, digits, spaces, scripts, symbols.
_PROBES = (
    "Hello world, it's 1234567 o'clock; I'LL be there. He'd say \"fine\"!",
    "  two  spaces\n\n\nlines\r\n\ttabs \t\n   \n end ",
    "Straße naïve cafe\u0301 Ångström İstanbul ŒUVRE",
    "日本語のテキスト、中文字符。한국어 텍스트 ไทย हिन्दी עברית العربية",
    '👩‍👩‍👧 🎉🎉 ☺️ ½ ² Ⅷ ١٢٣ a_b-c/d\\e {"k": [1.5e-3]} <tag> x==y && z||w',
    "\u00a0\u2003\u0085\u200b\ufeffmixed\u3000blanks\x00\x1f",
    "def f(x):\n    return x**2  # comment\n\n\nclass A:\n\tpass",
    "camelCaseAndHTTPServer snake_case SCREAMING_CASE aaaaaaaaaaaaaaaaaaaaaaaaaaaa !!!!!!!!??......",
)


@dataclass(frozen=True, slots=True)
class LoadedTokenizer:
    """A model's tokenizer and chat format; `template` is the template's source for chats with tools, empty if none."""

    tokenizer: Tokenizer
    chat_format: ChatFormat
    template: str = ""


def load_tokenizer(source: str | None, shared: SharedTokenizers | None = None) -> LoadedTokenizer:
    """Load the tokenizer at `source`: a Hugging Face folder, a tekken file or one of `BUNDLED`; None: unknown.

    What `shared` has of the same content is taken from there. Takes 0.3 s and more, and reads files: call it before
    serving. Raises TokenizerError.
    """
    if shared is None:
        shared = SharedTokenizers()
    if source is None:
        return shared.once("unknown", lambda: LoadedTokenizer(UnknownTokenizer(), UnknownChatFormat()))
    path = Path(source)
    if source in BUNDLED:
        loaded = _load_tekken(_bundled_tekken(), shared)
    elif path.is_dir():
        loaded = _load_folder(path, shared)
    elif path.is_file():
        loaded = _load_tekken(path, shared)
    else:
        bundled = ", ".join(BUNDLED)
        raise TokenizerError(f"{source}: no such folder or file, nor one of the bundled tokenizers ({bundled})")
    release_memory()
    return loaded


def release_memory() -> None:
    """Return freed pages to the system: with glibc, parsing leaves 10 to 100 MB of them."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _bundled_tekken() -> Path:
    """The newest tekken file in mistral_common's wheel, found without importing it (which takes a second)."""
    spec = find_spec("mistral_common")
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or () for file in Path(folder, "data").glob("tekken_*.json")]
    if not files:
        raise TokenizerError("mistral-tekken: the installed mistral-common has no tekken file")
    return max(files, key=lambda file: file.name)


def _load_tekken(path: Path, shared: SharedTokenizers) -> LoadedTokenizer:
    tokenizer = shared.once(("tekken", _digest(path, shared)), lambda: load_tekken(path))
    missing = [control for control in MistralInstruct.CONTROLS if control not in tokenizer.specials]
    if missing:
        raise TokenizerError(f"{path}: no control token {missing[0]}, which Mistral's chat form needs")
    return LoadedTokenizer(tokenizer, MistralInstruct())


def _digest(path: Path, shared: SharedTokenizers) -> bytes:
    try:
        return shared.digest(path)
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read: {error.strerror}") from error


def _load_folder(folder: Path, shared: SharedTokenizers) -> LoadedTokenizer:
    if not (folder / "tokenizer.json").is_file():
        for tekken in sorted(folder.glob("tekken*.json"), reverse=True):
            return _load_tekken(tekken, shared)
        raise TokenizerError(f"{folder}: no tokenizer.json and no tekken file in this folder")
    config = _read_json(folder / "tokenizer_config.json")
    path, variables = folder / "tokenizer.json", _token_variables(config)
    ends = variables.get("bos_token"), variables.get("eos_token"), _listed_eos_ids(folder)
    tokenizer = shared.once(
        ("tokenizer.json", _digest(path, shared), *ends), lambda: _load_tokenizer_json(folder, variables)
    )
    source, tool_use = _template_sources(folder, config)
    key = ("templates", tokenizer, source, tool_use, *sorted(variables.items()))
    try:
        return shared.once(key, lambda: _with_templates(tokenizer, source, tool_use, variables))
    except TokenizerError as error:
        raise TokenizerError(f"{folder}: {error}") from error


def _with_templates(
    tokenizer: Tokenizer, source: str, tool_use: str | None, variables: dict[str, str]
) -> LoadedTokenizer:
    from gateway.text.tokens.chat_template import ChatTemplate  # deferred: Jinja2 takes 3 MB that tekken does not need
    from gateway.text.tokens.tool_template import ToolTemplate

    template = ChatTemplate(source, specials=tokenizer.specials, variables=variables)
    if tool_use is not None:
        tools = ChatTemplate(tool_use, specials=tokenizer.specials, variables=variables)
        if "tools" in tools.reads:
            return LoadedTokenizer(tokenizer, ToolTemplate(template, tools), tool_use)
    return LoadedTokenizer(tokenizer, template, source)


def _read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file; empty if the file does not exist."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise TokenizerError(f"{path}: {error}") from error


def _template_sources(folder: Path, config: dict[str, Any]) -> tuple[str, str | None]:
    """The source of the chat template, and that of a separate one for chats with tools, or None."""
    template = config.get("chat_template")
    named: dict[Any, Any] = {"default": template}
    if isinstance(template, list):  # several templates by name
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
    files = {"default": folder / "chat_template.jinja", "tool_use": folder / "additional_chat_templates/tool_use.jinja"}
    if files["default"].is_file():  # the file replaces all of them
        named = {name: file.read_text(encoding="utf-8") for name, file in files.items() if file.is_file()}
    default, tool_use = named.get("default"), named.get("tool_use")
    if not isinstance(default, str):
        raise TokenizerError(f"{folder}: no chat_template in tokenizer_config.json and no chat_template.jinja")
    return default, tool_use if isinstance(tool_use, str) else None


def _token_text(value: object) -> str | None:
    """A token in tokenizer_config.json: a string, or an object with its content."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _token_variables(config: dict[str, Any]) -> dict[str, str]:
    """The variables that templates read, such as `bos_token`."""
    texts = {name: _token_text(value) for name, value in config.items() if name.endswith("_token")}
    return {name: text for name, text in texts.items() if text is not None}


def _load_tokenizer_json(folder: Path, variables: dict[str, str]) -> Tokenizer:
    path = folder / "tokenizer.json"
    try:
        text = path.read_text(encoding="utf-8")
        parsed = msgspec.json.decode(text, type=TokenizerJson)
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{path}: {error}") from error
    specials = parsed.specials()
    configured = specials.get(variables.get("eos_token", ""))
    eos_ids = _listed_eos_ids(folder) | (frozenset() if configured is None else {configured})
    if not eos_ids:
        raise TokenizerError(f"{folder}: no end-of-sequence token in its configuration files")
    bos_id = specials.get(variables.get("bos_token", ""))
    try:
        from gateway.text.tokens.huggingface import (
            HuggingFaceTokenizer,  # deferred: the library takes 5 MB that tekken does not need
        )

        library = HuggingFaceTokenizer(text, parsed, eos_ids=eos_ids, bos_id=bos_id)
    except ValueError as error:
        raise TokenizerError(f"{path}: {error}") from error
    native = byte_pair_tokenizer(parsed, eos_ids=eos_ids, bos_id=bos_id)
    return native if native is not None and _agree(native, library) else library


def _agree(candidate: Tokenizer, reference: Tokenizer) -> bool:
    """Whether two tokenizers give the same ids for samples and vocabulary words, and the same bytes for those ids."""
    every = range(0, candidate.vocab_size, candidate.vocab_size // 2000 + 1)
    words = " ".join(candidate.token_bytes(token).decode(errors="ignore") for token in every)
    for probe in (*_PROBES, *candidate.specials, words):
        for special in (False, True):
            ids = reference.encode(probe, special=special)
            if candidate.encode(probe, special=special) != ids:
                return False
            if any(candidate.token_bytes(token) != reference.token_bytes(token) for token in ids):
                return False
    return True


def _listed_eos_ids(folder: Path) -> frozenset[int]:
    """The ids that end an answer beside the tokenizer's own."""
    ids: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        value = _read_json(folder / name).get("eos_token_id")
        listed = value if isinstance(value, list) else [value]
        ids.update(token for token in listed if type(token) is int)
    return frozenset(ids)
