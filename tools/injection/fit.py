"""Fit the phrases to the texts: `python -m tools.injection.fit`. Needs scikit-learn and NumPy.

A logistic regression (L2) over the phrases of a text. It is fitted three times: with all phrases, to keep the most
important ones; with these; and again with each attack reduced to its worst stretch. The weight of features against
wording, and the bias at the threshold, come from cross-validation: an eighth of the files is left out at a time, so
that a text's neighbours do not raise its score.
"""

import importlib
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final, NamedTuple

from safety.injection import phrases
from safety.injection.injection_filter import features as features_of
from safety.injection.injection_filter import scored
from tools.injection.corpus import Text, digest, load
from tools.injection.features import phrases_of, windows

TARGET: Final = Path(phrases.__file__).with_name("phrases.txt")
#: The number of phrases that are kept, and the fewest stretches of text that one must be in.
_KEPT: Final = 12000
_LEAST_STRETCHES: Final = 2
#: The largest share of stretches that a phrase may be in: common words cost more than they tell.
_MOST_STRETCHES: Final = 0.03
#: The inverse strength of the regularisation: to choose phrases, and to weigh them.
_CHOOSING: Final = 0.3
_WEIGHING: Final = 2.0
#: The least weight of a telling phrase, and the most harmless stretches with it per attack stretch (one is added to the
#: count of harmless ones).
_TELLING: Final = 0.35
_MOST_HARMLESS: Final = 0.35
#: The shortest telling phrase in ASCII: a search for shorter ones costs as much as for thousands of long ones.
_SHORTEST_TELLING: Final = 8
#: The probability of an attempt at the threshold, among texts like these.
_THRESHOLD: Final = 0.55
#: Files with all texts of a language: an eighth of each is left out at a time, in runs of three lines.
_LANGUAGES: Final = (
    "german", "others", "romance", "variety_german", "variety_others", "variety_romance", "breadth_european",
    "breadth_languages", "breadth_scripts", "further_frames", "further_roles", "further_chinese_roles",
    "further_switches", "further_traffic", "wider_languages",
)  # fmt: skip
_PARTS: Final = 8
_RUN: Final = 3


class Stretch(NamedTuple):
    """A stretch of a text with its phrases. `part` is the cross-validation fold; `text` is the text's number."""

    phrases: frozenset[str]
    attack: bool
    text: int
    part: int


class Model(NamedTuple):
    """The weights of phrases, and the bias."""

    weights: dict[str, float]
    bias: float


class Whole(NamedTuple):
    """A model with the log-odds that a full score of features adds, and its telling phrases."""

    model: Model
    features: float
    telling: frozenset[str]


def main() -> None:
    """Fit the phrases and write the shipped file."""
    texts, parts = _grouped(load())
    stretches = [
        Stretch(frozenset(phrases_of(stretch)), text.attack, number, part)
        for number, (text, part) in enumerate(zip(texts, parts, strict=True))
        for stretch in windows(text.text, phrases.REACH)
    ]
    attacks = [text.attack for text in texts]
    features = [scored(features_of(text.text)).score for text in texts]
    left_out = _left_out(texts, stretches)
    model, of_features = _together(_fitted(stretches), features, left_out, attacks)
    whole = Whole(model, of_features, _telling(model, stretches))
    TARGET.write_text(_as_file(whole), encoding="utf-8")
    sys.stdout.write(
        f"{len(texts)} texts ({sum(attacks)} attacks), "
        f"{len(model.weights)} phrases, {len(whole.telling)} of them telling\n"
    )


def _together(model: Model, features: list[float], wording: list[float], attacks: list[bool]) -> tuple[Model, float]:
    """Fit features and wording together on cross-validated scores; shift the bias to even odds at the threshold."""
    linear: Any = importlib.import_module("sklearn.linear_model")
    fit = linear.LogisticRegression(C=10.0).fit(list(zip(features, wording, strict=True)), attacks)
    of_features, of_wording = map(float, fit.coef_[0])
    least = math.log(_THRESHOLD / (1 - _THRESHOLD))
    odds = [
        of_features * score + of_wording * said + float(fit.intercept_[0])
        for score, said in zip(features, wording, strict=True)
    ]
    for attack, name in ((True, "attacks"), (False, "harmless texts")):
        those = [each >= least for each, is_ in zip(odds, attacks, strict=True) if is_ is attack]
        sys.stdout.write(f"left out: {sum(those) / len(those):.3f} of the {name} reach the threshold\n")
    weights = {phrase: weight * of_wording for phrase, weight in model.weights.items()}
    return Model(weights, model.bias * of_wording + float(fit.intercept_[0]) - least), of_features


def _telling(model: Model, stretches: list[Stretch]) -> frozenset[str]:
    """Select phrases with a high weight that are rare in harmless texts, and long if in ASCII."""
    counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for stretch in stretches:
        counts[stretch.attack].update(stretch.phrases)
    return frozenset(
        phrase
        for phrase, weight in model.weights.items()
        if weight >= _TELLING
        and counts[False][phrase] + 1 <= _MOST_HARMLESS * counts[True][phrase]
        and (len(phrase.strip()) >= _SHORTEST_TELLING or not phrase.isascii())
    )


def _grouped(files: dict[str, list[Text]]) -> tuple[list[Text], list[int]]:
    """Return all texts with their cross-validation part; a file's texts share one, except in `_LANGUAGES`."""
    texts: list[Text] = []
    parts: list[int] = []
    for number, (name, its) in enumerate(files.items()):
        texts += its
        parts += [(index // _RUN if name in _LANGUAGES else number) % _PARTS for index in range(len(its))]
    return texts, parts


def _left_out(texts: list[Text], stretches: list[Stretch]) -> list[float]:
    """Score each text with a model fitted without the text's part."""
    scores = [-math.inf] * len(texts)
    for part in sorted({stretch.part for stretch in stretches}):
        model = _fitted([stretch for stretch in stretches if stretch.part != part])
        for stretch in stretches:
            if stretch.part == part:
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
    """Fit a logistic regression; return the weight of each phrase, the bias, and the score of each stretch."""
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


def _as_file(whole: Whole) -> str:
    model, features, telling = whole
    lines = [f"bias={model.bias:.2f} features={features:.2f} texts={digest()}"]
    for phrase, weight in model.weights.items():
        if hundredths := round(weight * 100):
            lines.append(f"{hundredths}{phrases.TELLING if phrase in telling else ''}\t{phrase}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
