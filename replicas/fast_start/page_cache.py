"""Weights read ahead into the page cache, within the memory that is free, so that an engine loads them from there."""

import contextlib
import ctypes
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Files that hold weights: checkpoints in safetensors, and engines of TensorRT-LLM.
WEIGHTS: Final = ("*.safetensors", "*.engine")
#: Bytes that are read at a time, between two looks at the memory.
CHUNK: Final = 32 << 20
#: Bytes that stay free for others.
RESERVE: Final = 2 << 30
#: Bytes that are mapped at a time to look which pages are there.
_WINDOW: Final = 1 << 30
_BUFFER: Final = 1 << 20
#: mincore(2) gives a meaning to the lowest bit alone.
_LOWEST_BIT: Final = bytes(value & 1 for value in range(256))


@dataclass(frozen=True, slots=True)
class Preloaded:
    """What came of it. `cached` of `total` bytes were in memory at the end, `read` of them were read for that.

    `problem` says why it is not all; empty: it is.
    """

    total: int
    cached: int
    read: int
    problem: str = ""


def weight_files(folder: Path) -> list[Path]:
    """Return the files of weights in a checkpoint's folder, in the order of their names. Raises OSError."""
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: no folder of a checkpoint")
    return sorted({path for pattern in WEIGHTS for path in folder.glob(pattern) if path.is_file()})


def preload(
    folders: Sequence[Path],
    *,
    stop: threading.Event | None = None,
    available: Callable[[], int] | None = None,
    reserve: int = RESERVE,
) -> Preloaded:
    """Read the weights of folders ahead, the first ones first; what is in memory already is not read again.

    It stops where the memory gets short, or when `stop` is set, and can be called again later. `available` says how
    many bytes programs and the page cache can have; of these `reserve` are left. Raises OSError.
    """
    free = available or available_bytes
    files = [path for folder in folders for path in weight_files(folder)]
    total = sum(path.stat().st_size for path in files)
    kept = read = 0
    for path in files:
        for start, length, there in _chunks(path):
            # Pages that are kept here count as available, too: others may have them.
            if kept + length > free() - reserve:
                problem = f"memory is short: {_gb(free())} available, {_gb(reserve)} of them for others"
                return Preloaded(total, sum(map(cached_bytes, files)), read, problem)
            if stop is not None and stop.is_set():
                return Preloaded(total, sum(map(cached_bytes, files)), read, "it was stopped")
            if there < length:
                read += _read(path, start, length)
            kept += length
    cached = sum(map(cached_bytes, files))
    lost = "" if cached == total else "others have taken the memory of some again"
    return Preloaded(total, cached, read, lost)


def cached_bytes(path: Path) -> int:
    """Return how many bytes of a file are in memory (mincore(2)). Raises OSError.

    The system tells this of files that the caller owns or may write to; of others it says that all is there.
    """
    return sum(there for _, _, there in _windows(path, _WINDOW))


def available_bytes() -> int:
    """Return the bytes that programs and the page cache can have, of machine or control group. Raises OSError."""
    found = _field(Path("/proc/meminfo").read_text(encoding="ascii"), "MemAvailable:") * 1024
    group = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):
        most = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        cache = _field((group / "memory.stat").read_text(encoding="ascii"), "file")
        found = min(found, most - used + cache)
    return found


def _chunks(path: Path) -> Iterator[tuple[int, int, int]]:
    """Yield (start, bytes, bytes in memory) of a file's chunks, each looked at just before."""
    return _windows(path, CHUNK)


def _windows(path: Path, most: int) -> Iterator[tuple[int, int, int]]:
    size = path.stat().st_size
    with path.open("rb") as file:
        for start in range(0, size, most):
            length = min(most, size - start)
            yield start, length, _resident(file.fileno(), start, length)


def _resident(descriptor: int, start: int, length: int) -> int:
    """Return how many of these bytes are in memory. Raises OSError."""
    pages = -(-length // mmap.PAGESIZE)
    flags = (ctypes.c_ubyte * pages)()
    with mmap.mmap(
        descriptor, length, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE, offset=start
    ) as view:
        first = ctypes.c_char.from_buffer(view)
        failed = _mincore(ctypes.addressof(first), length, flags)
        del first  # or the view cannot be closed
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    there = bytes(flags).translate(_LOWEST_BIT)
    beyond = pages * mmap.PAGESIZE - length
    return there.count(1) * mmap.PAGESIZE - there[-1] * beyond


def _mincore(address: int, length: int, flags: "ctypes.Array[ctypes.c_ubyte]") -> int:
    function = ctypes.CDLL(None, use_errno=True).mincore
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    return int(function(address, length, flags))


def _read(path: Path, start: int, length: int) -> int:
    """Have a chunk read into memory, and wait for it; return its bytes. Raises OSError."""
    buffer = bytearray(_BUFFER)
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), start, length, os.POSIX_FADV_WILLNEED)
        done = 0
        while done < length:
            got = os.preadv(file.fileno(), [memoryview(buffer)[: min(_BUFFER, length - done)]], start + done)
            if not got:
                break  # the file has become shorter
            done += got
    return done


def _field(text: str, name: str) -> int:
    """Return the number after a name at a line's beginning. Raises ValueError where there is none."""
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == name:
            return int(words[1])
    raise ValueError(f"there is no {name}")


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
