"""Parameters beyond the fields of the bodies: who sends them, and the values of them that ask for nothing.

Servers' clients send many of their own parameters with every request, mostly at the value that changes nothing. Such a
value is taken; another one goes to upstreams as it is, but for those that reach beyond their own request (`PRIVATE`),
and is refused for token engines, unless the gateway honours it (`Honoured`). docs/api.md lists this table.
"""

from enum import Flag, auto
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from gateway.api.openai.guides import GUIDES
from gateway.api.server.body_decoder import read_part
from protos.errors import InvalidRequest


class Api(Flag):
    """The APIs that have a parameter."""

    CHAT = auto()
    COMPLETIONS = auto()
    RESPONSES = auto()
    COMPLETED = CHAT | COMPLETIONS
    ALL = COMPLETED | RESPONSES


class _Anything(tuple[Any, ...]):
    """The values of a parameter that has no effect on answers, whatever its value."""

    __slots__ = ()

    def __contains__(self, value: object) -> bool:
        return True


#: Ids, and hints for caches and schedulers of other servers.
ANYTHING: Final = _Anything()


class _Exactly(tuple[Any, ...]):
    """Values of their own type alone: 0 is not `false`."""

    __slots__ = ()

    def __contains__(self, value: object) -> bool:
        return any(type(value) is type(one) and value == one for one in self)


#: Any value, which no upstream gets: there it would reach another client's request, cache or model.
KEPT_BACK: Final = _Anything()


class Extension(NamedTuple):
    """A parameter: its name, where it comes from, and the values that are taken beside null.

    Other values are honoured by the APIs `honoured`, where `does` says what they ask for.
    """

    name: str
    origin: str
    taken: tuple[Any, ...] = ()
    apis: Api = Api.ALL
    honoured: Api = Api(0)
    does: str = ""


EXTENSIONS: Final = (
    Extension(
        *("add_generation_prompt", "vLLM, llama.cpp", (True,), Api.ALL, Api.CHAT),
        "`false`, with `continue_final_message`",
    ),
    Extension("add_special_tokens", "vLLM, TensorRT-LLM", (False,), Api.CHAT | Api.RESPONSES),
    Extension("add_special_tokens", "vLLM, TensorRT-LLM", (True,), Api.COMPLETIONS),
    Extension("allowed_token_ids", "vLLM", ([],)),
    Extension("bad_words", "vLLM", ([],)),
    Extension("beam_search_diversity_rate", "TensorRT-LLM", (0,)),
    Extension("best_of", "vLLM", (1,), Api.CHAT | Api.RESPONSES),
    Extension("cache_prompt", "llama.cpp", (True,)),
    Extension("cache_salt", "vLLM, TensorRT-LLM", KEPT_BACK),
    Extension("chat_template", "vLLM", ("",)),
    Extension(
        *("continue_final_message", "vLLM, SGLang", (False,), Api.CHAT | Api.RESPONSES, Api.CHAT),
        "the answer goes on from the last message, the assistant's",
    ),
    Extension("continue_final_message", "vLLM, SGLang", (False,), Api.COMPLETIONS),
    Extension("detokenize", "TensorRT-LLM", (True,)),
    Extension("disaggregated_params", "TensorRT-LLM", ({},)),
    Extension("dry_multiplier", "llama.cpp", (0,)),
    Extension("dynatemp_range", "llama.cpp", (0,)),
    Extension("early_stopping", "TensorRT-LLM", (False, 0)),
    Extension(
        *("echo", "vLLM", (False,), Api.CHAT | Api.RESPONSES, Api.CHAT),
        "with `continue_final_message`: the answer begins with that message",
    ),
    Extension("exclude_input_from_output", "TensorRT-LLM", (True,)),
    Extension("guided_decoding_backend", "vLLM", ANYTHING),
    Extension("guided_whitespace_pattern", "vLLM", ("",)),
    Extension("id_slot", "llama.cpp", (-1,)),
    Extension(
        *("include_reasoning", "vLLM, OpenRouter", (True,), Api.CHAT | Api.RESPONSES, Api.CHAT),
        "`false`: thoughts are made, counted and left out; so `reasoning.exclude` (OpenRouter's)",
    ),
    Extension("include_reasoning", "vLLM, OpenRouter", ANYTHING, Api.COMPLETIONS),
    Extension("include_stop_str_in_output", "vLLM, TensorRT-LLM", (False,)),
    Extension("keep_alive", "Ollama", KEPT_BACK),
    Extension("kv_transfer_params", "vLLM", ({},)),
    Extension("length_penalty", "vLLM, TensorRT-LLM", (1, 0)),
    Extension("litellm_params", "LiteLLM", ({},)),
    Extension("logits_processors", "vLLM", ([],)),
    Extension("lora_path", "SGLang", ("",)),
    Extension("lora_request", "TensorRT-LLM", ({},)),
    Extension("metadata", "OpenAI: tags of stored answers", ANYTHING, Api.CHAT | Api.COMPLETIONS),
    Extension("mirostat", "llama.cpp", (0,)),
    Extension("mm_processor_kwargs", "vLLM", ({},)),
    Extension("n_predict", "llama.cpp", (-1,)),
    Extension("no_repeat_ngram_size", "TensorRT-LLM", (0,)),
    Extension("no_stop_trim", "SGLang", (False,)),
    Extension("nvext", "NIM, Dynamo", ({},)),
    Extension("options", "Ollama", ({},)),
    Extension("priority", "vLLM", (0,)),
    Extension(
        *("prompt_logprobs", "vLLM", _Exactly((False,)), Api.ALL, Api.COMPLETED),
        "0 to 20 alternatives: `prompt_logprobs`, not streamed, of engines that give them",
    ),
    Extension("provider", "OpenRouter", ({},)),
    Extension("repeat_penalty", "llama.cpp", (1,)),
    Extension("request_id", "vLLM", KEPT_BACK),
    Extension("return_context_logits", "TensorRT-LLM", (False,)),
    Extension("return_generation_logits", "TensorRT-LLM", (False,)),
    Extension("return_hidden_states", "SGLang", (False,)),
    Extension(
        *("return_token_ids", "vLLM", (False,), Api.ALL, Api.COMPLETED),
        "`prompt_token_ids` and `token_ids`",
    ),
    Extension(
        *("return_tokens_as_token_ids", "vLLM", (False,), Api.ALL, Api.COMPLETED),
        "tokens in logprobs are named `token_id:5`",
    ),
    Extension("rid", "SGLang", KEPT_BACK),
    Extension("samplers", "llama.cpp", ([],)),
    Extension("separate_reasoning", "SGLang", (True,)),
    Extension("session_params", "SGLang", ({},)),
    Extension("skip_special_tokens", "vLLM, SGLang, TensorRT-LLM", (True,)),
    Extension("spaces_between_special_tokens", "vLLM, TensorRT-LLM", (True,)),
    Extension("stop_regex", "SGLang", ("", [])),
    Extension("stream_reasoning", "SGLang", (True,)),
    Extension("reasoning", "OpenRouter", ({},), Api.CHAT),
    Extension("tfs_z", "llama.cpp", (1,)),
    Extension("thinking", "DeepSeek, GLM, Kimi", (), Api.CHAT),
    Extension("top_a", "OpenRouter", (0,)),
    Extension("transforms", "OpenRouter", ([],)),
    Extension("truncate_prompt_tokens", "vLLM", ()),
    Extension("typical_p", "llama.cpp, TGI", (1,)),
    Extension("usage", "OpenRouter", ({}, {"include": True}, {"include": False})),
    Extension("use_beam_search", "vLLM, TensorRT-LLM", (False,)),
    Extension("vllm_xargs", "vLLM", ({},)),
    Extension("xtc_probability", "llama.cpp", (0,)),
    # OpenAI's own.
    Extension("audio", "OpenAI", ()),
    Extension("client_metadata", "Codex", ANYTHING),
    Extension("function_call", "OpenAI", ("none", "auto")),
    Extension("functions", "OpenAI", ([],)),
    Extension("modalities", "OpenAI", (["text"], [])),
    Extension("moderation", "OpenAI", ()),
    Extension("prediction", "OpenAI", ()),
    Extension("prompt_cache_options", "OpenAI", ({}, {"mode": "implicit"})),
    Extension("prompt_cache_retention", "OpenAI", ANYTHING),
    Extension("service_tier", "OpenAI", ("auto", "default", "standard")),
    Extension("store", "OpenAI", (False,), Api.CHAT | Api.COMPLETIONS),
    Extension("web_search_options", "OpenAI", ()),
    Extension("access_programs", "OpenAI", ()),
    Extension("background_options", "OpenAI", ({},)),
    Extension("context_management", "OpenAI", ([],)),
    Extension("image", "OpenAI", ({},)),
    Extension("prompt", "OpenAI", (), Api.CHAT | Api.RESPONSES),
)
#: The names of those that no upstream gets.
KEPT: Final = frozenset(one.name for one in EXTENSIONS if one.taken is KEPT_BACK)
MAX_SALT: Final = 512
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
#: Parameters that would reach beyond their request at an upstream, which trusts the gateway: to other models and
#: adapters, to what is kept for others, ahead of others, or to the template.
PRIVATE: Final = frozenset(
    (
        *("chat_template", "disaggregated_params", "kv_transfer_params", "litellm_params", "logits_processors"),
        *("lora_path", "lora_request", "mm_processor_kwargs", "nvext", "options", "priority", "session_params"),
        "vllm_xargs",
    )
)
#: What one of the APIs has among its fields: values that ask the others for nothing, and those that the field's own
#: type would refuse.
_FIELDS: Final[dict[str, tuple[Any, ...]]] = {
    "chat_template_kwargs": ({},),
    "documents": ([],),
    "enable_thinking": (),
    "logprobs": (False,),
    "max_completion_tokens": (-1,),
    "max_output_tokens": (-1,),
    "max_tokens": (-1,),
    "n": (1,),
    "parallel_tool_calls": (True, False),
    "prompt_cache_key": ANYTHING,
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "safety_identifier": ANYTHING,
    "stop": ("", []),
    "tool_choice": ("auto", "none"),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": ("medium",),
}
#: Text completions have no chat template that could read a hint.
_HINTS: Final[dict[str, tuple[Any, ...]]] = {
    "enable_thinking": ANYTHING,
    "reasoning": ANYTHING,
    "reasoning_effort": ANYTHING,
    "thinking": ANYTHING,
    "verbosity": ANYTHING,
}
#: Fields whose types refuse values that ask for nothing.
_OUTSIDE: Final = ("logprobs", "max_completion_tokens", "max_output_tokens", "max_tokens", "stop")


def taken(api: Api, fields: tuple[str, ...]) -> dict[str, tuple[Any, ...]]:
    """Give the values that ask for nothing, by parameter: those of an API's extensions, and of `fields`.

    Of its own fields they are only those that the field's type may refuse: what else a field has, it says.
    """
    found = {one.name: one.taken for one in EXTENSIONS if api in one.apis and one.name not in fields}
    if api is not Api.RESPONSES:
        # The body of a chat or a text completion may be relayed: `take_out` looks for them.
        found |= dict.fromkeys(KEPT, ())
    others = _FIELDS | (_HINTS if api is Api.COMPLETIONS else {})
    found |= {name: values for name, values in others.items() if name not in fields}
    found |= {name: _FIELDS[name] for name in _OUTSIDE if name in fields}
    return found | {name: values for name, values in GUIDES.items() if name not in fields}


def take_out(body: bytes, extras: dict[str, Any]) -> tuple[bytes, str]:
    """Take the parameters that no upstream gets out of a body and its `extras`; also return the client's cache salt.

    Raises InvalidRequest.
    """
    found = {name: extras.pop(name) for name in KEPT if name in extras}
    if not found:
        return body, ""
    salt = found.get("cache_salt", "")
    if not isinstance(salt, str) or len(salt) > MAX_SALT:
        raise InvalidRequest(
            f"Invalid value for 'cache_salt': expected a string of at most {MAX_SALT} characters.", param="cache_salt"
        )
    members = _MEMBERS.decode(body)
    return msgspec.json.encode({name: value for name, value in members.items() if name not in found}), salt


class Honoured(msgspec.Struct, frozen=True):
    """The parameters that the gateway honours itself: what an answer shows beside its text, or leaves out."""

    add_generation_prompt: bool = True
    continue_final_message: bool = False
    echo: bool = False
    include_reasoning: bool = True
    prompt_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool = False


def take_honoured(extras: dict[str, Any]) -> tuple[Honoured, str] | None:
    """Take the parameters that the gateway honours out of `extras`; also give one's name. Raises InvalidRequest."""
    found = {name: extras.pop(name) for name in Honoured.__struct_fields__ if name in extras}
    return (read_part(found, Honoured, ""), next(iter(found))) if found else None


def table_of_extensions() -> str:
    """Make the table of docs/api.md: parameters by what they are taken with."""
    lines = ["| parameter | of | taken without effect | where | honoured here |", "| --- | --- | --- | --- | --- |"]
    for one in sorted(EXTENSIONS, key=lambda extension: (extension.name, str(extension.apis))):
        values = ", ".join(f"`{_json(value)}`" for value in one.taken) or "null"
        if isinstance(one.taken, _Anything):
            values = "any value"
        does = f"{_listed(one.honoured)}: {one.does}" if one.does else ""
        lines.append(f"| `{one.name}` | {one.origin} | {values} | {_listed(one.apis)} | {does} |")
    return "\n".join(lines) + "\n"


def _listed(apis: Api) -> str:
    return "all" if apis == Api.ALL else ", ".join(name for api, name in _NAMES.items() if api & apis)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_NAMES: Final = {Api.CHAT: "chats", Api.COMPLETIONS: "text completions", Api.RESPONSES: "responses"}
