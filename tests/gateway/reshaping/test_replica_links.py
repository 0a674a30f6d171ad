import asyncio

from gateway.reshaping.replica_links import ReplicaLinks
from protos import codec
from protos.types import Load
from tests.fakes import INFO
from tests.loops import until
from tests.routing.transports.test_control_link import GroupReplica, spec_of


async def test_a_replica_is_seen_once_it_has_said_what_it_runs() -> None:
    links, replica, changed = ReplicaLinks("shapes"), GroupReplica(), asyncio.Event()
    links.changed = changed.set
    async with replica.listening() as address:
        links.use([spec_of(address)])
        await changed.wait()
        assert links.seen() == []
        changed.clear()
        load = Load(waiting=1, kv_blocks_used=3, kv_blocks_total=64, kv_blocks_reserved=2, draining=True)
        await replica.send(codec.Step(seq=1, load=load))
        await changed.wait()
        (seen,) = links.seen()
        assert seen.member is not None
        assert (seen.member.used, seen.member.queued, seen.member.draining) == (5 * INFO.kv_block_tokens, True, True)
        links.use([])
        await until(lambda: links.seen() == [])
        await links.aclose()
