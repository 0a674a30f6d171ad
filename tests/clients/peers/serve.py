"""Serve simulated models under the names that peers' test suites ask for; see docs/clients.md.

usage: python -m tests.clients.peers.serve FOLDER vllm [TOKENIZER] | gpt-oss CASES
FOLDER must not exist yet. In it lies a cache of the hub of Hugging Face with the models' tokenizers (`hub`): one of
bytes that is made here, or the folder TOKENIZER with `tokenizer.json` and `tokenizer_config.json` of a real model.
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.clients.answers import hermes_call, thought
from tests.clients.thinking_model import HARMONY_MODEL, QWEN_MODEL, write_cache, write_thinking_model
from tests.e2e.stack import PENSTOCK
from tests.ports import free_port

PORT = 18280
GPT_OSS = "openai/gpt-oss-120b"
#: The models of vLLM's tests, and the tokens that each can see there. The first is the only one that a test looks for.
CONTEXTS = {
    "Qwen/Qwen3-0.6B": 40960,
    "HuggingFaceH4/zephyr-7b-beta": 8192,
    "Qwen/Qwen2.5-1.5B-Instruct": 8192,
    "Qwen/Qwen2-1.5B-Instruct": 32768,
    "Qwen/Qwen3-1.7B": 40960,
    "Qwen/Qwen3-8B": 32768,
    "HuggingFaceTB/SmolLM2-135M-Instruct": 8192,
}
#: Of them those that think before each answer, in tests that look for it.
THINKERS = ("Qwen/Qwen3-1.7B", "Qwen/Qwen3-8B")
#: And gpt-oss, with a form of its own.
HARMONY_CONTEXT = {"openai/gpt-oss-20b": 131072}
#: What the tests load adapters under, and what they call a model.
ALIASES = {
    "HuggingFaceH4/zephyr-7b-beta": ["zephyr-lora", "zephyr-lora2"],
    "Qwen/Qwen3-0.6B": ["claude-3-7-sonnet-latest"],
}
#: What a model answers where a test looks at more than the form: the first whose text the prompt has.
CALLS = (
    ("horoscope for Aquarius today", hermes_call("get_horoscope", sign="Aquarius")),
    ("current weather is in Berlin", hermes_call("get_current_weather", country="Germany", unit="fahrenheit")),
    (
        "get_weather for Berlin",
        f"{hermes_call('get_weather', location='Berlin')}\n{hermes_call('get_time', location='Tokyo')}",
    ),
    ("inspect Google Chrome", hermes_call("get_app_state", app="Google Chrome")),
)
ANSWERS = (
    ("1+1? Be concise", thought("I think about it.", "Here it is.")),
    ("what is 1+1? please respond with a JSON object", '{"result": 2}'),
    ("what is 1+1? please provide the result without any other text", "2"),
    ("weather like in New York", hermes_call("get_current_weather", location="New York")),
    ("weather like in Paris", hermes_call("get_weather", location="Paris")),
    *CALLS,
)
THOUGHTFUL = (
    *((asked, thought("I think about it.", answer)) for asked, answer in CALLS),
    ("Moby Dick", thought("I think about it. " * 99, "Here it is.")),
    ("", thought("I think about it.", "Here it is.")),
)
_THINKS = "<|channel|>analysis<|message|>I think about it.<|end|><|start|>assistant"


def harmony_call(name: str, arguments: str) -> str:
    """As gpt-oss writes it, after a thought."""
    return f"{_THINKS}<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>"


HARMONY_SAYS = f"{_THINKS}<|channel|>final<|message|>It is done.<|return|>"
HARMONY_ANSWERS = (
    ("to=assistant<|message|>", HARMONY_SAYS),
    ("weather like in Paris", harmony_call("get_weather", '{"latitude": 48.9, "longitude": 2.4}')),
    ("horoscope for Aquarius", harmony_call("get_horoscope", '{"sign": "Aquarius"}')),
    ("", HARMONY_SAYS),
)


def gpt_oss_answers(cases: Path) -> Iterable[tuple[str, str]]:
    """Give for each case the call that it expects, and a last word once a tool has answered."""
    yield "to=assistant<|message|>", HARMONY_SAYS
    for case in map(json.loads, cases.read_text(encoding="utf-8").splitlines()):
        yield case["input"].strip(), harmony_call(case["tool_name"], case["expected_arguments"])


class Group(NamedTuple):
    """Models with one tokenizer and the same answers, by name, with the tokens that each can see."""

    tokenizer: Path
    contexts: dict[str, int]
    answers: Iterable[tuple[str, str]]


def serve(folder: Path, groups: Iterable[Group]) -> None:
    models: list[dict[str, Any]] = []
    for number, (tokenizer, contexts, answers) in enumerate(groups):
        lines = (json.dumps({"contains": asked, "answer": answer}) for asked, answer in answers)
        (folder / f"answers-{number}.jsonl").write_text("\n".join(lines), encoding="utf-8")
        simulated = {"instant": True, "answers": f"answers-{number}.jsonl"}
        for name, context in contexts.items():
            write_cache(folder / "hub", tokenizer, name)
            pool = {"name": "simulated", "engine": "simulated", "replicas": 1, "simulated": simulated}
            model = {"name": name, "tokenizer": str(tokenizer), "context": context, "pools": [pool]}
            models.append(model | {"aliases": ALIASES.get(name, [])})
    config = {
        "listen": {"host": "127.0.0.1", "port": PORT, "workers": 1, "grace_seconds": 0},
        "admin": {"port": free_port()},
        "state": "./state",
        "store": {"url": "embedded"},
        "models": models,
    }
    (folder / "penstock.yaml").write_text(json.dumps(config), encoding="utf-8")
    os.chdir(folder)
    os.execv(PENSTOCK, [str(PENSTOCK), "serve", "--config", "penstock.yaml", "--quickstart"])


def serve_vllm(folder: Path, real: Path | None) -> None:
    tokenizer = write_thinking_model(folder / "model", QWEN_MODEL) if real is None else real.resolve()
    others = {name: context for name, context in CONTEXTS.items() if name not in THINKERS}
    thinkers = {name: CONTEXTS[name] for name in THINKERS}
    harmony = write_thinking_model(folder / "harmony", HARMONY_MODEL)
    serve(
        folder,
        (
            Group(tokenizer, others, ANSWERS),
            Group(tokenizer, thinkers, THOUGHTFUL),
            Group(harmony, HARMONY_CONTEXT, HARMONY_ANSWERS),
        ),
    )


def main(arguments: list[str]) -> None:
    match arguments:
        case [name, "vllm", *real]:
            pass
        case [name, "gpt-oss", _]:
            real = []
        case _:
            sys.exit(__doc__)
    folder = Path(name).resolve()
    folder.mkdir(parents=True)
    if arguments[1] == "vllm":
        serve_vllm(folder, Path(real[0]) if real else None)
    else:
        tokenizer = write_thinking_model(folder / "model", HARMONY_MODEL)
        serve(folder, (Group(tokenizer, {GPT_OSS: 131072}, gpt_oss_answers(Path(arguments[2]))),))


if __name__ == "__main__":
    main(sys.argv[1:])
