"""What plain texts have that a search for attempts is worth."""

from functools import cache

from safety.injection.lexicon import lexicon
from safety.patterns import ANY_CASE, Sign
from safety.sieve import Signs


@cache
def signs_of_prompts() -> Signs:
    """Whatever makes `worth_searching` give something."""
    return Signs([sign for sign, _, is_idle in _signs() if not is_idle], weighs_languages=True)


@cache
def signs_of_answers() -> Signs:
    """Whatever makes `stretches` give something: not what only tells how a prompt is worded."""
    return Signs([sign for sign, is_bare, is_idle in _signs() if not is_idle and not is_bare])


@cache
def _signs() -> list[tuple[Sign, bool, bool]]:
    """Each anchor's, whether it is bare, and whether it is idle."""
    anchors = lexicon().anchors
    return [
        (Sign(expression, ANY_CASE), anchors[number].bare, anchors[number].idle)
        for number, expression in lexicon().in_plain.expressions.items()
    ]
