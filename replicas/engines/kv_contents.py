"""Contents of a simulated engine's reusable KV blocks, dealt out to other engines and taken from them."""

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from protos.types import KvEvent, KvRemoved, KvStored
from replicas.kv_cache import PIECE_BLOCKS


class Block(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A reusable block: its hash, its parent's (None: it begins a prompt, under `salt`), its token ids."""

    name: int
    parent: int | None
    ids: tuple[int, ...]
    salt: str


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Block])


class KvContents:
    """The blocks of one cache by hash, parents before children, as its events tell."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}

    def take(self, events: Iterable[KvEvent]) -> None:
        """Follow the cache's events in order."""
        for event in events:
            data = event.data
            if isinstance(data, KvStored):
                parent = data.parent_hash
                for name, ids in data.blocks:
                    self._blocks[name] = Block(name, parent, ids, data.salt if parent is None else "")
                    parent = name
            elif isinstance(data, KvRemoved):
                for name in data.block_hashes:
                    self._blocks.pop(name, None)

    def dealt(
        self, needed: Sequence[Iterable[Sequence[int]]], rooms: Sequence[int], shares: Sequence[set[int]]
    ) -> Iterator[None]:
        """Deal blocks to caches with room for `rooms` of them: put the hashes of each cache's into `shares`, in pieces.

        A cache gets the chains that are `needed` there as far as they are known, then as many others as it has room
        for, the youngest first. A chain is always whole from its beginning on, and so may be in several.
        """
        done = 0
        for share, chains in zip(shares, needed, strict=True):
            for chain in chains:
                for name in chain:
                    if name not in self._blocks:
                        break
                    share.add(name)
                    if (done := done + 1) % PIECE_BLOCKS == 0:
                        yield
        seen = set().union(*shares)
        for name in list(reversed(self._blocks)):
            if name in seen:
                continue
            missing: list[int] = []
            holders: list[int] = []
            for block in self._chain(name):
                # What a share has, it has from the beginning on.
                holders = [at for at, share in enumerate(shares) if block in share]
                if holders:
                    break
                missing.append(block)
                if (done := done + 1) % PIECE_BLOCKS == 0:
                    yield
            seen.update(missing)
            # Where most of it is already, then where most room is left.
            at = min(holders or range(len(rooms)), key=lambda at: len(shares[at]) - rooms[at])
            if len(shares[at]) + len(missing) <= rooms[at]:
                shares[at].update(missing)

    def encoded(self, shares: Sequence[Collection[int]]) -> Iterator[tuple[int, bytes] | None]:
        """Yield a piece of a share as bytes, with the share's place, parents first; None: nothing is ready yet."""
        parts: list[list[Block]] = [[] for _ in shares]
        for done, name in enumerate(list(self._blocks), 1):
            for at, share in enumerate(shares):
                if name in share:
                    parts[at].append(self._blocks[name])
                    if len(parts[at]) == PIECE_BLOCKS:
                        yield at, _ENCODER.encode(parts[at])
                        parts[at] = []
            if done % PIECE_BLOCKS == 0:
                yield None
        for at, part in enumerate(parts):
            if part:
                yield at, _ENCODER.encode(part)

    def _chain(self, name: int) -> Iterator[int]:
        at: int | None = name
        while at is not None and at in self._blocks:
            yield at
            at = self._blocks[at].parent


def blocks_in(content: bytes) -> list[Block]:
    """Return encoded blocks. Raises ValueError for other bytes."""
    try:
        return _DECODER.decode(content)
    except msgspec.DecodeError as error:
        raise ValueError(f"what another engine has given is no KV cache: {error}") from error


def runs_of(blocks: Iterable[Block]) -> Iterator[KvStored]:
    """Yield blocks, those that follow each other as one."""
    run: list[tuple[int, tuple[int, ...]]] = []
    first: Block | None = None
    for block in blocks:
        if first is not None and block.parent == run[-1][0]:
            run.append((block.name, block.ids))
            continue
        if first is not None:
            yield KvStored(first.parent, tuple(run), first.salt)
        first, run = block, [(block.name, block.ids)]
    if first is not None:
        yield KvStored(first.parent, tuple(run), first.salt)


def first_piece(events: Sequence[KvEvent]) -> int:
    """Return the number of the first events that are handled in one go: at least one, where there are any."""
    blocks = 0
    for number, event in enumerate(events):
        data = event.data
        blocks += len(data.blocks) if isinstance(data, KvStored) else 0
        blocks += len(data.block_hashes) if isinstance(data, KvRemoved) else 0
        if number and blocks > PIECE_BLOCKS:
            return number
    return len(events)
