"""Output token bounds: by the model's context, by tenant and key, and by the memory that logprobs take."""

from gateway.inference.generate_request import Begun, Chat, GenerateRequest
from protos.errors import ContextLengthExceeded, InvalidRequest, TokenLimitExceeded

#: Most logprob entries of one request, over all its tokens and sequences.
MAX_LOGPROB_ENTRIES = 100_000


def output_bound(request: GenerateRequest, prompt_tokens: int) -> int:
    """Bound the tokens of each of the request's answers.

    A limit that the client names is granted, or refused by those of tenant and key; where the context leaves less, it
    is refused or clamped, as the model's configuration says. Without one the tenant's default holds, or all that fits.
    Raises ContextLengthExceeded, TokenLimitExceeded or InvalidRequest, with the parameter at fault.
    """
    bounds, wanted = request.caller.bounds(request.model.name), request.max_tokens
    most_input, most_output, sequences = bounds.max_input, bounds.max_output, request.sampling.n
    if most_input is not None and prompt_tokens > most_input:
        raise TokenLimitExceeded(
            f"Your prompt has {prompt_tokens} tokens; with this API key and model it may have at most {most_input} "
            "(max_input_tokens).",
            param=_prompt_param(request),
        )
    room = _room(request, prompt_tokens)
    if most_output is None:
        most = room
    elif (wanted or 1) * sequences > most_output:
        raise TokenLimitExceeded(
            f"You requested {(wanted or 1) * sequences} output tokens; with this API key and model a request may have "
            f"at most {most_output} over all of its answers (max_output_tokens).",
            param="n" if wanted is None else request.max_tokens_param,
        )
    else:
        most = min(room, most_output // sequences)
    if wanted is None:
        default = bounds.default_output
        wanted = most if default is None else min(default, most)
    return _logprobs_bound(request, min(wanted, room))


def upstream_bound(request: GenerateRequest, max_tokens: int) -> int | None:
    """Give the output bound that an upstream must get for a request that names none: what the limits of tenant and key
    allow. None: there are no such limits.
    """
    bounds = request.caller.bounds(request.model.name)
    most, default = bounds.max_output, bounds.default_output
    limits = [] if most is None else [most // request.sampling.n]
    if default is not None:
        limits.append(default)
    if not limits:
        return None
    # What the context leaves is an estimate where the prompt's length is one.
    return min(limits) if request.opaque else min(*limits, max_tokens)


def _prompt_param(request: GenerateRequest) -> str:
    return "messages" if isinstance(request.prompt, Chat | Begun) else "prompt"


def _room(request: GenerateRequest, prompt_tokens: int) -> int:
    """Give the tokens that the context leaves for each answer. Raises ContextLengthExceeded with both figures."""
    context, wanted = request.model.context, request.max_tokens
    room = context - prompt_tokens
    if request.opaque:
        # An estimate never refuses: the upstream knows the real length.
        return max(room, wanted or 1)
    if room < 1:
        raise ContextLengthExceeded(
            f"This model's maximum context length is {context} tokens. However, your prompt resulted in "
            f"{prompt_tokens} tokens. Please reduce the length of the prompt.",
            param=_prompt_param(request),
        )
    if wanted is not None and wanted > room and not request.model.clamps:
        raise ContextLengthExceeded(
            f"This model's maximum context length is {context} tokens. However, you requested "
            f"{prompt_tokens + wanted} tokens ({prompt_tokens} in the prompt, {wanted} in the completion). "
            "Please reduce the length of the prompt or completion.",
            param=request.max_tokens_param,
        )
    return room


def _logprobs_bound(request: GenerateRequest, max_tokens: int) -> int:
    """Bound an answer whose tokens carry logprobs, which take 500 bytes an entry in a worker.

    Raises InvalidRequest when the client names a higher limit; without one the bound is lowered.
    """
    alternatives = request.sampling.logprobs
    if alternatives is None:
        return max_tokens
    most = max(1, MAX_LOGPROB_ENTRIES // (request.sampling.n * (1 + alternatives)))
    if request.max_tokens is not None and max_tokens > most:
        raise InvalidRequest(
            f"With these logprobs an answer may have at most {most} tokens here; ask for fewer tokens or alternatives.",
            param=request.max_tokens_param,
        )
    return min(max_tokens, most)


def check_prompt_logprobs(request: GenerateRequest, prompt_tokens: int) -> None:
    """Raise InvalidRequest for prompts that have too many tokens, all in all, for the logprobs that they shall have."""
    sampling = request.sampling
    most = MAX_LOGPROB_ENTRIES // (1 + (sampling.logprobs or 0))
    if sampling.prompt_logprobs and prompt_tokens > most:
        raise InvalidRequest(
            f"With these logprobs the prompts of a request may have at most {most} tokens here, and these have "
            f"{prompt_tokens}; send fewer prompts at once, or ask for fewer alternatives.",
            param=request.prompt_param,
        )
