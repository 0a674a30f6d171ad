"""LoRA adapters of a model."""

from typing import Annotated, Final

from msgspec import Meta

from gateway.config.base import Record
from gateway.config.tenants import END

#: Separates a model's name from an adapter's.
SEPARATOR: Final = ":"
ADAPTER_NAME: Final = rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}{END}"


class LoraAdapter(Record, frozen=True, kw_only=True):
    """One adapter, which clients ask for as `MODEL:NAME`."""

    name: Annotated[
        str, Meta(pattern=ADAPTER_NAME, description="Name of the adapter: 1 to 64 letters, digits, `.`, `_`, `-`.")
    ]
    path: Annotated[
        str,
        Meta(
            max_length=4096,
            description="Where replicas find the adapter, on their machines. Empty: only those run it that know it by "
            "name; servers of engine `openai` with `upstream.lora` do.",
        ),
    ] = ""
    pools: Annotated[
        tuple[str, ...], Meta(max_length=256, description="Pools whose replicas may run it; empty: all that can.")
    ] = ()
