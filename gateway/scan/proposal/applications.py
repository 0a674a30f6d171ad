"""Which application of a folder a finding is of: the nearest folder above it with a manifest of its own."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from gateway.scan.finding import Finding, Kind

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
#: What an application does with a model; that an engine serves one says nothing of who asks it.
_USES: Final = (Kind.HOSTED, Kind.ASKED, Kind.WEIGHTS)


def applications(findings: Sequence[Finding], manifests: Mapping[str, str], root: str) -> dict[str, list[Finding]]:
    """Map each application's name to what it uses. Without a use anywhere, the folder as a whole is one."""
    folders: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.kind in _USES and not finding.of_tests and not (finding.kind is Kind.WEIGHTS and finding.engine):
            folders.setdefault(_folder_of(finding.file, manifests), []).append(finding)
    if not folders:
        folders[""] = []
    named: dict[str, list[Finding]] = {}
    for folder, uses in sorted(folders.items()):
        name = tenant_name(manifests.get(folder, "") or PurePosixPath(folder).name or root)
        unique, number = name, 2
        while unique in named:
            unique, number = f"{name[:60]}-{number}", number + 1
        named[unique] = uses
    return named


def tenant_name(text: str) -> str:
    """A tenant's name made of a text: at most 64 letters, digits, dots, dashes; `application` of one without any."""
    name = _NOT_IN_NAMES.sub("-", text).strip("-._")[:64].strip("-._")
    # `default` has the keys that name no tenant.
    return name if name and name != "default" else "application"


def _folder_of(file: str, manifests: Mapping[str, str]) -> str:
    parents = [parent.as_posix() for parent in PurePosixPath(file).parents]
    return next((parent for parent in parents if parent != "." and parent in manifests), "")
