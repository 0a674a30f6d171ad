"""Kinds of GPUs: memory as their drivers report it, or as `--gpu` gives it. Prices are only those that are given."""

import re
from dataclasses import dataclass
from typing import Final

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class GpuKind:
    """GPUs of one kind. `memory` in bytes, of one; `count` in one machine; `usd_per_hour` of one, None if not given."""

    name: str
    memory: int
    count: int
    usd_per_hour: float | None = None


#: MiB that `nvidia-smi` and `rocm-smi` show as total, ECC on; the makers' data sheets round them to 24, 40, 80 GB.
_MEMORY: Final = {
    "t4": 15360,
    "l4": 23034,
    "a10g": 23028,
    "rtx4090": 24564,
    "a100-40": 40960,
    "l40s": 46068,
    "a100": 81920,
    "h100": 81559,
    "h200": 143771,
    "b200": 183359,
    "mi300x": 196592,
}
KNOWN: Final = tuple(_MEMORY)
_FORM: Final = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,31}):(?P<count>\d{1,2})(?::(?P<memory>\d{1,5}(?:\.\d{1,3})?)GiB)?(?:@(?P<usd>\d{1,5}(?:\.\d{1,4})?))?"
)


def gpu_kind(text: str) -> GpuKind:
    """Parse `KIND:COUNT`, with `:MEMORYGiB` for a kind that is not listed here, and `@USD` for one GPU and hour.

    Raises:
        ValueError: The text has another form, or the kind is not known and its memory not given.
    """
    match = _FORM.fullmatch(text)
    if match is None or not int(match["count"]):
        raise ValueError(f"expected KIND:COUNT[:MEMORYGiB][@USD], as h100:8 or mine:4:96GiB@2.5, got {text[:60]!r}")
    name = match["name"].lower()
    memory = int(float(match["memory"]) * (1 << 30)) if match["memory"] else _MEMORY.get(name, 0) * _MIB
    if not memory:
        raise ValueError(
            f"{name} is not known ({', '.join(KNOWN)} are): give its memory, as {name}:{match['count']}:96GiB"
        )
    return GpuKind(name, memory, int(match["count"]), float(match["usd"]) if match["usd"] else None)


def known_kinds(count: int) -> tuple[GpuKind, ...]:
    """Every kind of the table, that many in a machine."""
    return tuple(GpuKind(name, memory * _MIB, count) for name, memory in _MEMORY.items())
