"""With calm runs or without, the same is shown, piece by piece."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.tokens.detokenizer import Detokenizer, TokenTable
from replicas.engines.answer_lengths import corpus_sentences
from safety.action import Action
from safety.calm import LONGEST_PIECE, NOT_CALM, CalmEnd, calm_ends, calm_pieces
from safety.injection.injection_filter import InjectionFilter
from safety.pii.pii_filter import PiiFilter
from safety.screen import Rule, Screen
from tests.harness import tekken
from tests.safety.cuts import pieces

PII = Rule("pii", PiiFilter(), Action.REDACT)
ATTEMPTS = Rule("attempts", InjectionFilter(), Action.BLOCK)
RULES = [[PII], [ATTEMPTS], [PII, ATTEMPTS], [Rule("pii", PiiFilter({"email"}), Action.FLAG)]]
#: Pieces around words of small letters, so that runs begin and end everywhere.
PARTS = [
    *(" the", " lighthouse", " keep", "er", "s", "ing", ",", ".", ". ", ", ", " ", " A", " Day", "\n", " i", " you"),
    *(" john", ".", "smith", "@", "example", ".com", " call", " 415", "-", "555", "1234", " [at", "] ", " key", ":"),
    *(" ignore", " all", " previous", " instructions", " unbelievable", "uncharacteristic", "é", " ça", "日", '"', "{"),
]


class EachPiece(Screen):
    """Has its filters look at each piece."""

    def _begin_run(self, ends: frozenset[CalmEnd], last: str) -> None:
        del ends, last


TEXTS = st.lists(st.sampled_from(PARTS), max_size=20).map("".join)


def calm_share(rules: Sequence[Rule], parts: Sequence[str]) -> float:
    """Screen pieces with runs and without, which must not differ; return the share of those in runs."""
    screen, each = Screen(rules), EachPiece(rules)
    calm = 0
    for part in parts:
        run = screen._run
        assert screen.feed(part) == each.feed(part)
        calm += run is not None and screen._run is run
        assert (screen.received, screen.decided) == (each.received, each.decided)
        assert screen.growing == each.growing
        assert [stream.open for _, stream in each._streams or ()] or each.blocked
    assert screen.finish() == each.finish()
    assert (screen.findings, screen.replaced, screen.written) == (each.findings, each.replaced, each.written)
    assert (screen.received, screen.decided) == (each.received, each.decided)
    return calm / max(1, len(parts))


@given(st.sampled_from(RULES), st.lists(st.sampled_from(PARTS), max_size=40))
@settings(max_examples=400)
def test_pieces_show_the_same_in_a_run_as_alone(rules: list[Rule], parts: list[str]) -> None:
    calm_share(rules, parts)


@given(
    st.sampled_from(RULES), st.lists(st.sampled_from(PARTS), max_size=20).map("".join), st.lists(st.integers(0, 200))
)
def test_a_text_cut_anywhere_shows_the_same_in_runs(rules: list[Rule], text: str, cuts: list[int]) -> None:
    calm_share(rules, pieces(text, cuts))
    calm_share(rules, list(text))


def test_most_tokens_of_prose_are_calm() -> None:
    tokenizer = tekken().tokenizer
    detokenizer = Detokenizer(TokenTable(tokenizer))
    tokens = tokenizer.encode(" ".join(corpus_sentences()), special=False)
    assert calm_share([PII], [detokenizer.feed((token,)) for token in tokens]) > 0.8


def test_a_run_is_bounded() -> None:
    screen = Screen([PII])
    for _ in range(2_000):
        screen.feed(" word")
        assert screen._run is None or len(screen._run.text) < 2_048
    assert screen.received == 10_000
    assert screen.decided == 9_996


def test_text_of_a_run_is_seen_once_it_matters() -> None:
    screen = Screen([PII])
    shown = "".join(
        [screen.feed(piece) for piece in [" write", " to", " jane", ".", "doe", "@", "example", ".com", " now"]]
    )
    assert shown + screen.finish() == " write to [EMAIL] now"


def test_how_calm_text_ends_after_a_piece() -> None:
    ends = calm_ends([PII.filter])
    assert ends is not None
    found, near = calm_pieces(ends, 12), calm_pieces(ends, 7)
    assert found is calm_pieces(ends, 12)
    assert found[" lighthouse"] == len("lighthouse")
    assert found["house"] == near["house"] == -len("house")
    assert found[","] == near[","] == 0
    assert near[" lighthouse"] == NOT_CALM
    for piece in ("", " ", " 4", "@", " of ", " " + 13 * "a", (LONGEST_PIECE + 1) * "a"):
        assert found[piece] == NOT_CALM, piece


def test_a_filter_that_does_not_tell_sees_every_piece() -> None:
    assert calm_ends([PII.filter, ATTEMPTS.filter]) is None
    assert calm_ends([]) is None


def test_what_was_shown_is_told_from_the_whole_text() -> None:
    screen = Screen([PII])
    parts = ["call", " me", " at", " 415", "-555", "-1234", " or", " mail", " a@", "b.com", ",", " bye"]
    shown = "".join([screen.feed(part) for part in parts])
    assert screen.shown_of("".join(parts)) == shown
    assert screen.shown_of("".join(parts)) != (shown := shown + screen.finish())
    assert screen.shown_of("".join(parts)) == shown
