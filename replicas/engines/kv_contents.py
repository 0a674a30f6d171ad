"""Contents of a simulated engine's reusable KV blocks, dealt out to other engines and taken from them."""

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from protos.types import KvEvent, KvRemoved, KvStored


class Block(msgspec.Struct, frozen=True, array_like=True):
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

    def dealt(self, needed: Sequence[Iterable[Sequence[int]]], rooms: Sequence[int]) -> list[set[int]]:
        """Deal blocks to caches with room for `rooms` of them, and return the hashes of each cache's.

        A cache gets the chains that are `needed` there as far as they are known, then as many others as it has room
        for, the youngest first. A chain is always whole from its beginning on, and so may be in several.
        """
        shares: list[set[int]] = [set() for _ in rooms]
        for share, chains in zip(shares, needed, strict=True):
            for chain in chains:
                for name in chain:
                    if name not in self._blocks:
                        break
                    share.add(name)
        seen = set().union(*shares)
        for name in reversed(self._blocks):
            if name in seen:
                continue
            chain = list(self._chain(name))
            seen.update(chain)
            # Where most of it is already, then where most room is left.
            missing = [[block for block in chain if block not in share] for share in shares]
            at = min(range(len(rooms)), key=lambda at: (len(missing[at]), len(shares[at]) - rooms[at]))
            if len(shares[at]) + len(missing[at]) <= rooms[at]:
                shares[at].update(missing[at])
        return shares

    def encode(self, names: Collection[int]) -> bytes:
        """Return the blocks of these hashes as bytes."""
        return _ENCODER.encode([block for name, block in self._blocks.items() if name in names])

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
