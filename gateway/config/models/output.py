"""Formats of a model's reasoning and tool calls."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta

from gateway.config.base import Record

#: Forms of whole answers, which go with no other.
_WHOLE: Final = ("harmony", "kimi_k3", "solar_open", "functionary_v32")


class Output(Record, frozen=True, kw_only=True):
    """The forms of answers from replicas that give tokens. Those of `openai` replicas come in the API's own form."""

    tools: Annotated[
        Literal[
            "auto",
            "none",
            "hermes",
            "llama3_json",
            "pythonic",
            "mistral",
            "deepseek_v3",
            "kimi_k2",
            "glm45",
            "qwen3_coder",
            "minimax_m2",
            "minimax_m3",
            "deepseek_v32",
            "gemma4",
            "lfm2",
            "phi4_mini",
            "granite",
            "command_r",
            "functionary_v31",
            "functionary_v32",
            "kimi_k3",
            "solar_open",
            "harmony",
        ],
        Meta(
            description="The family's form of tool calls. `auto`: as the chat template or the vocabulary shows. "
            "`none`, and `auto` where nothing is recognised: the model is offered no tools. Qwen writes `hermes`' "
            "form, gpt-oss `harmony`. The chat template must know tools."
        ),
    ] = "auto"
    reasoning: Annotated[
        Literal[
            "auto",
            "none",
            "think",
            "thought",
            "seed_think",
            "magistral",
            "granite",
            "gemma4",
            "minimax_m3",
            "hy3",
            "apertus",
            "functionary_v32",
            "kimi_k3",
            "solar_open",
            "harmony",
        ],
        Meta(
            description="The tags of thoughts, which clients get as `reasoning_content`. `auto`: as the chat template "
            "or the vocabulary shows. `none`: thoughts are text."
        ),
    ] = "auto"
    thoughts: Annotated[
        Literal["both", "reasoning_content", "reasoning"],
        Meta(description="The name of thoughts in answers to chats; clients read one or the other."),
    ] = "both"

    @property
    def thought_names(self) -> tuple[str, ...]:
        """The members of a message that have its thoughts."""
        return ("reasoning_content", "reasoning") if self.thoughts == "both" else (self.thoughts,)


def output_problems(output: Output, tokenizer: str | None, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for formats that exclude each other; `where` is the model, as `models[0]`."""
    named = {"auto", "none"}
    forms = {output.tools, output.reasoning} - named
    if tokenizer is None and forms:
        yield f"{where}.output", "only for models with a tokenizer: answers of upstreams need not be taken apart"
    whole = next((name for name in _WHOLE if name in forms), None)
    if whole is not None and forms != {whole}:
        yield f"{where}.output.tools", f"{whole} is the form of both tools and reasoning, and goes with no other"
