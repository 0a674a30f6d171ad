"""Converts structural tags for libraries before TensorRT-LLM 1.2, whose XGrammar has another form of them."""

import json
import re
from importlib import metadata
from typing import Any, Final

#: The first XGrammar version that takes only tags with a format.
_NEWER: Final = (0, 1, 25)
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def takes_older_tags() -> bool:
    """Whether the installed XGrammar only knows structures and triggers."""
    try:
        version = metadata.version("xgrammar")
    except metadata.PackageNotFoundError:
        return False
    # A suffix after the third number, as in 0.1.21rc1 and 0.1.21+cu12, is ignored.
    found = _VERSION.match(version)
    return found is not None and tuple(map(int, found.groups())) < _NEWER


def older_tag(text: str) -> str:
    """Return the tag in the older form. Raises ValueError where that form cannot express it.

    The library would fail all other running requests with such a one.
    """
    try:
        tag = json.loads(text)["format"]
        if tag["type"] != "triggered_tags" or any(one["content"]["type"] != "json_schema" for one in tag["tags"]):
            raise ValueError("TensorRT-LLM before 1.2 has no such structural tag")
        structures = [_structure(each) for each in tag["tags"]]
        older = {"type": "structural_tag", "structures": structures, "triggers": tag["triggers"]}
    except (KeyError, TypeError, RecursionError):
        raise ValueError("the structural tag is none") from None
    return json.dumps(older, ensure_ascii=False)


def _structure(tag: dict[str, Any]) -> dict[str, Any]:
    return {"begin": tag["begin"], "schema": tag["content"]["json_schema"], "end": tag["end"]}
