"""Loads a model's tokenizer and chat template from a folder, a tekken file or a bundled name."""

import ctypes
import logging
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from gateway.text.tokens.chat_format import ChatFormat
from gateway.text.tokens.mistral_instruct import MistralInstruct
from gateway.text.tokens.shared_tokenizers import SharedTokenizers
from gateway.text.tokens.tekken import load_tekken
from gateway.text.tokens.tiktoken_files.tiktoken_folder import TiktokenFolder
from gateway.text.tokens.tokenizer import Tokenizer, TokenizerError, UnmarkedTemplate
from gateway.text.tokens.tokenizer_json import AddedTokens, TokenizerJson, byte_pair_tokenizer
from gateway.text.tokens.unknown import UnknownChatFormat, UnknownTokenizer

log = logging.getLogger(__name__)

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
    """A model's tokenizer and chat format; `template` is the template's source for chats with tools, and `written_call`
    what it writes for a sample call; empty if none.
    """

    tokenizer: Tokenizer
    chat_format: ChatFormat
    template: str = ""
    written_call: str = ""


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
    config = _read_json(folder / "tokenizer_config.json")
    vocabulary = _vocabulary(folder, config)
    source, tool_use = _template_sources(folder, config)
    try:
        return _load_parts(folder, config, vocabulary, source, tool_use, shared, marked=True)
    except UnmarkedTemplate:
        # It does more with its own marks than write them. Control tokens may be told from text all the same.
        loaded = _load_parts(folder, config, vocabulary, source, tool_use, shared, marked=False)
        log.warning("%s: texts can write marks of the chat template that are no control tokens", folder)
        return loaded


def _vocabulary(folder: Path, config: dict[str, Any]) -> TiktokenFolder | None:
    """Find a vocabulary in tiktoken's form; None: there is a tokenizer.json. Raises TokenizerError without either."""
    if (folder / "tokenizer.json").is_file():
        return None
    found = TiktokenFolder.of(folder, config)
    if found is None:
        raise TokenizerError(f"{folder}: no tokenizer.json, no tekken file and no tiktoken file in this folder")
    return found


def _load_parts(
    folder: Path,
    config: dict[str, Any],
    vocabulary: TiktokenFolder | None,
    source: str,
    tool_use: str | None,
    shared: SharedTokenizers,
    *,
    marked: bool,
) -> LoadedTokenizer:
    path, variables = folder / "tokenizer.json", _token_variables(config)
    ends = variables.get("bos_token"), variables.get("eos_token"), _listed_eos_ids(folder)
    if vocabulary is None:
        digest: tuple[Any, ...] = (_digest(path, shared),)
    else:
        files = vocabulary.vocabulary, vocabulary.code, folder / "tokenizer_config.json"
        digest = tuple(_digest(file, shared) for file in files)
    marks = frozenset[str]()
    if marked:
        words = shared.once(("words", *digest), lambda: _words(path) if vocabulary is None else vocabulary.words())
        marks = _written(source, words) | (_written(tool_use, words) if tool_use is not None else frozenset())

    def load() -> Tokenizer:
        if vocabulary is None:
            return _load_tokenizer_json(folder, variables, marks)
        eos_ids, bos_id = _ends(folder, variables, vocabulary.specials(marks))
        return vocabulary.load(marks, eos_ids=eos_ids, bos_id=bos_id)

    tokenizer = shared.once(("tokenizer.json", *digest, *ends, marks), load)
    key = ("templates", tokenizer, source, tool_use, *sorted(variables.items()))
    try:
        return shared.once(key, lambda: _with_templates(tokenizer, source, tool_use, variables))
    except TokenizerError as error:
        raise type(error)(f"{folder}: {error}") from error


def _with_templates(
    tokenizer: Tokenizer, source: str, tool_use: str | None, variables: dict[str, str]
) -> LoadedTokenizer:
    from gateway.text.tokens.chat_template import ChatTemplate  # deferred: Jinja2 takes 3 MB that tekken does not need
    from gateway.text.tokens.tool_template import ToolTemplate

    template = ChatTemplate(source, specials=tokenizer.specials, variables=variables)
    if tool_use is not None:
        tools = ChatTemplate(tool_use, specials=tokenizer.specials, variables=variables, for_tools=True)
        if "tools" in tools.reads:
            return LoadedTokenizer(tokenizer, ToolTemplate(template, tools), tool_use, tools.written_call())
    return LoadedTokenizer(tokenizer, template, source, template.written_call())


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


def _words(path: Path) -> frozenset[str]:
    """Read the added tokens that are no control tokens."""
    try:
        added = msgspec.json.decode(path.read_bytes(), type=AddedTokens)
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{path}: {error}") from error
    return frozenset(token.content for token in added.added_tokens if not token.special)


def _written(source: str, words: frozenset[str]) -> frozenset[str]:
    from gateway.text.tokens.chat_template import written_tokens

    return written_tokens(source, words)


def _load_tokenizer_json(folder: Path, variables: dict[str, str], marks: frozenset[str]) -> Tokenizer:
    """Load a tokenizer whose control tokens include these marks of its template."""
    path = folder / "tokenizer.json"
    try:
        text = path.read_text(encoding="utf-8")
        parsed = msgspec.json.decode(text, type=TokenizerJson)
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{path}: {error}") from error
    parsed = msgspec.structs.replace(parsed, template_marks=marks)
    eos_ids, bos_id = _ends(folder, variables, parsed.specials())
    try:
        from gateway.text.tokens.huggingface import (
            HuggingFaceTokenizer,  # deferred: the library takes 5 MB that tekken does not need
        )

        library = HuggingFaceTokenizer(text, parsed, eos_ids=eos_ids, bos_id=bos_id)
    except ValueError as error:
        raise TokenizerError(f"{path}: {error}") from error
    native = byte_pair_tokenizer(parsed, eos_ids=eos_ids, bos_id=bos_id)
    return native if native is not None and _agree(native, library) else library


def _ends(folder: Path, variables: dict[str, str], specials: dict[str, int]) -> tuple[frozenset[int], int | None]:
    """Find the tokens that end an answer, and the one that begins a text. Raises TokenizerError without the former."""
    configured = specials.get(variables.get("eos_token", ""))
    eos_ids = _listed_eos_ids(folder) | (frozenset() if configured is None else {configured})
    if not eos_ids:
        raise TokenizerError(f"{folder}: no end-of-sequence token in its configuration files")
    return eos_ids, specials.get(variables.get("bos_token", ""))


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
