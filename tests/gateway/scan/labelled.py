"""The labelled sample applications, and a reading of Algorithm 1 by patterns alone to compare with."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gateway.scan.finding import Kind
from gateway.scan.scan import Scan

_FOLDER: Final = Path(__file__).parent / "samples"
#: "Pattern 1: HuggingFace model references", "2: Model download URLs", "3: Framework-specific configs" and "4: API
#: client configurations", taken as expressions over all text.
_PATTERNS: Final = (
    re.compile(
        r"(?:from_pretrained|pipeline|snapshot_download|SentenceTransformer|CrossEncoder)\([^)\n]*?[\"']([\w.-]+/[\w.-]+)[\"']"
    ),
    re.compile(r"huggingface\.co/([\w.-]+/[\w.-]+)"),
    re.compile(
        r"[\"']?\b(?:model|model_name|modelName|model_id|repo_id|model-id|model-path|MODEL)[\"']?\s*[:=,]\s*[\"']?([\w./:-]+)"
    ),
    re.compile(r"--model(?:-id|-path)?[ =\",]+([\w./:-]+)"),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A small application; the sets are what its code uses."""

    name: str
    files: dict[str, str]
    models: frozenset[str]
    hosted: frozenset[str]
    aliases: frozenset[str]
    clients: frozenset[str]

    def write(self, folder: Path) -> Path:
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder


def samples() -> list[Sample]:
    found: list[Sample] = []
    for path in sorted(_FOLDER.glob("*.yaml")):
        entries: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
        for entry in entries:
            sets = [frozenset(entry.get(key, ())) for key in ("models", "hosted", "aliases", "clients")]
            found.append(Sample(entry["name"], entry["files"], *sets))
    return found


def found_models(scan: Scan) -> frozenset[str]:
    """The models that a scan says are used: those of tests and names that servers give them aside."""
    kinds = (Kind.WEIGHTS, Kind.HOSTED, Kind.ASKED)
    used = [one for one in scan.findings if one.kind in kinds and not one.of_tests]
    return frozenset(one.value for one in used) - {alias for one in used for alias in one.served_as}


def by_patterns(sample: Sample) -> frozenset[str]:
    """The models that the patterns find in all files."""
    return frozenset(
        match[1] for text in sample.files.values() for pattern in _PATTERNS for match in pattern.finditer(text)
    )
