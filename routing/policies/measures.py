"""Load measures that policies compare. They include what this worker sent and no report shows yet."""

from routing.contracts.policy import ReplicaView, RouteRequest

#: The parts of `pressure`.
PRESSURE = ("prefill_steps_per_gpu", "requests_per_gpu", "kv_use")
#: Assumed where a replica does not say how many tokens its KV blocks hold.
BLOCK_TOKENS = 32


def sequences(view: ReplicaView) -> int:
    """Return the sequences that run or wait there, of all workers."""
    return view.load.running + view.load.waiting + view.sent


def backlog(view: ReplicaView) -> int:
    """Return the prompt tokens still to be computed there."""
    return view.load.prefill_tokens + view.sent_prompt_tokens


def block_tokens(view: ReplicaView) -> int:
    """Return the tokens in one of its KV blocks."""
    return view.kv_block_tokens or BLOCK_TOKENS


def kv_capacity(view: ReplicaView) -> int:
    """Return the token capacity of its KV cache; 0: unknown."""
    return view.load.kv_blocks_total * block_tokens(view)


def kv_free(view: ReplicaView) -> int:
    """Return the tokens of its KV cache that are neither held, reserved nor about to be taken; may be negative."""
    load = view.load
    blocks = load.kv_blocks_total - load.kv_blocks_used - load.kv_blocks_reserved
    return blocks * block_tokens(view) - view.sent_kv_tokens


def kv_use(view: ReplicaView) -> float:
    """Return the share of its KV cache taken by sequences, those just sent included; 0: unknown."""
    load = view.load
    if not load.kv_blocks_total:
        return 0.0
    return (load.kv_blocks_used + view.sent_kv_tokens / block_tokens(view)) / load.kv_blocks_total


def kv_need(view: ReplicaView, request: RouteRequest) -> float:
    """Return the KV tokens of a request: all it may ask for where the engine reserves that, else what is expected."""
    output = request.max_tokens if view.reserves_output else min(request.expected_output, request.max_tokens)
    return request.prompt_tokens + request.n * output


def pressure(view: ReplicaView) -> tuple[float, float, float]:
    """Return waiting full prompt steps per GPU, requests per GPU, and the share of KV blocks in use.

    An engine computes prompts one after another, so a request behind a long one waits for all of its steps; less than
    a whole step hardly delays any.
    """
    # Most policies call this for every replica and request: inlined, it takes half the time.
    load, gpus, step, blocks = view.load, view.shape.gpus, view.max_num_tokens, view.load.kv_blocks_total
    return (
        (load.prefill_tokens + view.sent_prompt_tokens) // step / gpus if step else 0.0,
        (load.running + load.waiting + view.sent) / gpus,
        (load.kv_blocks_used + view.sent_kv_tokens / (view.kv_block_tokens or BLOCK_TOKENS)) / blocks
        if blocks
        else 0.0,
    )
