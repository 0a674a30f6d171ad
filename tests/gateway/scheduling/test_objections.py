import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.scheduling.capacity import Demand, Need, feasible, usable
from gateway.scheduling.division import Divider
from gateway.scheduling.objections import (
    BACKLOG,
    HELD,
    NOT_ITS_LANE,
    OTHERS_LANE,
    RESERVED,
    TOO_SMALL,
    UNPAIRED,
    objections,
)
from gateway.scheduling.shares import ActiveTenant
from protos.types import Load, Role, Shape
from routing.contracts.policy import ReplicaView
from tests.views import fleets

MARK = 0.9
IDLE = ReplicaView(
    "p/0",
    "p",
    Shape(tp=2),
    Role.BOTH,
    Load(kv_blocks_total=1000, workers=1),
    max_batch_size=100,
    kv_block_tokens=32,
    max_num_tokens=8192,
)
SMALL = Demand(Need(1, 100, 200, 200))
NOBODY: frozenset[str] = frozenset()


def view(name: str = "p/0", role: Role = Role.BOTH, prompts: int = 0, **load: int) -> ReplicaView:
    report = msgspec.structs.replace(IDLE.load, **load)
    return msgspec.structs.replace(IDLE, id=name, role=role, load=report, sent_prompt_tokens=prompts)


def against(
    *views: ReplicaView,
    demand: Demand = SMALL,
    promised: dict[str, Need] | None = None,
    held: frozenset[str] = NOBODY,
    others: tuple[ActiveTenant, ...] = (),
) -> dict[str, str]:
    divider = Divider(MARK)
    divider.elsewhere = others
    tenant = divider.seen("a", 0, 1.0, 0.0, 0.0)
    return objections(views, promised or {}, demand, tenant, divider, 0.0, MARK, held)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (view(), ""),
        (view(running=90), "no free slots"),
        (view(running=1, kv_blocks_used=900), "no room in its KV cache"),
        (view(running=50, waiting=5), "requests wait in its engine"),
        (view(running=1, prefill_tokens=20_000), "prompts fill its next steps"),
        (view(running=1, prefill_tokens=5_000), BACKLOG),
        (view(kv_blocks_total=1), TOO_SMALL),
        (view(role=Role.PREFILL), UNPAIRED),
        (view(role=Role.DECODE), UNPAIRED),
    ],
)
def test_what_speaks_against_a_replica(seen: ReplicaView, why: str) -> None:
    assert against(seen) == {"p/0": why}


def test_promises_and_what_is_kept() -> None:
    whole = Need(90, 0, 0, 0)
    views = view("p/0", running=1), view("p/1", running=1), view("p/2")
    found = against(*views, promised={"p/0": whole}, held=frozenset({"p/1"}))
    assert found == {"p/0": "no free slots", "p/1": HELD, "p/2": ""}


def test_a_pair_is_judged_by_its_halves() -> None:
    found = against(view("p/0", Role.PREFILL, running=90), view("d/0", Role.DECODE, prefill_tokens=0))
    assert found == {"p/0": "no free slots", "d/0": ""}


def test_lanes() -> None:
    heavy = ActiveTenant("h", 0, 1.0, 0.0, True)
    views = [view(f"p/{number}") for number in range(4)]
    found = against(*views, others=(heavy,))
    assert sorted(found.values()) == ["", "", OTHERS_LANE, OTHERS_LANE]
    long = Demand(Need(1, 5000, 5100, 5100))
    found = against(*views, demand=long, others=(ActiveTenant("l", 0, 1.0, 0.0, False),))
    assert sorted(set(found.values())) == ["", NOT_ITS_LANE]


def test_what_others_have_reserved() -> None:
    views = [view(f"p/{number}", running=50) for number in range(2)]
    others = (ActiveTenant("gold", 0, 1.0, 0.9, False),)
    divider = Divider(MARK)
    divider.elsewhere = others
    tenant = divider.seen("a", 1, 1.0, 0.0, 0.0)
    tenant.cost = 100
    assert objections(views, {}, SMALL, tenant, divider, 0.0, MARK, NOBODY) == {"p/0": RESERVED, "p/1": RESERVED}


@given(fleets(), st.integers(1, 40_000), st.integers(1, 8))
def test_what_has_no_objections_is_what_the_turnstile_would_offer(
    views: list[ReplicaView], prompt: int, sequences: int
) -> None:
    demand = Demand(Need(sequences, prompt, prompt + 100, prompt + 200))
    found = against(*views, demand=demand)
    assert list(found) == [replica.id for replica in views]
    free = {replica for replica, why in found.items() if not why}
    offered = {replica.id for replica in feasible(usable(views, demand, None, 0), demand, MARK)}
    if any(not why for why in found.values()) and all(v.role is Role.BOTH for v in views):
        assert free == offered
    assert not offered & {replica for replica, why in found.items() if why not in ("", BACKLOG)}
