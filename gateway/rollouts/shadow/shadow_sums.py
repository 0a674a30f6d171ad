"""Results of the copies that a rollout's candidate answered: sums of all workers in the store, and a few examples.

A model has those of its last rollout alone: the first worker that hands in of another epoch clears what was there.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec

from gateway.rollouts.comparison.answer import Answer
from gateway.rollouts.comparison.difference import AnswerDifference
from gateway.rollouts.comparison.difference_sums import DifferenceReport, report_of
from gateway.store.lua_script import Script
from gateway.store.unreadable import readable
from gateway.tenancy.tenants.transactions import Storage

_PREFIX: Final = "penstock:{rollouts}:shadow:"
#: Examples that are kept, those that are not alike, the newest first.
MOST_EXAMPLES: Final = 64
_KEPT_SECONDS: Final = 30 * 86_400
#: The name of a sum that counts copies which were left out, and why follows.
LEFT_OUT: Final = "left_out:"

# An older epoch is not added to a newer one: that worker is behind.
_ADD: Final = Script("""
local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0')
if epoch > tonumber(ARGV[1]) then return 0 end
if epoch < tonumber(ARGV[1]) then redis.call('DEL', KEYS[1], KEYS[2]) end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
local examples = tonumber(ARGV[4])
for i = 5, 4 + examples do redis.call('LPUSH', KEYS[2], ARGV[i]) end
redis.call('LTRIM', KEYS[2], 0, ARGV[2] - 1)
for i = 5 + examples, #ARGV, 2 do redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
""")
_READ: Final = Script("return {redis.call('HGETALL', KEYS[1]), redis.call('LRANGE', KEYS[2], 0, -1)}")


class Example(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two answers that are not alike. The hashes are of the journal's kind, of bodies as they went over the wire; empty
    where none are made. Texts, without personal data and secrets, are there of tenants with `data.text` alone.
    """

    request: str
    request_hash: str = ""
    baseline_hash: str = ""
    candidate_hash: str = ""
    difference: AnswerDifference
    baseline: Answer | None = None
    candidate: Answer | None = None


class ShadowReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report on the copies of one model's requests; `left_out` counts those that were not made, by reason.

    `seconds` are the mean whole times of both sides, where both answered.
    """

    model: str
    epoch: int
    differences: DifferenceReport
    seconds: tuple[float, float]
    left_out: Mapping[str, int]
    examples: Sequence[Example]


async def add_sums(store: Storage, model: str, epoch: int, sums: Counter[str], examples: Sequence[Example]) -> None:
    """Add a worker's sums of an epoch. Raises StoreUnavailable."""
    arguments: list[str | bytes] = [str(epoch), str(MOST_EXAMPLES), str(_KEPT_SECONDS), str(len(examples))]
    arguments += [msgspec.json.encode(each) for each in examples]
    for name, count in sums.items():
        arguments += [name, str(count)]
    await store.run(_ADD, _keys(model), arguments)


async def read_report(store: Storage, model: str) -> ShadowReport | None:
    """Read a model's report; None: no copy was made. Raises StoreUnavailable."""
    flat, listed = cast("tuple[list[bytes], list[bytes]]", await store.run(_READ, _keys(model), ()))
    sums = {flat[i].decode(): int(flat[i + 1]) for i in range(0, len(flat), 2)}
    if not sums:
        return None
    differences = report_of(sums)
    compared = max(1, differences.compared)
    return ShadowReport(
        model=model,
        epoch=sums["epoch"],
        differences=differences,
        seconds=(sums.get("baseline_us", 0) / compared / 1e6, sums.get("candidate_us", 0) / compared / 1e6),
        left_out={name.removeprefix(LEFT_OUT): count for name, count in sums.items() if name.startswith(LEFT_OUT)},
        examples=readable(listed, lambda raw: msgspec.json.decode(raw, type=Example)),
    )


def _keys(model: str) -> tuple[str, str]:
    return f"{_PREFIX}sums:{model}", f"{_PREFIX}examples:{model}"
