"""Finding the library: missing, a stub, or moved; and that the sources it comes from still say what we call."""

import os
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from replicas.engines.tensorrt_llm.library import LibraryMissing, load_library
from replicas.engines.tensorrt_llm.manifest import MANIFEST, Signature
from replicas.engines.tensorrt_llm.signatures import check
from tests.fake_tensorrt_llm import package as fake_tensorrt_llm


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt_llm", None)
    with pytest.raises(LibraryMissing, match=r"penstock\[tensorrt-llm\]"):
        load_library()


def test_the_registrys_stub_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt_llm", ModuleType("tensorrt_llm"))
    with pytest.raises(LibraryMissing, match="stub"):
        load_library()


def test_a_class_that_moved_is_found_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tensorrt_llm.install(monkeypatch)
    helper = sys.modules["tensorrt_llm.lora_helper"]
    older = ModuleType("tensorrt_llm.lora_manager")
    older.LoraConfig = helper.LoraConfig  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorrt_llm.lora_helper", None)
    monkeypatch.setitem(sys.modules, "tensorrt_llm.lora_manager", older)
    assert load_library().lora_config is helper.LoraConfig
    monkeypatch.setitem(sys.modules, "tensorrt_llm.lora_manager", None)
    with pytest.raises(LibraryMissing, match="LoraConfig"):
        load_library()


def test_nothing_is_imported_before_an_engine_is_made() -> None:
    """The modules here can be read on a machine without the library, and cost nothing there."""
    assert "tensorrt_llm" not in sys.modules


GOOD = {
    "__init__.py": "from .llmapi.llm import LLM\n",
    "llmapi/__init__.py": "",
    "llmapi/llm.py": """
class BaseLLM:
    def __init__(self, model, tensor_parallel_size=1, **kwargs):
        self._executor = None

    def generate_async(self, inputs, sampling_params=None, *, cache_salt=None):
        pass
""",
    "lora_manager.py": "class LoraConfig:\n    lora_dir: list\n",
    "sampling_params.py": """
import enum

class Base:
    temperature: float = 1.0

class SamplingParams(Base):
    end_id: int = 0
""",
}
SMALL = (
    Signature(("tensorrt_llm.llmapi.llm:BaseLLM.__init__",), ("model", "tensor_parallel_size")),
    Signature(("tensorrt_llm.llmapi.llm:BaseLLM.generate_async",), ("inputs", "cache_salt")),
    Signature(("tensorrt_llm.llmapi.llm:BaseLLM",), ("model",), ("_executor",)),
    Signature(("tensorrt_llm.lora_helper:LoraConfig", "tensorrt_llm.lora_manager:LoraConfig"), ("lora_dir",)),
    Signature(("tensorrt_llm.sampling_params:SamplingParams",), ("end_id", "temperature")),
    Signature(("tensorrt_llm.sampling_params:SamplingParams",), ("priority",), optional=True),
)


def tree(folder: Path, changes: dict[str, str] | None = None) -> Path:
    for name, text in (GOOD | (changes or {})).items():
        file = folder / "tensorrt_llm" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_a_tree_that_has_everything(tmp_path: Path) -> None:
    assert check(tree(tmp_path), SMALL) == ([], ["tensorrt_llm.sampling_params:SamplingParams(priority=)"])


def test_a_wheel_is_read_as_it_is(tmp_path: Path) -> None:
    wheel = tmp_path / "tensorrt_llm-1.2.0-cp312-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in GOOD.items():
            archive.writestr(f"tensorrt_llm/{name}", text)
    assert check(wheel, SMALL)[0] == []


@pytest.mark.parametrize(
    ("file", "old", "new", "missing"),
    [
        ("llmapi/llm.py", "cache_salt", "salt", "tensorrt_llm.llmapi.llm:BaseLLM.generate_async(cache_salt=)"),
        ("llmapi/llm.py", "generate_async", "generate", "tensorrt_llm.llmapi.llm:BaseLLM.generate_async"),
        ("llmapi/llm.py", "_executor", "_engine", "tensorrt_llm.llmapi.llm:BaseLLM._executor"),
        ("sampling_params.py", "SamplingParams", "Sampling", "tensorrt_llm.sampling_params:SamplingParams"),
        ("sampling_params.py", "temperature", "heat", "tensorrt_llm.sampling_params:SamplingParams(temperature=)"),
        ("lora_manager.py", "LoraConfig", "Lora", "tensorrt_llm.lora_helper:LoraConfig"),
    ],
)
def test_what_is_missing_or_has_another_name_is_named(
    tmp_path: Path, file: str, old: str, new: str, missing: str
) -> None:
    needed, _ = check(tree(tmp_path, {file: GOOD[file].replace(old, new)}), SMALL)
    assert missing in needed


def test_a_stub_is_no_wheel(tmp_path: Path) -> None:
    (tmp_path / "tensorrt_llm").mkdir()
    (tmp_path / "tensorrt_llm" / "__init__.py").write_text("")
    with pytest.raises(ValueError, match="stub"):
        check(tmp_path)


def test_the_real_wheel_has_what_is_used() -> None:
    named = os.environ.get("PENSTOCK_TRTLLM_WHEEL")
    if not named:
        pytest.skip("PENSTOCK_TRTLLM_WHEEL names no wheel or unpacked folder of tensorrt_llm: NOT CHECKED")
    needed, _ = check(Path(named), MANIFEST)
    assert needed == []
