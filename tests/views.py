"""Replicas as policies see them, for tests: one line each, and arbitrary ones."""

from hypothesis import strategies as st

from protos.types import Load, Role, Shape
from routing.contracts.heatmap import Comparison, Heatmap, HeatmapFile
from routing.contracts.policy import ReplicaView, RouteRequest

#: What a replica of `view` has for its KV cache.
BLOCKS, BLOCK_TOKENS = 1000, 32


def view(
    name: str,
    *,
    tp: int = 1,
    pool: str = "p",
    role: Role = Role.BOTH,
    sent: int = 0,
    prompts: int = 0,
    sent_kv: int = 0,
    blocks: int = BLOCKS,
    used: int = 0,
    budget: int = 8192,
    reserves: bool = False,
    **load: int,
) -> ReplicaView:
    """A replica that is idle but for what is said; `prompts` and `sent_kv` are tokens that were sent there."""
    report = Load(kv_blocks_used=used, kv_blocks_total=blocks, **load)  # type: ignore[arg-type]
    return ReplicaView(
        name,
        pool,
        Shape(tp=tp),
        role,
        report,
        sent,
        sent_prompt_tokens=prompts,
        sent_kv_tokens=sent_kv,
        max_num_tokens=budget,
        kv_block_tokens=BLOCK_TOKENS,
        reserves_output=reserves,
    )


def ask(prompt: int = 1000, output: float = 100, **fields: object) -> RouteRequest:
    """A request that expects so many tokens, with at most four times as many."""
    known = {"request_id": "r", "max_tokens": max(1, int(4 * output)), "expected_output": output, **fields}
    return RouteRequest(prompt_tokens=prompt, **known)  # type: ignore[arg-type]


def heatmap(cell: float, seconds: float = 10.0, *shapes: Shape) -> Heatmap:
    """One rate and one cell: the same for all lengths. `shapes` are colocated, prefill and decode, all TP 4 unless."""
    colocated, prefill, decode = shapes or (Shape(tp=4),) * 3
    comparison = Comparison(colocated, prefill, decode, ((cell,),), ((seconds,),))
    return Heatmap(HeatmapFile("penstock-heatmap", 1, "m", (1.0,), (1000,), (1.0,), (comparison,)))


_COUNTS = st.one_of(st.integers(0, 300), st.integers(0, 2**40))
_TOKENS = st.one_of(st.integers(0, 50_000), st.integers(0, 2**40))
#: Whatever an engine may say, nonsense included: more blocks used than there are, no capacity at all.
LOADS = st.builds(
    Load,
    running=_COUNTS,
    waiting=_COUNTS,
    kv_blocks_used=_COUNTS,
    kv_blocks_total=_COUNTS,
    tokens_in_flight=_TOKENS,
    prefill_tokens=_TOKENS,
    kv_blocks_reserved=_COUNTS,
    prefill_pairs=_TOKENS,
)


def views(roles: st.SearchStrategy[Role]) -> st.SearchStrategy[ReplicaView]:
    """Any replica of these roles."""
    return st.builds(
        ReplicaView,
        id=st.text("abc/0", min_size=1, max_size=4),
        pool=st.sampled_from(["p", "q"]),
        shape=st.builds(
            Shape, tp=st.sampled_from([1, 2, 4, 8]), ep=st.sampled_from([1, 2]), pp=st.sampled_from([1, 2])
        ),
        role=roles,
        load=LOADS,
        sent=_COUNTS,
        sent_prompt_tokens=_TOKENS,
        sent_kv_tokens=_TOKENS,
        max_batch_size=st.sampled_from([0, 64]),
        kv_block_tokens=st.sampled_from([0, 32]),
        max_num_tokens=st.sampled_from([0, 2048, 8192]),
        reserves_output=st.booleans(),
    )


def fleets(roles: st.SearchStrategy[Role] | None = None) -> st.SearchStrategy[list[ReplicaView]]:
    """Up to eight replicas of these roles, by default of any, with ids of their own."""
    kinds = views(roles if roles is not None else st.sampled_from(list(Role)))
    return st.lists(kinds, min_size=1, max_size=8, unique_by=lambda replica: replica.id)
