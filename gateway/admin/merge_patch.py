"""Apply JSON merge patches (RFC 7396): a member replaces the old value, null removes it, the rest stays."""

from typing import Any

from protos.errors import InvalidRequest


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the target with the patch applied; neither argument is changed.

    Raises:
        InvalidRequest: The patch is nested too deeply.
    """
    try:
        return _merge(target, patch)
    except RecursionError:
        raise InvalidRequest("The request body is nested too deeply.") from None


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged
