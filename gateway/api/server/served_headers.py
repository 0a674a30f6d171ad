"""Headers that say what has answered."""

from functools import lru_cache

from gateway.inference.generation import Generation

VERSION_HEADER = b"x-penstock-model-version"
_MOST_CHARACTERS = 128

_Headers = list[tuple[bytes, bytes]]


def served_headers(generation: Generation) -> _Headers:
    """The version of the model that began to answer; nothing where nobody says which that is."""
    version = generation.request.model.fleet.version(generation.replica_id)
    return [(VERSION_HEADER, _shown(version))] if version else []


@lru_cache(maxsize=256)
def _shown(version: str) -> bytes:
    """A replica's own words are not trusted to be a header's."""
    return "".join(char if "!" <= char <= "~" else "_" for char in version[:_MOST_CHARACTERS]).encode()
