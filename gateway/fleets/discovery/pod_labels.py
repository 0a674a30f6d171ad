"""Labels of a pod that give its replica's shape, role and version."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from protos.types import Role, Shape

SHAPE, ROLE, VERSION = "penstock/shape", "penstock/role", "penstock/version"
#: As scaling writes a shape's name: `tp8`, `tp4-ep2` or `tp2-pp2`.
_SHAPE: Final = re.compile(r"tp(?P<tp>[1-9][0-9]{0,3})(?:-ep(?P<ep>[1-9][0-9]{0,3}))?(?:-pp(?P<pp>[1-9][0-9]{0,3}))?")


@dataclass(frozen=True, slots=True)
class PodLabels:
    """A replica by its pod's labels; `version` is empty where they give none."""

    shape: Shape
    role: Role = Role.BOTH
    version: str = ""


def read_labels(labels: Mapping[str, str]) -> tuple[PodLabels | None, str]:
    """Return what a pod's labels say; None, and why, where that cannot be."""
    text = labels.get(SHAPE)
    if text is None:
        return None, f"it has no label {SHAPE}"
    match = _SHAPE.fullmatch(text)
    shape = match and Shape(*(int(match[name] or 1) for name in ("tp", "ep", "pp")))
    if not shape or shape.tp % shape.ep:
        return None, f"its label {SHAPE} is none, as tp8 or tp4-ep2 would be: {text}"
    try:
        role = Role(labels.get(ROLE, Role.BOTH.value))
    except ValueError:
        return None, f"its label {ROLE} is not one of {', '.join(one.value for one in Role)}: {labels[ROLE]}"
    return PodLabels(shape, role, labels.get(VERSION, "")), ""
