"""Structural tags for libraries of before TensorRT-LLM 1.2, whose XGrammar knows another form of them."""

import json
import re
from importlib import metadata
from typing import Any, Final

#: The first XGrammar that takes tags with a format, and no others.
_NEWER: Final = (0, 1, 25)
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def takes_older_tags() -> bool:
    """Whether the XGrammar that is installed knows structures and triggers alone."""
    try:
        version = metadata.version("xgrammar")
    except metadata.PackageNotFoundError:
        return False
    # What follows the third number, as in 0.1.21rc1 and 0.1.21+cu12, does not matter.
    found = _VERSION.match(version)
    return found is not None and tuple(map(int, found.groups())) < _NEWER


def older_tag(text: str) -> str:
    """The same tag in the older form. Raises ValueError where that form has no words for it.

    The library itself would fail all that runs beside such a request.
    """
    try:
        tag = json.loads(text)["format"]
        if tag["type"] != "triggered_tags":
            raise ValueError("TensorRT-LLM before 1.2 has no such structural tag")
        structures = [_structure(each) for each in tag["tags"]]
        older = {"type": "structural_tag", "structures": structures, "triggers": tag["triggers"]}
    except (KeyError, TypeError, RecursionError):
        raise ValueError("the structural tag is none") from None
    return json.dumps(older, ensure_ascii=False)


def _structure(tag: dict[str, Any]) -> dict[str, Any]:
    return {"begin": tag["begin"], "schema": tag["content"]["json_schema"], "end": tag["end"]}
