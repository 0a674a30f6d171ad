"""The fake's KV cache: full blocks by (salt, adapter, tokens), and what is told of them."""

from collections.abc import Callable
from typing import Any


class Cache:
    """Blocks that no request uses any more stay, for others, until there is no room."""

    def __init__(self, blocks: int, tokens_per_block: int, tell: Callable[[dict[str, Any]], None]) -> None:
        self.blocks, self.size = blocks, tokens_per_block
        self.used = 0
        self._tell = tell
        self._kept: dict[tuple[Any, ...], int] = {}  # chain -> hash, oldest first
        self._hashes = 1000
        tell({"type": "created", "num_blocks_per_cache_level": [blocks, 0]})

    def need(self, tokens: int) -> int:
        return -(-tokens // self.size)

    def find(self, salt: str | None, adapter: int, tokens: list[int]) -> int:
        """Tokens of a prompt that are there; its last is always computed."""
        found = 0
        for chain in self._chains(salt, adapter, tokens[:-1]):
            if chain not in self._kept:
                break
            found += self.size
        return found

    def store(self, salt: str | None, adapter: int, tokens: list[int]) -> None:
        parent = None
        for chain in self._chains(salt, adapter, tokens):
            if chain not in self._kept:
                self._hashes += 1
                self._kept[chain] = self._hashes
                block = {
                    "type": "stored_block",
                    "block_hash": self._hashes,
                    "tokens": [{"type": "unique_token", "token_id": t, "token_extra_id": 0} for t in chain[-1]],
                    "cache_level": 0,
                    "priority": 35,
                }
                self._tell({"type": "stored", "parent_hash": parent, "blocks": [block]})
            parent = self._kept[chain]
        while len(self._kept) > self.blocks:
            oldest = next(iter(self._kept))
            self._tell({"type": "removed", "block_hashes": [self._kept.pop(oldest)]})

    def _chains(self, salt: str | None, adapter: int, tokens: list[int]) -> list[tuple[Any, ...]]:
        chains: list[tuple[Any, ...]] = []
        chain: tuple[Any, ...] = (salt, adapter)
        for at in range(0, len(tokens) - self.size + 1, self.size):
            chain = (*chain, tuple(tokens[at : at + self.size]))
            chains.append(chain)
        return chains
