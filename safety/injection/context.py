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
    r"(?:\b(?:they|he|she|we|who|people|users?|students?|employees|customers|developers|drivers|teams?|children|kids|models?|llms?|chatbots?|attackers?|hackers|companies|someone|somebody|everyone|"
    r"anyone|it|that|which|parents|critics|managers|scientists|researchers|often|usually|sometimes|always|never|would|might|could|should|do not|don.?t|didn.?t|doesn.?t|does not|did not|"
    r"won.?t|wouldn.?t|shouldn.?t|couldn.?t|cannot|can.?t|not to|without|tends? to|tempted to|trying to|tried to|decided to|chose to|"
    r"when to|whether to|ways? to|is it ok to|okay to|safe to|allowed to|able to|attempts? to|i|i will|i.ll|i would|i had to|accidentally|why do|why did|risk of|by|of|for|about|"
    r"(?:told|asked|advised|ordered|said|says|wants?|wanted|instructed|tells?|asks?|learn\w*|begins?|began|started|need\w*|helps?)(?: \w{1,12}){0,4} to)"
    r"[\s'\"]{1,3})$"
)
_HOW: Final = re.compile(
    r"\b(?:how|why|when|where|whether|should|can|could|may|do|if|is it \w+|best way) (?:(?:i|we|you|to|do|can|should|does|one|people|someone|an?|the|would|it|git|\w{3,10})[\W_]{1,3}){1,4}$"
)
_YOU: Final = re.compile(
    r"(?<!do )(?<!if )(?<!can )(?<!should )(?<!could )\b(?:you|please|must|now)[\W_]{1,3}(?:\w{1,12}[\W_]{1,3}){0,3}$"
)
_ABOUT: Final = re.compile(
    r"\b(?:phrases?|sentences?|injections?|jailbreak(?:s|ing)|attacks?|attackers?|hackers?|malicious|adversarial|detect\w*|prevent\w*|protect\w*|defen[ds]\w*|mitigat\w*|vulnerab\w*|example of|examples|such as|"
    r"for example|e\.g|known as|so[\W_]called|meaning of|mean by|means|what does|what do|what happens|why (?:do|does|is|are|would|did|can)|how (?:do|does|can|could|would) (?:an?|the|people|attackers?|llms?|models?|companies|we|i|"
    r"developers|users?|security)|explain (?:why|how|what)|explain the|article|paper|blog|titled|entitled|movie|book|song|lyrics|the term|expression|quote|slogan|saying|red team\w*|owasp|security (?:team|engineer|review|training|"
    r"researcher\w*)|users? (?:who|that|may|might|can|could|try|type|write|enter|say)|someone (?:says|types|writes|tells)|people (?:say|type|write|try)|difference between|define|definition of|history of|discuss)\b[^.!?\n]*$"
)
_OPENING: Final = re.compile("[\"'“‘«„`「『(]\\W{0,2}(?:[\\w']{1,12}[\\W_]{1,2}){0,3}$")
_CLOSING: Final = re.compile("[^\"'”’»`」』\n]{0,28}[\"'”’»`」』]")
_ARTICLE: Final = re.compile(
    r"\b(?:an?|some|any good|good|writing|write|best|create|creating|design|designing|craft|crafting|of)[\W_]{1,3}(?:good|better|custom|effective|great|strong)?[\W_]{0,3}(?:system|initial|original|hidden)?[\W_]{0,3}$"
)

_DENIED: Final = 0.4
_ASKED: Final = 0.55
_QUOTED: Final = 0.45


def weight(behind: str, window: str, end: int, family: str) -> float:
    """What part of a cue's share counts, given the folded text before it and from it on, where it has `end` characters."""
    if family not in _ORDERS or not behind:
        return 1.0
    share = 1.0
    if family == "override_instructions" and (
        _HOW.search(behind) or (_SAID.search(behind) and not _YOU.search(behind))
    ):
        share = _DENIED
    elif family == "reveal_prompt" and _ARTICLE.search(behind):
        share = _DENIED
    about = _ABOUT.search(behind) is not None
    if _OPENING.search(behind) and _CLOSING.match(window, end):
        share *= _QUOTED if about or share < 1 else 0.75
    elif about:
        share *= _ASKED
    return share
