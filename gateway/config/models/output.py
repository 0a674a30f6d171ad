"""Formats of a model's reasoning and tool calls."""

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta

from gateway.config.base import Record


class Output(Record, frozen=True, kw_only=True):
    """The forms of answers from replicas that give tokens. Those of `openai` replicas come in the API's own form."""

    tools: Annotated[
        Literal[
            "auto", "none", "hermes", "llama3_json", "pythonic", "mistral", "deepseek_v3", "kimi_k2", "glm45", "harmony"
        ],
        Meta(
            description="The family's form of tool calls. `auto`: as the chat template or the vocabulary shows. "
            "`none`, and `auto` where nothing is recognised: the model is offered no tools. Qwen writes `hermes`' "
            "form, gpt-oss `harmony`. The chat template must know tools."
        ),
    ] = "auto"
    reasoning: Annotated[
        Literal["auto", "none", "think", "thought", "seed_think", "magistral", "harmony"],
        Meta(
            description="The tags of thoughts, which clients get as `reasoning_content`. `auto`: as the chat template "
            "or the vocabulary shows. `none`: thoughts are text."
        ),
    ] = "auto"


def output_problems(output: Output, tokenizer: str | None, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for formats that exclude each other; `where` is the model, as `models[0]`."""
    named = {"auto", "none"}
    if tokenizer is None and not {output.tools, output.reasoning} <= named:
        yield f"{where}.output", "only for models with a tokenizer: answers of upstreams need not be taken apart"
    if "harmony" in (output.tools, output.reasoning) and not {output.tools, output.reasoning} <= named | {"harmony"}:
        yield f"{where}.output.tools", "harmony is the form of both tools and reasoning, and goes with no other"
