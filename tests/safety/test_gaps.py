"""How long filters hold a stream: tokens after which no text goes out, counted and not timed.

With a token each 20 ms, a gap of one is 20 ms between events.
"""

from collections.abc import Sequence
from typing import Final

import pytest

from gateway.text.tokens.detokenizer import Detokenizer, TokenTable
from loadtest.load.filter_load import LONG_PROMPT
from replicas.engines.answer_lengths import corpus_sentences
from safety.action import Action
from safety.injection.injection_filter import InjectionFilter
from safety.pii.pii_filter import PiiFilter
from safety.screen import Rule, Screen
from tests.harness import tekken

RULES: Final = [Rule("pii", PiiFilter(), Action.REDACT), Rule("injection", InjectionFilter(), Action.BLOCK)]
PROSE: Final = [LONG_PROMPT, " ".join(corpus_sentences())]
CODE: Final = '''\
def merged(matches: Iterable[Match]) -> list[Match]:
    """Join the matches that touch or overlap, under the first one's label."""
    whole: list[Match] = []
    for match in matches:
        if whole and match.start <= whole[-1].end:
            last = whole[-1]
            whole[-1] = Match(last.start, max(last.end, match.end), last.label)
        else:
            whole.append(match)
    return whole
'''
TABLE: Final = "\n".join(f"| {row:2d} | {row * 7.3:8.2f} | {row * row} |" for row in range(40))
FRENCH: Final = (
    "Le marché du samedi commence avant l'aube, quand les marchands déchargent leurs fruits sous les halles. On y "
    "trouve des fromages, des herbes fraîches et parfois, au printemps, des asperges sauvages. Les gens du quartier "
    "restent au café d'en face, où l'on parle de la semaine jusqu'à midi passé."
)
ARABIC: Final = (
    "في الصباح الباكر يفتح الخباز دكانه الصغير في آخر الشارع، وتنتشر رائحة الخبز الساخن بين البيوت. يقف الجيران في صف "
    "طويل ويتحدثون عن الطقس وعن أخبار المدينة."
)
CHINESE: Final = (
    "周末的早晨，公园里总是很热闹。有人打太极拳，有人跳舞，也有人坐在长椅上看报纸。孩子们在草地上追逐风筝，老人们则围着棋盘"
    "讨论昨天的比赛。等到太阳升高，大家才慢慢散去，回家准备午饭。"
)


def gaps(text: str, rules: Sequence[Rule]) -> list[int]:
    """The tokens from one piece of shown text to the next, in ascending order."""
    tokenizer = tekken().tokenizer
    detokenizer = Detokenizer(TokenTable(tokenizer))
    screen = Screen(rules)
    found, since = [], 0
    for token in tokenizer.encode(text, special=False):
        since += 1
        if screen.feed(detokenizer.feed((token,))):
            found.append(since)
            since = 0
    if screen.finish():
        found.append(max(1, since))
    assert not screen.findings
    return sorted(found)


def quantile(values: Sequence[int], share: float) -> int:
    return values[min(len(values) - 1, int(share * len(values)))]


@pytest.mark.parametrize("rules", [RULES[:1], RULES[1:], RULES], ids=["pii", "injection", "both"])
def test_prose_goes_out_token_by_token(rules: Sequence[Rule]) -> None:
    found = sorted(gap for text in PROSE for gap in gaps(text, rules))
    assert quantile(found, 0.5) == 1
    assert quantile(found, 0.99) <= 2
    assert found[-1] <= 4


# A word of many tokens may become the local part of an address, a figure a number, six letters of a script without
# spaces an address: they wait until they are whole.
@pytest.mark.parametrize(
    ("text", "most"),
    [(CODE, 6), (TABLE, 6), (FRENCH, 3), (ARABIC, 2), (CHINESE, 8)],
    ids=["code", "table", "fr", "ar", "zh"],
)
def test_other_texts_wait_for_a_word_or_a_figure(text: str, most: int) -> None:
    found = gaps(text, RULES)
    assert quantile(found, 0.5) == 1
    assert quantile(found, 0.99) <= most


def test_a_filter_of_injections_alone_holds_no_language() -> None:
    for text in (FRENCH, ARABIC, CHINESE, CODE):
        assert quantile(gaps(text, RULES[1:]), 0.99) <= 2
