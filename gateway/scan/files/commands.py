"""Commands that serve or fetch models: `vllm serve`, `trtllm-serve`, `python -m sglang.launch_server` and the like."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.scan.environment import expanded
from gateway.scan.finding import Finding, Kind, Task
from gateway.scan.names import hub_id, hub_task, local_path, ollama_id

_LONGEST: Final = 16_384
_MOST_WORDS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRule:
    """A program: the words that it is known by, and where its model is told."""

    words: tuple[str, ...]
    engine: str
    flags: tuple[str, ...] = ("--model",)
    positional: bool = False
    task: Task | None = Task.GENERATE
    serves: bool = True


_HUB_FLAGS: Final = ("-hf", "--hf-repo", "-m", "--model")
_RULES: Final = (
    ServeRule(words=("vllm", "serve"), engine="vllm", flags=("--model", "--model-tag"), positional=True),
    ServeRule(words=("vllm.entrypoints.openai.api_server",), engine="vllm"),
    ServeRule(words=("vllm.entrypoints.api_server",), engine="vllm"),
    ServeRule(words=("trtllm-serve", "serve"), engine="trtllm", positional=True),
    ServeRule(words=("trtllm-serve",), engine="trtllm", positional=True),
    ServeRule(words=("sglang.launch_server",), engine="sglang", flags=("--model-path", "--model")),
    ServeRule(words=("sglang_router.launch_server",), engine="sglang", flags=("--model-path", "--model")),
    ServeRule(words=("sglang", "serve"), engine="sglang", flags=("--model-path", "--model")),
    ServeRule(words=("text-generation-launcher",), engine="tgi", flags=("--model-id",)),
    ServeRule(words=("text-embeddings-router",), engine="tei", flags=("--model-id",), task=None),
    ServeRule(words=("lmdeploy", "serve", "api_server"), engine="lmdeploy", positional=True),
    ServeRule(words=("llama-server",), engine="llama.cpp", flags=_HUB_FLAGS),
    ServeRule(words=("llama_cpp.server",), engine="llama.cpp", flags=("--model", "--hf_model_repo_id")),
    ServeRule(words=("mlx_lm.server",), engine="mlx"),
    ServeRule(words=("ollama", "run"), engine="ollama", positional=True, task=None),
    ServeRule(words=("ollama", "pull"), engine="ollama", positional=True, task=None),
    ServeRule(words=("huggingface-cli", "download"), engine="", positional=True, task=None, serves=False),
    ServeRule(words=("hf", "download"), engine="", positional=True, task=None, serves=False),
)
#: Images whose entry point is one of the programs, by a part of their name.
_IMAGES: Final = {
    "vllm/vllm-openai": ServeRule(words=(), engine="vllm"),
    "vllm-openai": ServeRule(words=(), engine="vllm"),
    "text-generation-inference": ServeRule(words=(), engine="tgi", flags=("--model-id",)),
    "text-embeddings-inference": ServeRule(words=(), engine="tei", flags=("--model-id",), task=None),
    "llama.cpp": ServeRule(words=(), engine="llama.cpp", flags=_HUB_FLAGS),
    "openmmlab/lmdeploy": ServeRule(words=(), engine="lmdeploy"),
}
_OPTIONS: Final = {
    "--tensor-parallel-size": "tp", "-tp": "tp", "--tp": "tp", "--tp_size": "tp", "--tp-size": "tp",
    "--num-shard": "tp", "--alias": "served", "-a": "served",
    "--pipeline-parallel-size": "pp", "-pp": "pp", "--pp_size": "pp", "--pp-size": "pp",
    "--max-model-len": "context", "--context-length": "context", "--max_seq_len": "context",
    "--max-total-tokens": "context",
    "-c": "context", "--ctx-size": "context", "--session-len": "context",
    "--quantization": "quantisation", "-q": "quantisation", "--quantize": "quantisation",
    "--kv-cache-dtype": "kv", "--kv_cache_dtype": "kv", "--port": "port", "-p": "port", "--task": "task",
    "--served-model-name": "served", "--hf-file": "weights_file", "-hff": "weights_file",
}  # fmt: skip
#: Options of programs that take no value; others are taken to have one.
_SWITCHES: Final = re.compile(r"--(?:no-|enable-|disable-|trust[-_]remote|skip-|enforce-eager|grpc|async|verbose)")
_CLONE: Final = re.compile(
    r"git\s+clone\s+(?:-\S+\s+)*https://huggingface\.co/([A-Za-z0-9][\w.-]*/[\w.-]+?)(?:\.git)?(?:\s|$)"
)


def command_findings(
    file: str, line: int, text: str, values: Mapping[str, tuple[str, ...]], image: str = "", service: str = ""
) -> Iterator[Finding]:
    """Yield what a command line says. `image` and `service`: those of the container that it is of."""
    if len(text) > _LONGEST:
        return
    words = _words(expanded(text, values))
    for clone in _CLONE.finditer(text):
        name = hub_id(clone[1])
        if name is not None and not clone[1].startswith(("spaces/", "datasets/")):
            yield _finding(file, line, ServeRule(words=("git", "clone"), engine="", task=None), name, {}, "")
    found = False
    for start in range(len(words)):
        rule = next((one for one in _RULES if _begins(words, start, one.words)), None)
        if rule is not None:
            found = True
            yield from _served(file, line, rule, words[start + len(rule.words) :], service)
            # `trtllm-serve serve` is one program, whose second word begins none.
            break
    if not found and image:
        program = next((one for part, one in _IMAGES.items() if part in image), None)
        if program is not None:
            yield from _served(file, line, program, words, service)


def _words(text: str) -> Sequence[str]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.replace('"', " ").replace("'", " ").replace(",", " ").split()
    # ["vllm", "serve"] of a Dockerfile is one word to a shell, or words with brackets.
    return [word.strip('[],"') for word in words[:_MOST_WORDS]]


def _begins(words: Sequence[str], start: int, wanted: tuple[str, ...]) -> bool:
    if start + len(wanted) > len(words):
        return False
    first = words[start].rpartition("/")[2]
    return first == wanted[0] and tuple(words[start + 1 : start + len(wanted)]) == wanted[1:]


def _served(file: str, line: int, rule: ServeRule, words: Sequence[str], service: str) -> Iterator[Finding]:
    model, options = "", dict[str, str]()
    rest = iter(words)
    for word in rest:
        if word in ("&&", "||", ";", "|", "&"):
            break
        flag, equals, value = word.partition("=")
        if not word.startswith("-"):
            if rule.positional and not model:
                model = word
            continue
        if _SWITCHES.match(flag):
            continue
        if not equals:
            value = next(rest, "")
        if flag in rule.flags and not model:
            model = value
        elif flag in _OPTIONS:
            options[_OPTIONS[flag]] = value
    name = ollama_id(model) if rule.engine == "ollama" else local_path(model) or hub_id(model.partition(":")[0])
    if name is None:
        return
    if rule.engine == "llama.cpp" and ":" in model:
        options["weights_file"] = model.partition(":")[2] + ".gguf"
    yield _finding(file, line, rule, name, options, service)


_PORTS: Final = {"vllm": "8000", "trtllm": "8000", "sglang": "30000", "tgi": "80", "tei": "80", "llama.cpp": "8080",
                 "lmdeploy": "23333", "mlx": "8080", "ollama": "11434"}  # fmt: skip


def _finding(file: str, line: int, rule: ServeRule, name: str, options: dict[str, str], service: str) -> Finding:
    port = options.pop("port", "")
    port = port if port.isdecimal() else _PORTS.get(rule.engine, "")
    served = ollama_id(options.pop("served", ""))
    task = rule.task or hub_task(name)
    if options.pop("task", "") in ("embed", "embedding"):
        task = Task.EMBED
    if task is Task.GENERATE and hub_task(name) in (Task.EMBED, Task.RERANK):
        task = hub_task(name)
    return Finding(
        file=file,
        line=line,
        kind=Kind.WEIGHTS,
        value=name,
        how=" ".join(rule.words) or f"image of {rule.engine}",
        provider="ollama" if rule.engine == "ollama" else "huggingface",
        task=Task.GENERATE if rule.engine == "ollama" and task is Task.UNKNOWN else task,
        engine=rule.engine,
        base_url=f"http://{service}:{port}/v1" if service and port and rule.serves else "",
        options=options,
        served_as=(served,) if served else (),
    )


def image_commands(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, image and arguments of each `CMD` and `ENTRYPOINT` of a Dockerfile."""
    image, stages = "", dict[str, str]()
    for number, line in logical_lines(text):
        name, _, rest = line.strip().partition(" ")
        if name.upper() == "FROM":
            words = [word for word in rest.split() if not word.startswith("--")]
            image = stages.get(words[0].lower(), words[0]) if words else ""
            if len(words) == 3:
                stages[words[2].lower()] = image
        elif name.upper() in ("CMD", "ENTRYPOINT") and image:
            yield number, image, rest.replace('","', '", "')


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and text of each line, those that end in a backslash joined with the next ones."""
    start, parts, length = 0, list[str](), 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") and not parts:
            continue
        start = start or number
        stripped = line.rstrip()
        goes_on = stripped.endswith("\\")
        parts.append(stripped[:-1] if goes_on else stripped)
        length += len(line)
        if not goes_on or length > _LONGEST:
            yield start, " ".join(parts)
            start, parts, length = 0, [], 0
    if parts:
        yield start, " ".join(parts)
