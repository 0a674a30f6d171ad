"""Headers that name the model version that answered, and what became of parameters that are hints."""

from functools import lru_cache

from gateway.inference.generation import Generation

VERSION_HEADER = b"x-penstock-version"
ADJUSTED_HEADER = b"x-penstock-adjusted"
_MOST_CHARACTERS = 128
#: Bound on the value of `x-penstock-adjusted`, in characters: clients and proxies take headers of some kilobytes.
_MOST_ADJUSTED = 2048

_Headers = list[tuple[bytes, bytes]]


def served_headers(generation: Generation, adjusted: tuple[str, ...] = ()) -> _Headers:
    """Make the version header of the model that began to answer, where the version is known, and that of parameters
    that were `adjusted`, those of the generation's request among them, unless an upstream has it.
    """
    request = generation.request
    version = request.model.fleet.version(generation.replica_id)
    headers = [(VERSION_HEADER, _shown(version))] if version else []
    if adjusted or request.adjusted:
        # What is relayed goes to its upstream as it came, hints and bounds included.
        told = adjusted if generation.stream.relay is not None else (*adjusted, *request.adjusted)
        headers += adjusted_headers(told)
    return headers


def adjusted_headers(adjusted: tuple[str, ...]) -> _Headers:
    """Make the header of parameters that were `adjusted`; none where none was."""
    return [(ADJUSTED_HEADER, _listed(adjusted).encode())] if adjusted else []


def _listed(adjusted: tuple[str, ...]) -> str:
    told = ", ".join(adjusted)
    if len(told) <= _MOST_ADJUSTED:
        return told
    shown = told[:_MOST_ADJUSTED].split(", ")[:-1]
    return ", ".join([*shown, f"more={len(adjusted) - len(shown)}"])


@lru_cache(maxsize=256)
def _shown(version: str) -> bytes:
    """Replace characters that no header may have: a replica's words are not trusted."""
    return "".join(char if "!" <= char <= "~" else "_" for char in version[:_MOST_CHARACTERS]).encode()
