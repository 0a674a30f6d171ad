"""How each family writes calls, and what else its texts are put together from."""

import itertools
from collections.abc import Callable
from typing import Final, NamedTuple

import orjson


class Family(NamedTuple):
    """How a family writes calls: each as text, what joins them, and what stands around them all."""

    write: Callable[[str, str], str]
    between: str = ""
    before: str = ""
    after: str = ""
    #: What else its texts are put together from.
    parts: tuple[str, ...] = ()

    def calls(self, *calls: tuple[str, str]) -> str:
        return self.before + self.between.join(self.write(*call) for call in calls) + self.after


def pythonic(name: str, arguments: str) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in orjson.loads(arguments).items())})"


def glm45(name: str, arguments: str) -> str:
    pairs = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{value if isinstance(value, str) else orjson.dumps(value).decode()}"
        "</arg_value>\n"
        for key, value in orjson.loads(arguments).items()
    )
    return f"<tool_call>{name}\n{pairs}</tool_call>"


def gemma4(name: str, arguments: str) -> str:
    return f"<|tool_call>call:{name}{gemma_value(orjson.loads(arguments))}<tool_call|>"


def gemma_value(value: object) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{gemma_value(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(gemma_value, value))}]"
    return orjson.dumps(value).decode()


def minimax_m3(name: str, arguments: str) -> str:
    mark = "]<]minimax[>["
    return f'{mark}<invoke name="{name}">{nested(mark, orjson.loads(arguments))}{mark}</invoke>'


def nested(mark: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "".join(f"{mark}<{key}>{nested(mark, each)}{mark}</{key}>" for key, each in value.items())
    if isinstance(value, list):
        return "".join(f"{mark}<item>{nested(mark, each)}{mark}</item>" for each in value)
    return orjson.dumps(value).decode()


def kimi_k3(name: str, arguments: str) -> str:
    kinds = {str: "string", int: "number", dict: "object"}
    values = "".join(
        f'<|open|>argument key="{key}" type="{kinds[type(value)]}"<|sep|>'
        f"{value if isinstance(value, str) else orjson.dumps(value).decode()}<|close|>argument<|sep|>"
        for key, value in orjson.loads(arguments).items()
    )
    return f'<|open|>call tool="{name}" index="{next(_COUNT)}"<|sep|>{values}<|close|>call<|sep|>'


def listed(name: str, arguments: str) -> str:
    return f'{{"name": "{name}", "arguments": {arguments}}}'


def elements(start: str, end: str, pad: str = "", mark: str = "") -> Callable[[str, str], str]:
    """How a call is written with these beginnings of tags up to names, and with these closing tags' words."""

    def write(name: str, arguments: str) -> str:
        call, argument = (f"<{mark}{word.replace('_', ' ')}" for word in start.split())
        call_end, argument_end = (f"</{mark}{word}>" for word in end.split())
        quote = '"' if "_" in start else ""
        values = "".join(
            f"{argument}{quote}{key}{quote}>{pad}"
            f"{value if isinstance(value, str) else orjson.dumps(value).decode()}{pad}{argument_end}\n"
            for key, value in orjson.loads(arguments).items()
        )
        return f"{call}{quote}{name}{quote}>\n{values}{call_end}"

    return write


_COUNT: Final = itertools.count()
#: By configured name.
WRITTEN: Final = {
    "hermes": Family(
        lambda name, arguments: f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>',
        "\n",
        parts=("<tool_call>", "</tool_call>", '{"name": "search", "arguments": '),
    ),
    "llama3_json": Family(
        lambda name, arguments: f'{{"name": "{name}", "parameters": {arguments}}}',
        "; ",
        parts=("<|python_tag|>", '{"name": "search", "parameters": '),
    ),
    "pythonic": Family(pythonic, ", ", "[", "]", ("<|python_start|>", "<|python_end|>", "[search(query=")),
    "mistral": Family(
        lambda name, arguments: f"[TOOL_CALLS]{name}[ARGS]{arguments}",
        parts=("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "123456789", '[{"name": "search", "arguments": '),
    ),
    "deepseek_v3": Family(
        lambda name, arguments: (
            f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"
        ),
        "\n",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "search", "function", "\n```json", "<｜tool▁call▁end｜>"),
    ),
    "kimi_k2": Family(
        lambda name, arguments: (
            f"<|tool_call_begin|>functions.{name}:{next(_COUNT)}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
        ),
        "",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        ("<|tool_call_begin|>", "functions.search:0", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    ),
    "glm45": Family(
        glm45,
        "\n",
        parts=("<tool_call>", "search", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"),
    ),
    "qwen3_coder": Family(
        elements("function= parameter=", "function parameter", pad="\n"),
        "\n</tool_call>\n<tool_call>\n",
        "<tool_call>\n",
        "\n</tool_call>",
        ("<tool_call>", "<function=", "search>", "<parameter=", "query>", "</parameter>", "</function>"),
    ),
    "minimax_m2": Family(
        elements("invoke_name= parameter_name=", "invoke parameter"),
        "\n",
        "<minimax:tool_call>\n",
        "\n</minimax:tool_call>",
        ("<minimax:tool_call>", '<invoke name="', 'search">', '<parameter name="', 'query">', "</parameter>"),
    ),
    "minimax_m3": Family(
        minimax_m3,
        "\n",
        "]<]minimax[>[<tool_call>\n",
        "\n]<]minimax[>[</tool_call>",
        ("]<]minimax[>[", "<tool_call>", '<invoke name="', 'search">', "<query>", "</query>", "</invoke>", "<item>"),
    ),
    "deepseek_v32": Family(
        elements("invoke_name= parameter_name=", "invoke parameter", mark="｜DSML｜"),
        "\n",
        "<｜DSML｜function_calls>\n",
        "\n</｜DSML｜function_calls>",
        (
            "<｜DSML｜function_calls>",
            '<｜DSML｜invoke name="',
            'search">',
            '<｜DSML｜parameter name="',
            'q" string="true">',
        ),
    ),
    "gemma4": Family(
        gemma4,
        parts=("<|tool_call>", "call:search{", "query:", '<|"|>', "<tool_call|>", "}", ":"),
    ),
    "lfm2": Family(pythonic, ", ", "<|tool_call_start|>[", "]<|tool_call_end|>", ("<|tool_call_start|>", "[search(q=")),
    "phi4_mini": Family(listed, ", ", "functools[", "]", ("functools[", "<|tool_call|>", "<|/tool_call|>")),
    "granite": Family(listed, ", ", "<|tool_call|>[", "]", ("<|tool_call|>", "<function_call>")),
    "command_r": Family(
        lambda name, arguments: f'{{"tool_name": "{name}", "parameters": {arguments}}}',
        ",\n",
        "Action:\n```json\n[\n",
        "\n]\n```",
        ("Action:", "```json", "```", "\nAction:", '{"tool_name": "search"'),
    ),
    "functionary_v31": Family(
        lambda name, arguments: f"<function={name}>{arguments}</function>",
        "\n",
        parts=("<function=", "search>", "{", "</function>"),
    ),
    "functionary_v32": Family(
        lambda name, arguments: f">>>{name}\n{arguments}",
        parts=(">>>", "all\n", "search\n", "{"),
    ),
    "kimi_k3": Family(
        kimi_k3,
        "",
        "<|open|>tools<|sep|>",
        "<|close|>tools<|sep|>",
        (
            *("<|open|>", "<|close|>", "<|sep|>", "think", "response", "tools", 'call tool="search" index="1"'),
            *('argument key="query" type="string"', 'argument key="x" type="object"', 'json type="object"'),
            *("<|open|>think<|sep|>", "<|close|>argument<|sep|>", "<|close|>call<|sep|>", "<|end_of_msg|>"),
        ),
    ),
    "solar_open": Family(
        lambda name, arguments: (
            f"<|tool_call:begin|>{next(_COUNT)}<|tool_call:name|>{name}<|tool_call:args|>{arguments}<|tool_call:end|>"
        ),
        "",
        "<|tool_calls|>",
        "<|calls|>",
        (
            *("<|begin|>", "assistant", "<|think|>", "<|content|>", "<|tool_calls|>", "<|tool_call:begin|>", "a1"),
            *("<|tool_call:name|>", "search", "<|tool_call:args|>", "<|tool_call:end|>", "<|calls|>", "<|end|>"),
        ),
    ),
    "harmony": Family(
        lambda name, arguments: (
            f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>"
        ),
        "<|start|>assistant",
        parts=("<|start|>", "<|channel|>", "final", "analysis", "to=functions.search", "<|message|>", "<|end|>"),
    ),
}
