"""Settings of models behind Triton, and their checks."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta

from routing.transports.triton.settings import TokenId, TritonOptions

#: Placeholder for the replica's own host in a configured URL.
HOST: Final = "{host}"


class TritonModel(TritonOptions, frozen=True, kw_only=True):
    """The model that is asked on each Triton server of a pool."""

    metrics: Annotated[
        Annotated[str, Meta(min_length=1, max_length=2048)] | None,
        Meta(
            description="URL of the server's metrics, where its load is read: `http://{host}:8002/metrics`, `{host}` "
            "being the replica's own. Unset: each worker knows only of the requests that it sent itself."
        ),
    ] = None
    end_id: Annotated[
        TokenId | None,
        Meta(description="Token that ends an answer; unset: the tokenizer's. Not for `llm_api`."),
    ] = None
    adds_bos: Annotated[
        bool,
        Meta(
            description="The server begins each text with the token that opens a sequence, as the templates do unless "
            "their `add_special_tokens` is false. Of no use for `tensorrt_llm`."
        ),
    ] = True


def triton_problems(
    engine: str, triton: TritonModel | None, addresses: tuple[str, ...], where: str, *, many: bool
) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule of a pool's Triton settings.

    `many`: there may be more servers than addresses.
    """
    if engine != "triton":
        if triton is not None:
            yield f"{where}.triton", f"only triton replicas have it, not {engine}"
        return
    if find_spec("tritonclient") is None:
        yield f"{where}.engine", "needs tritonclient, which is not installed: pip install 'penstock[triton]'"
    if triton is None:
        yield f"{where}.triton", "required: the model's name on the server, and its kind"
        return
    if triton.kind == "llm_api":
        for name in ("end_id", "pad_id"):
            if getattr(triton, name) is not None:
                yield f"{where}.triton.{name}", "llm_api takes none: its own tokenizer has it"
    if triton.metrics is None:
        return
    if not _is_url(triton.metrics.replace(HOST, "host")):
        # The value may hold a password.
        yield f"{where}.triton.metrics", f"expected a URL as http://{HOST}:8002/metrics"
    elif HOST in triton.metrics and any(address.startswith("unix:") for address in addresses):
        yield f"{where}.triton.metrics", f"a replica at unix:/PATH has no host: write it where {HOST} is"
    elif HOST not in triton.metrics and (len(addresses) > 1 or many):
        yield f"{where}.triton.metrics", f"would be one URL for all replicas: it needs {HOST}"


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and "@" not in parts.netloc and not parts.query and not parts.fragment and text.isprintable()
