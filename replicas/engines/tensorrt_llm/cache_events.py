"""Converts the library's KV cache events to Penstock's."""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from protos.types import KvCreated, KvEvent, KvRemoved, KvStored

log = logging.getLogger(__name__)

#: Bound on first blocks of prompts whose salt is remembered.
_MOST_ROOTS = 16384
#: Bound on salts per such block, which may be a system prompt that many tenants share.
_MOST_SALTS = 256
#: With attention data parallelism each rank has a cache of its own, and so do its block hashes.
_RANK_STEP = 0x9E3779B97F4A7C15
_BITS = 2**64


class CacheEvents:
    """Converts one engine's events, renumbered; a gap in the library's numbers leaves a gap here.

    The library reports a block's tokens without the salt: a block that begins a prompt gets the salt of a request that
    began with those tokens. Where two tenants' requests did, the one without a block so far gets it.
    """

    def __init__(self, tokens_per_block: int) -> None:
        self._block = tokens_per_block
        self._next_id = 0
        self._expected: dict[int, int] = {}  # rank -> the library's next id
        self._window: int | None = None
        self._salts: OrderedDict[tuple[int, ...], dict[str, None]] = OrderedDict()
        self._roots: dict[int, tuple[tuple[int, ...], str]] = {}  # block that begins a prompt -> (tokens, salt)
        self._held: set[tuple[tuple[int, ...], str]] = set()

    def submitted(self, prompt: Sequence[int], salt: str) -> None:
        """Note a submitted request's prompt and salt; prompts shorter than a block are ignored."""
        if len(prompt) < self._block:
            return
        root = tuple(prompt[: self._block])
        salts = self._salts.setdefault(root, {})
        self._salts.move_to_end(root)
        salts[salt] = None
        if len(salts) > _MOST_SALTS:
            del salts[next(iter(salts))]
        if len(self._salts) > _MOST_ROOTS:
            self._salts.popitem(last=False)

    def take(self, event: Mapping[str, Any]) -> KvEvent | None:
        """Convert the library's next event; None: it changes no reusable block."""
        rank = int(event.get("attention_dp_rank") or 0)
        number = int(event["event_id"])
        expected = self._expected.get(rank)
        if expected is not None and number != expected:
            log.warning("KV events %d to %d of rank %d are lost", expected, number - 1, rank)
            self._next_id += 1
            self._roots.clear()
            self._held.clear()
        data = self._data(event["data"], event.get("window_size"), rank)
        self._expected[rank] = number + 1  # not for an unreadable event, which counts as lost
        if data is None:
            return None
        self._next_id += 1
        return KvEvent(self._next_id - 1, data)

    def _data(self, data: Mapping[str, Any], window: int | None, rank: int) -> KvCreated | KvStored | KvRemoved | None:
        kind = data["type"]
        if kind == "created":
            # One event per attention window; only blocks of the widest hold whole prefixes.
            if window is not None and window < (self._window or 0):
                return None
            self._window = window
            return KvCreated(tuple(data["num_blocks_per_cache_level"]))
        if window is not None and self._window is not None and window < self._window:
            return None
        if kind == "stored":
            return self._stored(data, rank)
        if kind == "removed":
            blocks = tuple(_name(block, rank) for block in data["block_hashes"])
            for block in blocks:
                root = self._roots.pop(block, None)
                if root is not None:
                    self._held.discard(root)
            return KvRemoved(blocks)
        return None  # "updated": it moved to main memory or back and is reusable as before

    def _stored(self, data: Mapping[str, Any], rank: int) -> KvStored:
        blocks = tuple(
            (_name(block["block_hash"], rank), tuple(token["token_id"] for token in block["tokens"]))
            for block in data["blocks"]
        )
        parent = data["parent_hash"]
        if parent is not None:
            return KvStored(_name(parent, rank), blocks)
        salt = ""
        if blocks:
            name, tokens = blocks[0]
            salts = self._salts.get(tokens) or {"": None}
            salt = next((each for each in salts if (tokens, each) not in self._held), next(reversed(salts)))
            self._roots[name] = (tokens, salt)
            self._held.add((tokens, salt))
        return KvStored(None, blocks, salt)


def _name(block_hash: int, rank: int) -> int:
    return (block_hash + rank * _RANK_STEP) % _BITS
