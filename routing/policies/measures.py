"""How busy a replica is, in the units that policies compare. What this worker sent and no report has yet counts too."""

from routing.contracts.policy import ReplicaView, RouteRequest

#: The parts of `pressure`.
PRESSURE = ("prefill_steps_per_gpu", "requests_per_gpu", "kv_use")
#: Assumed where a replica does not say how many tokens its KV blocks hold.
BLOCK_TOKENS = 32


def sequences(view: ReplicaView) -> int:
    """Sequences that run or wait there, of all workers."""
    return view.load.running + view.load.waiting + view.sent


def backlog(view: ReplicaView) -> int:
    """Prompt tokens that are still to be computed there."""
    return view.load.prefill_tokens + view.sent_prompt_tokens


def block_tokens(view: ReplicaView) -> int:
    """Tokens in one of its KV blocks."""
    return view.kv_block_tokens or BLOCK_TOKENS


def kv_capacity(view: ReplicaView) -> int:
    """Tokens that its whole KV cache holds; 0: not known."""
    return view.load.kv_blocks_total * block_tokens(view)


def kv_free(view: ReplicaView) -> int:
    """Tokens for which its KV cache has room that nobody holds, has set aside or is about to take; may be negative."""
    load = view.load
    blocks = load.kv_blocks_total - load.kv_blocks_used - load.kv_blocks_reserved
    return blocks * block_tokens(view) - view.sent_kv_tokens


def kv_use(view: ReplicaView) -> float:
    """Share of its KV cache that sequences hold, and those that are on their way to it; 0 where nothing is known."""
    load = view.load
    if not load.kv_blocks_total:
        return 0.0
    return (load.kv_blocks_used + view.sent_kv_tokens / block_tokens(view)) / load.kv_blocks_total


def kv_need(view: ReplicaView, request: RouteRequest) -> float:
    """KV tokens that the request takes there: all it may ask for where the engine sets that aside, else what is due."""
    output = request.max_tokens if view.reserves_output else min(request.expected_output, request.max_tokens)
    return request.prompt_tokens + request.n * output


def pressure(view: ReplicaView) -> tuple[float, float, float]:
    """Steps that only prompts before it will fill, then requests, both per GPU; then the share of KV blocks in use.

    An engine computes prompts one after another, so whatever comes behind a long one waits for all of its steps; less
    than a whole step delays nobody much.
    """
    # Most policies ask this of every replica for every request: written out, it takes half the time.
    load, gpus, step, blocks = view.load, view.shape.gpus, view.max_num_tokens, view.load.kv_blocks_total
    return (
        (load.prefill_tokens + view.sent_prompt_tokens) // step / gpus if step else 0.0,
        (load.running + load.waiting + view.sent) / gpus,
        (load.kv_blocks_used + view.sent_kv_tokens / (view.kv_block_tokens or BLOCK_TOKENS)) / blocks
        if blocks
        else 0.0,
    )
