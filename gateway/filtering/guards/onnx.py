"""A guard that runs a text classifier in this process by ONNX Runtime: Prompt Guard 2, ProtectAI's models, ..."""

import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from gateway.config.safety.guards import OnnxGuardSettings
from gateway.filtering.guards.errors import GuardUnusable
from gateway.filtering.guards.threads import GuardThreads
from gateway.filtering.guards.verdicts import label_of
from safety.guard import GuardFailed
from safety.match import Match

_EXTRA: Final = "pip install 'penstock[onnx]'"
_TOKENIZER: Final = "tokenizer.json"
_CONFIG: Final = "config.json"
#: Inputs of such a model, each of the shape (texts, tokens).
_INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
_INTEGERS: Final = "tensor(int64)"
#: The configuration's value for models whose labels do not exclude each other.
_MANY_LABELS: Final = "multi_label_classification"
_MAX_SAID: Final = 300


class OnnxGuard:
    """A `Guard` that runs a model of this process, each call on one core and in a thread of its own."""

    def __init__(self, settings: OnnxGuardSettings, where: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`where` is its place in the configuration, as `safety.filters[2].onnx`. Loads the model, which takes seconds,
        and runs it once. Raises GuardUnusable, which names the field and the file.
        """
        self._settings = settings
        self._clock = clock
        self._model = _loaded(settings, where)
        self._threads = GuardThreads(self._matches, settings.threads, "onnx")

    async def ask(self, text: str, prompt: str | None, tenant: str) -> object:
        """Classify the text; the model does not see the prompt."""
        return await self._threads.run(text)

    async def aclose(self) -> None:
        self._threads.close()

    def _matches(self, text: str) -> list[Match]:
        """Match the text as a whole under the most probable label of any of its windows, if that label counts."""
        # Nobody waits longer than that, and a thread that goes on is missing for others.
        until = self._clock() + self._settings.timeout_seconds
        model = self._model
        best: dict[str, float] = {}
        windows = list(model.windows(text))
        for begin in range(0, len(windows), self._settings.batch):
            if self._clock() >= until:
                raise GuardFailed("the text has more windows than could be looked at in the time")
            for row in model.probabilities(windows[begin : begin + self._settings.batch]):
                for name in self._settings.labels:
                    best[name] = max(best.get(name, 0.0), row[model.labels[name]])
        name = max(best, key=lambda each: best[each])
        if best[name] < self._settings.threshold:
            return []
        return [Match(0, len(text), label_of(name), min(1.0, best[name]))]


class _Model(NamedTuple):
    """A loaded model. `labels`: the output of each label; `tokenizer` cuts texts into windows."""

    session: Any
    tokenizer: Any
    labels: Mapping[str, int]
    inputs: Sequence[str]
    padding: int
    many_labels: bool

    def windows(self, text: str) -> Iterator[list[int]]:
        """Yield the text's token ids in overlapping windows, each with the model's special tokens at both ends."""
        whole = self.tokenizer.encode(text)
        for window in (whole, *whole.overflowing):
            yield window.ids

    def probabilities(self, windows: Sequence[list[int]]) -> list[list[float]]:
        """Give each window's probability of each label. Raises what ONNX Runtime raises."""
        numpy: Any = importlib.import_module("numpy")
        longest = max(map(len, windows))
        shape = len(windows), longest
        given = {name: numpy.zeros(shape, dtype=numpy.int64) for name in _INPUTS}
        given["input_ids"] += self.padding
        for row, ids in enumerate(windows):
            given["input_ids"][row, : len(ids)] = ids
            given["attention_mask"][row, : len(ids)] = 1
        logits = self.session.run(None, {name: given[name] for name in self.inputs})[0].astype(numpy.float64)
        if logits.shape != (len(windows), len(self.labels)):
            raise GuardFailed(f"the model's output has the shape {logits.shape}")
        if not numpy.isfinite(logits).all():
            raise GuardFailed("the model's output is no number")
        if self.many_labels:
            found = 1 / (1 + numpy.exp(-logits))
        else:
            powers = numpy.exp(logits - logits.max(axis=1, keepdims=True))
            found = powers / powers.sum(axis=1, keepdims=True)
        rows: list[list[float]] = found.tolist()
        return rows


def onnx_problems(settings: OnnxGuardSettings, where: str) -> Iterator[tuple[str, str]]:
    """List why a model cannot be used, as (path, problem), as far as that is known without loading it."""
    try:
        _library(where)
        _labels(settings, where)
        for name in (settings.model, _TOKENIZER):
            _file(settings, where, name)
    except GuardUnusable as error:
        yield error.where, error.problem


def _library(where: str) -> None:
    for name in ("onnxruntime", "tokenizers"):
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            raise GuardUnusable(where, f"{name} is not installed; it comes with: {_EXTRA}")


def _file(settings: OnnxGuardSettings, where: str, name: str) -> Path:
    path = Path(settings.path) / name
    if not path.is_file():
        raise GuardUnusable(f"{where}.{'model' if name == settings.model else 'path'}", f"there is no file {path}")
    return path


def _labels(settings: OnnxGuardSettings, where: str) -> tuple[dict[str, int], Mapping[str, Any]]:
    """Return the output of each label, and the model's configuration."""
    path = _file(settings, where, _CONFIG)
    try:
        model_config = json.loads(path.read_bytes())
        labels = {str(name): int(index) for index, name in model_config["id2label"].items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        problem = f"{path} has no labels (id2label): {type(error).__name__}: {error}"[:_MAX_SAID]
        raise GuardUnusable(f"{where}.path", problem) from error
    if sorted(labels.values()) != list(range(len(labels))):
        raise GuardUnusable(f"{where}.path", f"the labels (id2label) of {path} are not numbered from 0 on")
    for index, name in enumerate(settings.labels):
        if name not in labels:
            problem = f"the model of {path} has no label {name}; it has {', '.join(labels)}"[:_MAX_SAID]
            raise GuardUnusable(f"{where}.labels[{index}]", problem)
    return labels, model_config


def _loaded(settings: OnnxGuardSettings, where: str) -> _Model:
    _library(where)
    labels, model_config = _labels(settings, where)
    tokenizer = _tokenizer(settings, where)
    path = _file(settings, where, settings.model)
    try:
        runtime: Any = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise GuardUnusable(where, f"onnxruntime cannot be imported: {error}") from error
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Errors are raised all the same; its warnings are about its own optimisations.
    options.log_severity_level = 3
    try:
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        problem = f"{path} cannot be loaded as an ONNX model: {type(error).__name__}: {error}"[:_MAX_SAID]
        raise GuardUnusable(f"{where}.model", problem) from error
    inputs = {each.name: each.type for each in session.get_inputs()}
    if "input_ids" not in inputs or not inputs.items() <= {(name, _INTEGERS) for name in _INPUTS}:
        found = ", ".join(f"{name}: {kind}" for name, kind in inputs.items())
        problem = f"{path} takes {found}; expected int64 {', '.join(_INPUTS)}"
        raise GuardUnusable(f"{where}.model", problem[:_MAX_SAID])
    padding = model_config.get("pad_token_id")
    model = _Model(
        session,
        tokenizer,
        labels,
        list(inputs),
        padding if isinstance(padding, int) else 0,
        model_config.get("problem_type") == _MANY_LABELS,
    )
    try:
        model.probabilities(list(model.windows("Hello")))
    except GuardFailed as error:
        raise GuardUnusable(
            f"{where}.model", f"{path} has not the {len(labels)} labels of {_CONFIG}: {error}"
        ) from error
    except Exception as error:
        problem = f"{path} does not run: {type(error).__name__}: {error}"[:_MAX_SAID]
        raise GuardUnusable(f"{where}.model", problem) from error
    return model


def _tokenizer(settings: OnnxGuardSettings, where: str) -> Any:
    path = _file(settings, where, _TOKENIZER)
    library: Any = importlib.import_module("tokenizers")
    try:
        tokenizer = library.Tokenizer.from_file(str(path))
    except Exception as error:
        raise GuardUnusable(f"{where}.path", f"{path} does not load: {error}"[:_MAX_SAID]) from error
    tokenizer.no_padding()
    try:
        tokenizer.enable_truncation(settings.max_tokens, stride=settings.overlap_tokens)
    except Exception as error:
        raise GuardUnusable(f"{where}.overlap_tokens", f"{path} cannot cut texts so: {error}"[:_MAX_SAID]) from error
    return tokenizer
