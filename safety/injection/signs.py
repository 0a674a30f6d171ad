"""What plain texts have that a search for attempts is worth."""

from functools import cache

from safety.injection.lexicon import Anchor, lexicon
from safety.patterns import ANY_CASE, Sign
from safety.sieve import Signs


@cache
def signs_of_prompts() -> Signs:
    """Whatever makes `worth_searching` give something."""
    return Signs([sign for sign, anchor in _signs() if not anchor.idle], weighs_languages=True)


@cache
def signs_of_answers() -> Signs:
    """Whatever makes `stretches` give something: not what only tells how a prompt is worded."""
    return Signs([sign for sign, anchor in _signs() if not (anchor.weak or anchor.bare)])


@cache
def _signs() -> list[tuple[Sign, Anchor]]:
    anchors = lexicon().anchors
    return [
        (Sign(expression, ANY_CASE), anchors[number]) for number, expression in lexicon().in_plain.expressions.items()
    ]
