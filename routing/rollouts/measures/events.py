"""The counted events of requests and answers, by name, and how each is compared."""

from typing import Final, NamedTuple


class Rate(NamedTuple):
    """An event among requests or answers. `good`: more of it is better. `guards`: to be worse ends a rollout.

    `told`: clients tell it, so that it may be counted in a later slice than what it is among.
    """

    event: str
    among: str
    good: bool = False
    guards: bool = True
    told: bool = False


#: What a version has answered or failed; not what was refused for the client's sake.
REQUESTS: Final = "requests"
#: Answers that came to their end.
ANSWERS: Final = "answers"
FAILED: Final = "failed"
THUMBS: Final = "thumbs"

RATES: Final[dict[str, Rate]] = {
    "errors": Rate(FAILED, REQUESTS),
    "abandoned": Rate("client_gone", REQUESTS),
    "empty": Rate("empty", ANSWERS),
    "truncated": Rate("truncated", ANSWERS),
    "refusals": Rate("refused", ANSWERS),
    "cut_by_filters": Rate("cut", ANSWERS),
    "flagged_by_filters": Rate("flagged", ANSWERS),
    "invalid_json": Rate("invalid_json", "json"),
    "invalid_tool_calls": Rate("invalid_calls", "calls"),
    "thumbs_up": Rate("thumbs_up", THUMBS, good=True, guards=False),
    "thumbs_down": Rate("thumbs_down", THUMBS),
    "regenerated": Rate("regenerated", ANSWERS, told=True),
    "accepted": Rate("accepted", ANSWERS, good=True, guards=False, told=True),
}
#: Seconds until the first token, for each one after it, and until the last.
TIMES: Final = ("ttft", "tpot", "seconds")
#: Compared by ratio as well, and no concern but as a goal: tokens of an answer, and nano-dollars.
SIZES: Final = ("output_tokens", "cost")
#: What a rollout's goal may be.
GOALS: Final = (*RATES, *TIMES, *SIZES)
