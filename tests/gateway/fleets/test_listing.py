from gateway.fleets.configured import ConfiguredReplica
from gateway.fleets.listing import listing
from protos.reshape import MemberState, Span
from protos.types import Role, Shape
from routing.health.replica_status import GroupPlace
from tests.gateway.fleets.world import status


def replica(pool: str, name: str) -> ConfiguredReplica:
    return ConfiguredReplica("m", pool, f"{pool}/{name}", f"grpc://{name}:1", Shape(tp=1), Role.BOTH, "registered")


def test_replicas_of_a_host_group_stand_together_by_gpu() -> None:
    places = {"c": ("g-0", 1), "a": ("g-1", 0), "d": ("g-0", 0), "b": ("g-1", 1)}
    replicas = [replica("p", name) for name in "abcde"] + [replica("o", "f"), replica("o", "e")]
    reported = [
        status(f"p/{name}", group=GroupPlace(group, 2, gpu, MemberState.SERVING, Span(gpu, 1)))
        for name, (group, gpu) in places.items()
    ]
    rows = listing(replicas, [{"m": reported}], [])
    assert [row.id for row in rows] == ["p/d", "p/c", "p/a", "p/b", "p/e", "o/f", "o/e"]
