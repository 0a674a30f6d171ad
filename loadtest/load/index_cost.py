"""Measures the CPU cost of prefix lookups and the memory of an index of millions of blocks."""

import random
import subprocess
import sys

import msgspec

from loadtest.load.cpu_time import cpu_us
from protos.prefix_hash import prefix_hashes
from protos.types import KvUpdate
from routing.prefix.prefix_directory import PrefixDirectory
from routing.prefix.prefix_index import PrefixIndex

PROMPT_TOKENS = 4000
BLOCK_TOKENS = 32
BLOCKS = PROMPT_TOKENS // BLOCK_TOKENS
FEW_HOLDERS, MANY_HOLDERS = 16, 256
#: Blocks of the memory measurement.
MILLIONS = 10_000_000
#: Prompts that are looked up: enough to exceed the CPU's caches.
_PROMPTS = 2000
_VOCABULARY = 32_000


class LookupCost(msgspec.Struct, frozen=True):
    """CPU microseconds to look up one hashed prompt of which every holder has a part."""

    holders: int
    blocks: int
    us: float


class IndexCost(msgspec.Struct, frozen=True):
    """CPU microseconds per prompt of 4,000 tokens, by part and in all, and the memory of ten million blocks."""

    hash_us: float
    lookups: list[LookupCost]
    hash_and_lookup_us: float
    update_us_per_block: float
    rss_gb: float

    def lines(self) -> list[str]:
        """Format the results as text lines."""
        return [
            f"hash {PROMPT_TOKENS} tokens into {BLOCKS} blocks: {self.hash_us:.1f} us",
            *(f"look up, {c.holders} holders, {c.blocks:,} blocks: {c.us:.1f} us" for c in self.lookups),
            f"hash and look up, {FEW_HOLDERS} holders: {self.hash_and_lookup_us:.1f} us",
            f"store and remove a block: {self.update_us_per_block:.2f} us",
            f"{MILLIONS:,} blocks: {self.rss_gb:.2f} GB",
        ]


def index_cost(blocks: tuple[int, ...] = (100_000, MILLIONS), weighed: int = MILLIONS) -> IndexCost:
    """Measure with indexes of these sizes in blocks, in about a minute; memory in a fresh process."""
    rng = random.Random(1)
    prompt = [rng.randrange(_VOCABULARY) for _ in range(PROMPT_TOKENS)]
    return IndexCost(
        hash_us=cpu_us(lambda: prefix_hashes(prompt, BLOCK_TOKENS), 200),
        lookups=[lookup_cost(count, size) for size in blocks for count in (FEW_HOLDERS, MANY_HOLDERS)],
        hash_and_lookup_us=_whole_us(prompt),
        update_us_per_block=_update_us(),
        rss_gb=rss_gb(weighed),
    )


def lookup_cost(holders: int, blocks: int) -> LookupCost:
    """Measure lookups of prompts that one replica holds in full and all others up to a shared beginning."""
    rng = random.Random(2)
    index = PrefixIndex(max(blocks, BLOCKS * 2))
    handles = [index.add(f"pool/{number}") for number in range(holders)]
    shared = [rng.getrandbits(64) for _ in range(BLOCKS // 4)]
    for handle in handles:
        index.store(handle, shared)
    chains: list[list[int]] = []
    every = max(1, blocks // BLOCKS // _PROMPTS)
    for number in range(max(1, (blocks - len(shared)) // (BLOCKS - len(shared)))):
        own = [rng.getrandbits(64) for _ in range(BLOCKS - len(shared))]
        index.store(handles[number % holders], own)
        if number % every == 0:
            chains.append(shared + own)
    rng.shuffle(chains)
    return LookupCost(holders, len(index), cpu_us(lambda: [index.match(chain) for chain in chains], 1) / len(chains))


def fill(blocks: int) -> PrefixIndex:
    """Make an index of `blocks` blocks in prompts of 4,000 tokens, most with one holder."""
    rng = random.Random(3)
    index = PrefixIndex(blocks)
    handles = [index.add(f"pool/{number}") for number in range(FEW_HOLDERS)]
    for number in range(blocks // BLOCKS):
        chain = [rng.getrandbits(64) for _ in range(BLOCKS)]
        index.store(handles[number % FEW_HOLDERS], chain)
        if number % 8 == 0:
            index.store(handles[(number + 1) % FEW_HOLDERS], chain)
    return index


def rss_gb(blocks: int) -> float:
    """Return the peak memory of a fresh process with only such an index, in 10**9 bytes."""
    program = (
        "import resource; from loadtest.load.index_cost import fill; "
        f"index = fill({blocks}); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    answer = subprocess.run([sys.executable, "-P", "-c", program], check=True, capture_output=True, text=True)
    return int(answer.stdout) * 1024 / 1e9


def _whole_us(prompt: list[int]) -> float:
    directory = PrefixDirectory()
    for number in range(FEW_HOLDERS):
        directory.joined(f"pool/{number}", BLOCK_TOKENS, 50_000, exact=True)
        held = prefix_hashes(prompt[: (number + 1) * PROMPT_TOKENS // FEW_HOLDERS], BLOCK_TOKENS)
        directory.updated(f"pool/{number}", KvUpdate(1, stored=held))
    return cpu_us(lambda: directory.look_up(prompt), 200)


def _update_us() -> float:
    """Measure storing and removing a block in an index that holds others."""
    index = PrefixIndex(2 * 100_000)
    rng = random.Random(4)
    index.store(index.add("pool/0"), (rng.getrandbits(64) for _ in range(100_000)))
    holder, changes = index.add("pool/1"), [rng.getrandbits(64) for _ in range(1000)]

    def update() -> None:
        index.store(holder, changes)
        index.remove(holder, changes)

    return cpu_us(update, 20) / len(changes)
