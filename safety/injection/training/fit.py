"""Fits the phrases to the texts: `python -m safety.injection.training.fit`. Needs scikit-learn and NumPy.

A logistic regression (L2) over the phrases of a text. It is fitted three times: with all phrases, of which those that
matter most are kept; with these; and again with each attack reduced to its worst stretch. How far harmless texts have
to stay from the threshold is found by leaving out one file after the other: a score must not be had by knowing a text's
neighbours.
"""

import importlib
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

from safety.injection import phrases
from safety.injection.training.corpus import Text, digest, load
from safety.injection.training.features import phrases_of, windows

TARGET: Final = Path(phrases.__file__).with_name("phrases.txt")
#: Phrases that are kept, and in how many stretches of text one must be.
_KEPT: Final = 1000
_LEAST_STRETCHES: Final = 2
#: The share of stretches that a phrase may be in: common words say something, but cost the more.
_MOST_STRETCHES: Final = 0.006
#: The strength of the regularisation, inverted: to choose phrases, and to weigh them.
_CHOOSING: Final = 0.3
_WEIGHING: Final = 1.0
#: The share of harmless texts in files left out that may reach the threshold by their wording alone.
_FALSE_ALARMS: Final = 0.02
#: Files with texts that are a language's only ones: a sixth of each is left out at a time, in runs of three lines.
_LANGUAGES: Final = ("german", "others", "romance")
_PARTS: Final = 6
_RUN: Final = 3
#: Log-odds of a score that speaks for nothing.
_NEGLIGIBLE: Final = -1.0


class Stretch(NamedTuple):
    """A stretch of a text with its phrases. `group` is left out as a whole; `text` is the text's number."""

    phrases: frozenset[str]
    attack: bool
    text: int
    group: str


class Model(NamedTuple):
    """Phrases with their weights, and what is added to the sum."""

    weights: dict[str, float]
    bias: float


def main() -> None:
    """Fit, and write the file that ships."""
    texts, groups = _grouped(load())
    stretches = [
        Stretch(frozenset(phrases_of(stretch)), text.attack, number, group)
        for number, (text, group) in enumerate(zip(texts, groups, strict=True))
        for stretch in windows(text.text, phrases.REACH)
    ]
    left_out = _left_out(texts, stretches)
    harmless = sorted(score for text, score in zip(texts, left_out, strict=True) if not text.attack)
    shift = harmless[math.ceil(len(harmless) * (1 - _FALSE_ALARMS)) - 1]
    attacks = [score for text, score in zip(texts, left_out, strict=True) if text.attack]
    found = sum(score > shift for score in attacks) / len(attacks)
    model = _fitted(stretches)
    TARGET.write_text(_as_file(model, shift), encoding="utf-8")
    sys.stdout.write(
        f"{len(texts)} texts ({len(attacks)} attacks), {len(model.weights)} phrases\n"
        f"left out: {found:.3f} of the attacks found at {_FALSE_ALARMS:.0%} false alarms, by wording alone\n"
    )


def _grouped(files: dict[str, list[Text]]) -> tuple[list[Text], list[str]]:
    texts: list[Text] = []
    groups: list[str] = []
    for name, its in files.items():
        texts += its
        groups += [f"language {index // _RUN % _PARTS}" if name in _LANGUAGES else name for index in range(len(its))]
    return texts, groups


def _left_out(texts: list[Text], stretches: list[Stretch]) -> list[float]:
    """What a model that has seen nothing of a text's group gives the text."""
    scores = [-math.inf] * len(texts)
    for group in sorted({stretch.group for stretch in stretches}):
        model = _fitted([stretch for stretch in stretches if stretch.group != group])
        for stretch in stretches:
            if stretch.group == group:
                long = phrases.penalty(len(texts[stretch.text].text))
                scores[stretch.text] = max(scores[stretch.text], _score(model, stretch) - long)
    return scores


def _score(model: Model, stretch: Stretch) -> float:
    hits = sorted(stretch.phrases & model.weights.keys())
    return model.bias + sum(model.weights[phrase] for phrase in hits) * phrases.share(len(hits))


def _fitted(stretches: list[Stretch]) -> Model:
    counts = Counter(phrase for stretch in stretches for phrase in stretch.phrases)
    most = _MOST_STRETCHES * len(stretches)
    known = sorted(phrase for phrase, count in counts.items() if _LEAST_STRETCHES <= count <= most)
    weights, _, _ = _regression(stretches, known, _CHOOSING)
    by_weight = sorted(known, key=lambda phrase: (-abs(weights[phrase]) * math.sqrt(counts[phrase]), phrase))
    known = sorted(by_weight[:_KEPT])
    weights, bias, scores = _regression(stretches, known, _WEIGHING)
    worst: dict[int, int] = {}
    for index, stretch in enumerate(stretches):
        if stretch.attack and (stretch.text not in worst or scores[index] > scores[worst[stretch.text]]):
            worst[stretch.text] = index
    kept = [stretch for index, stretch in enumerate(stretches) if not stretch.attack or worst[stretch.text] == index]
    weights, bias, _ = _regression(kept, known, _WEIGHING)
    return Model(weights, bias)


def _regression(
    stretches: list[Stretch], known: list[str], strength: float
) -> tuple[dict[str, float], float, list[float]]:
    """The weight of each phrase, the bias, and the score of each stretch."""
    linear: Any = importlib.import_module("sklearn.linear_model")
    sparse: Any = importlib.import_module("scipy.sparse")
    column = {phrase: index for index, phrase in enumerate(known)}
    data: list[float] = []
    columns: list[int] = []
    rows = [0]
    for stretch in stretches:
        hits = sorted(column[phrase] for phrase in stretch.phrases if phrase in column)
        data += [phrases.share(len(hits))] * len(hits)
        columns += hits
        rows.append(len(columns))
    matrix = sparse.csr_matrix((data, columns, rows), shape=(len(stretches), len(known)))
    fit = linear.LogisticRegression(
        C=strength, solver="liblinear", intercept_scaling=10, max_iter=1000, random_state=0
    ).fit(matrix, [stretch.attack for stretch in stretches])
    weights = {phrase: float(weight) for phrase, weight in zip(known, fit.coef_[0], strict=True)}
    return weights, float(fit.intercept_[0]), [float(score) for score in fit.decision_function(matrix)]


def _as_file(model: Model, shift: float) -> str:
    lines = [f"bias={model.bias - shift:.2f} floor={_floor(model, shift):.2f} texts={digest()}"]
    for phrase, weight in model.weights.items():
        if hundredths := round(weight * 100):
            lines.append(f"{hundredths}\t{phrase}")
    return "\n".join(lines) + "\n"


def _floor(model: Model, shift: float) -> float:
    """With less than this for an attack, the score stays below what anybody sets as a threshold."""
    return max(0.0, (_NEGLIGIBLE - (model.bias - shift)) / phrases.share(0))


if __name__ == "__main__":
    main()
