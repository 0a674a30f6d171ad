"""Models by ONNX Runtime behind the seam: real ones, but tiny."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.safety.guard_checks import guard_problems, with_absolute_files
from gateway.config.safety.guards import OnnxGuardSettings
from gateway.filtering.guards import onnx
from gateway.filtering.guards.bounded import BoundedGuard
from gateway.filtering.guards.errors import GuardUnusable
from gateway.filtering.guards.onnx import OnnxGuard
from gateway.filtering.guards.unusable_guards import unusable_guard
from safety.guard import GuardFailed
from safety.match import Match
from tests.gateway.guards.tiny_model import write_model
from tests.loops import bounded

WHERE = "safety.filters[0].onnx"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


def settings(folder: Path, **fields: Any) -> OnnxGuardSettings:
    labels = fields.pop("labels", ("INJECTION",))
    return OnnxGuardSettings(path=str(folder), labels=labels, cache_size=0, **fields)


def guarded(own: OnnxGuardSettings, *texts: str) -> list[list[Match]]:
    found: list[list[Match]] = []

    async def main() -> None:
        bounded = BoundedGuard(OnnxGuard(own, WHERE), own)
        try:
            found.extend([await bounded.verdict(text) for text in texts])
        finally:
            await bounded.aclose()

    bounded(main)
    return found


def refusal(own: OnnxGuardSettings) -> str:
    with pytest.raises(GuardUnusable) as caught:
        OnnxGuard(own, WHERE)
    return str(caught.value)


def test_a_label_that_is_probable_is_a_match_of_the_whole_text(folder: Path) -> None:
    said, nothing = guarded(settings(folder), "hello attack world", "hello world")
    assert [each[:3] for each in said] == [(0, 18, "injection")]
    assert said[0].score == pytest.approx(1.0)
    assert nothing == []


def test_only_the_labels_that_are_named_count(folder: Path) -> None:
    texts = ("persona", "attack")
    assert [bool(found) for found in guarded(settings(folder), *texts)] == [False, True]
    assert [found[0].label for found in guarded(settings(folder, labels=("JAILBREAK", "INJECTION")), *texts)] == [
        "jailbreak",
        "injection",
    ]


def test_the_threshold(folder: Path) -> None:
    """Of words that say nothing each label is about as probable as the others."""
    for threshold, found in ((0.2, True), (0.45, False)):
        assert bool(guarded(settings(folder, threshold=threshold), "hello world")[0]) == found


@pytest.mark.parametrize("place", [0, 13, 14, 100, 999])
@pytest.mark.parametrize("batch", [1, 3, 256])
def test_long_texts_are_looked_at_in_windows(folder: Path, place: int, batch: int) -> None:
    words = ["world"] * 1000
    own = settings(folder, max_tokens=16, overlap_tokens=4, batch=batch)
    assert guarded(own, " ".join(words)) == [[]]
    words[place] = "attack"
    assert len(guarded(own, " ".join(words))[0]) == 1


@given(st.lists(st.sampled_from(("attack", "hello", "world")), min_size=1, max_size=60), st.integers(1, 9))
def test_how_windows_are_put_together_makes_no_difference(folder: Path, words: Sequence[str], batch: int) -> None:
    guard = OnnxGuard(settings(folder, max_tokens=16, overlap_tokens=5, batch=batch), WHERE)
    assert bool(guard._matches(" ".join(words))) == ("attack" in words)


def test_work_stops_when_nobody_waits_any_longer(folder: Path) -> None:
    seconds = iter(range(100))
    own = settings(folder, max_tokens=16, overlap_tokens=0, batch=1, timeout_seconds=3.0)
    guard = OnnxGuard(own, WHERE, lambda: next(seconds))
    with pytest.raises(GuardFailed, match="more windows than"):
        guard._matches("world " * 1000)
    assert next(seconds) == 4


def test_a_model_without_a_mask(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "bare", inputs=("input_ids",))
    assert [bool(found) for found in guarded(settings(folder), "attack", "hello")] == [True, False]


def test_labels_that_do_not_exclude_each_other(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "many")
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(said | {"problem_type": "multi_label_classification"}))
    both = guarded(settings(folder, labels=("INJECTION",)), "attack persona")[0]
    assert both[0].score == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "config.json"])
@pytest.mark.parametrize("change", ["gone", "empty", "nonsense"])
def test_files_that_are_missing_or_something_else(tmp_path: Path, name: str, change: str) -> None:
    folder = write_model(tmp_path / "model")
    (folder / name).unlink()
    if change != "gone":
        (folder / name).write_bytes(b"" if change == "empty" else b'{"a": [')
    said = refusal(settings(folder))
    field = "model" if name == "model.onnx" else "path"
    assert said.startswith(f"{WHERE}.{field}: ")
    assert str(folder / name) in said
    found = [where for where, _ in unusable_guard(settings(folder), WHERE)]
    # What it takes to load a model and a tokenizer is found when that is done.
    assert found == ([f"{WHERE}.{field}"] if change == "gone" or name == "config.json" else [])


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(settings(tmp_path / "absent")) == f"{WHERE}.path: there is no file {tmp_path}/absent/config.json"


@pytest.mark.parametrize("inputs", [("words",), ("input_ids", "attention_mask", "pixels")])
def test_a_model_with_other_inputs(tmp_path: Path, inputs: tuple[str, ...]) -> None:
    folder = write_model(tmp_path / "other", inputs=inputs)
    said = refusal(settings(folder))
    assert said.startswith(f"{WHERE}.model: {folder}/model.onnx takes {inputs[0]}: tensor(int64)")
    assert said.endswith("expected int64 input_ids, attention_mask, token_type_ids")


def test_a_model_with_other_labels_than_its_configuration(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "few", outputs=2)
    assert refusal(settings(folder)).startswith(
        f"{WHERE}.model: {folder}/model.onnx has not the 3 labels of config.json"
    )


def test_a_label_that_the_model_does_not_have(folder: Path) -> None:
    said = refusal(settings(folder, labels=("INJECTION", "SPAM")))
    assert said.startswith(f"{WHERE}.labels[1]: the model of {folder}/config.json has no label SPAM; it has BENIGN, ")
    assert [where for where, _ in unusable_guard(settings(folder, labels=("SPAM",)), "at")] == ["at.labels[0]"]


def test_labels_that_are_numbered_otherwise(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "odd")
    (folder / "config.json").write_text('{"id2label": {"0": "A", "2": "INJECTION"}}')
    assert "are not numbered from 0 on" in refusal(settings(folder))


def test_that_it_is_not_installed_is_said_at_the_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    monkeypatch.setattr("gateway.filtering.guards.onnx.importlib.util.find_spec", lambda name: None)
    said = "onnxruntime is not installed; it comes with: pip install 'penstock[onnx]'"
    assert refusal(settings(folder)) == f"{WHERE}: {said}"
    assert list(unusable_guard(settings(folder), WHERE)) == [(WHERE, said)]


def test_a_gateway_without_it_does_not_import_it() -> None:
    code = (
        "import gateway.filtering.guards.build_guards, sys; print('onnxruntime' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split()[0] == "False"


def test_rules_of_its_settings(folder: Path) -> None:
    assert list(guard_problems(settings(folder), "at", ())) == []
    wide = settings(folder, max_tokens=100, overlap_tokens=51)
    assert list(guard_problems(wide, "at", ())) == [("at.overlap_tokens", "is more than half of max_tokens")]
    assert with_absolute_files(settings(Path("models/guard")), folder).path == str(folder / "models" / "guard")


async def test_its_errors_show_nothing_of_the_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = settings(folder)
    guard = OnnxGuard(own, WHERE)

    def fail(model: Any, windows: Any) -> Any:
        raise ValueError("hello attack")

    monkeypatch.setattr(onnx._Model, "probabilities", fail)

    bounded = BoundedGuard(guard, own)
    with pytest.raises(GuardFailed) as caught:
        await bounded.verdict("hello attack")
    assert caught.value.problem.startswith("ValueError in test_onnx.py:")
    await bounded.aclose()
