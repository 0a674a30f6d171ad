"""What stands around a cue and takes weight from it: it is said of others, denied, quoted, or asked about."""

import re
from typing import Final

#: Families whose cues are orders: who tells of them, or quotes them, gives none.
_ORDERS: Final = frozenset(
    {
        "override_instructions",
        "reveal_prompt",
        "secret_extraction",
        "new_task",
        "persona_jailbreak",
        "refusal_suppression",
        "forged_role",
        "exfiltration",
        "encoded_instructions",
    }
)
_SAID: Final = re.compile(
    r"(?:\b(?:they|he|she|we|who|people|users?|students?|employees|customers|developers|drivers|teams?|children|"
    r"kids|models?|llms?|chatbots?|attackers?|hackers|companies|someone|somebody|everyone|"
    r"anyone|it|that|which|parents|critics|managers|scientists|researchers|often|usually|sometimes|always|never|"
    r"would|might|could|should|do not|don.?t|didn.?t|doesn.?t|does not|did not|"
    r"won.?t|wouldn.?t|shouldn.?t|couldn.?t|cannot|can.?t|not to|without|tends? to|tempted to|trying to|tried to|"
    r"decided to|chose to|"
    r"when to|whether to|ways? to|is it ok to|okay to|safe to|allowed to|able to|attempts? to|i|i will|i.ll|"
    r"i would|i had to|accidentally|why do|why did|risk of|by|of|for|about|"
    r"(?:told|asked|advised|ordered|said|says|wants?|wanted|instructed|tells?|asks?|learn\w*|begins?|began|started|"
    r"need\w*|helps?)(?: \w{1,12}){0,4} to)"
    r"[\s'\"]{1,3})$"
)
_HOW: Final = re.compile(
    r"\b(?:how|why|when|where|whether|should|can|could|may|do|if|is it \w+|best way) (?:(?:i|we|you|to|do|can|"
    r"should|does|one|people|someone|an?|the|would|it|git|\w{3,10})[\W_]{1,3}){1,4}$"
)
_YOU: Final = re.compile(
    r"(?<!do )(?<!if )(?<!can )(?<!should )(?<!could )\b(?:you|please|must|now)[\W_]{1,3}(?:\w{1,12}[\W_]{1,3}){0,3}$"
)
_ABOUT: Final = re.compile(
    r"\b(?:(?:the|this|a) (?:phrase|sentence|expression|term)|injections?|jailbreak(?:s|ing)|attacks?|attackers?|"
    r"hackers?|malicious|adversarial|detect\w*|prevent\w*|protect\w*|defen[ds]\w*|mitigat\w*|vulnerab\w*|"
    r"example of|examples|such as|"
    r"for example|e\.g|known as|so[\W_]called|meaning of|mean by|meant by|means|what does|what do|what happens|"
    r"why (?:do|"
    r"does|is|are|would|did|can)|how (?:do|does|can|could|would) (?:an?|the|people|attackers?|llms?|models?|"
    r"companies|we|i|"
    r"developers|users?|security)|explain (?:why|how|what)|explain the|article|paper|blog|titled|entitled|movie|"
    r"book|song|lyrics|quote|slogan|saying|red team\w*|owasp|security (?:team|engineer|review|training|"
    r"researcher\w*)|users? (?:who|that|may|might|can|could|try|type|write|enter|say)|someone (?:says|types|writes|"
    r"tells)|people (?:say|type|write|try)|difference between|define|definition of|history of|discuss)\b[^.!?\n]*$"
)
#: A question that begins with its verb.
_WHETHER: Final = re.compile(
    r"(?:^|[.!?\n] ?)(?:does|did|do|is|are|was|were|will|would|has|should|may) (?:[^\W_]{1,14}[\W_]{1,3}){1,6}$"
)
_WHAT: Final = re.compile(
    r"\b(?:what (?:is|are|does|do)|token|tags?|html|xml|means?|called|markup|syntax|format)\b[^.!?\n]*$"
)
_OPENING: Final = re.compile("[\"'“‘«„`「『(]\\W{0,2}(?:[\\w']{1,12}[\\W_]{1,2}){0,3}$")
_CLOSING: Final = re.compile("[^\"'”’»`」』\n]{0,28}[\"'”’»`」』]")
_AFTER: Final = re.compile(
    "[^\"'”’»`」』\n]{0,28}[\"'”’»`」』][^\\w]{0,3}(?:\\w{1,8} ){0,2}(?:attacks?|injections?|means?|works?|"
    "phrases?|examples?|prompts?|strings?|commands?|jailbreaks?|is an?|mean|in the context)\\b"
)
_ARTICLE: Final = re.compile(
    r"\b(?:an?|some|any good|good|writing|write|best|create|creating|design|designing|craft|crafting|"
    r"of)[\W_]{1,3}(?:good|better|custom|effective|great|strong)?[\W_]{0,3}(?:system|initial|original|"
    r"hidden)?[\W_]{0,3}$"
)

_DENIED: Final = 0.4
_ASKED: Final = 0.55
_QUOTED: Final = 0.45
_SET_APART: Final = 0.75


def weight(behind: str, window: str, end: int, family: str) -> float:
    """What part of a cue's share counts; `behind` is the folded text before it, `window` begins with it."""
    if not behind or family not in _ORDERS:
        return 1.0
    share = 1.0
    if (
        (family == "forged_role" and _WHAT.search(behind))
        or (family == "reveal_prompt" and _ARTICLE.search(behind))
        or (family == "override_instructions" and _told(behind))
    ):
        share = _DENIED
    about = _ABOUT.search(behind) is not None
    if _OPENING.search(behind) and _CLOSING.match(window, end):
        share *= _QUOTED if about or share < 1 or _AFTER.match(window, end) else _SET_APART
    elif about:
        share *= _ASKED
    return share


def _told(behind: str) -> bool:
    """Whether somebody else does what follows, or it is asked how or whether to."""
    if _WHETHER.search(behind) or _HOW.search(behind):
        return True
    return _SAID.search(behind) is not None and _YOU.search(behind) is None
