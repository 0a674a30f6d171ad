"""Headers that name the model version that answered."""

from functools import lru_cache

from gateway.inference.generation import Generation

VERSION_HEADER = b"x-penstock-model-version"
_MOST_CHARACTERS = 128

_Headers = list[tuple[bytes, bytes]]


def served_headers(generation: Generation) -> _Headers:
    """Make the version header of the model that began to answer; none where the version is unknown."""
    version = generation.request.model.fleet.version(generation.replica_id)
    return [(VERSION_HEADER, _shown(version))] if version else []


@lru_cache(maxsize=256)
def _shown(version: str) -> bytes:
    """Replace characters that no header may have: a replica's words are not trusted."""
    return "".join(char if "!" <= char <= "~" else "_" for char in version[:_MOST_CHARACTERS]).encode()
