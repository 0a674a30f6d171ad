"""Compare the runs that `penstock replay diff` names, and print what comes out."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from gateway.cli.replay.replay_client import QuestionRefused, ReplayClient
from gateway.rollouts.comparison.similarity import cosine
from gateway.rollouts.replay.corpus import BadLines, Corpus, Entry
from gateway.rollouts.replay.judge import question, verdict
from gateway.rollouts.replay.junit import described
from gateway.rollouts.replay.run_difference import (
    Judged,
    RunDifference,
    Thresholds,
    compare_entry,
    pairs_of,
    recorded,
    summarize,
    texts_to_embed,
)
from gateway.rollouts.replay.run_file import Result, read_run
from observability.printable import printable
from observability.terminal import print_fields, print_table

#: Texts in one request for embeddings, and questions to a judge at one time.
_TEXTS, _QUESTIONS = 32, 8

_Pairs = Sequence[tuple[Entry, Result, Result]]
_Show = Callable[[int, str], object]


def difference_of(
    corpus: Corpus,
    runs: Sequence[Path],
    thresholds: Thresholds,
    client: ReplayClient | None,
    *,
    judge: str | None,
    embeddings: str | None,
    show: _Show | None,
) -> RunDifference:
    """Compare; of two `runs` the first is the baseline, else it is what was recorded. With a `client` models of the
    gateway are asked. Raises BadLines and LiveGatewayError.
    """
    sides = [_results(path, corpus) for path in runs]
    if len(sides) == 1:
        sides.insert(0, ("recorded", recorded(corpus.entries)))
    (baseline_name, baseline), (candidate_name, candidate) = sides
    pairs = pairs_of(corpus.entries, baseline, candidate)
    cosines = {} if client is None or embeddings is None else _cosines(client, embeddings, pairs)
    differences = [
        compare_entry(entry, one, other, thresholds.similar, cosines.get(place))
        for place, (entry, one, other) in enumerate(pairs)
    ]
    if client is not None and judge is not None:
        judged = _judged(client, judge, pairs, [each.difference.same for each in differences], show)
        differences = [
            msgspec.structs.replace(each, judged=judged.get(place)) for place, each in enumerate(differences)
        ]
    names = (baseline_name, candidate_name)
    entries = len(corpus.entries)
    return summarize(pairs, differences, thresholds, names=names, entries=entries)


def _results(path: Path, corpus: Corpus) -> tuple[str, Mapping[str, Result]]:
    run = read_run(path)
    if run.head.corpus != corpus.digest:
        raise BadLines(path, 1, "it is a run of another corpus")
    return run.head.version or path.name, run.results


def _cosines(client: ReplayClient, model: str, pairs: _Pairs) -> dict[int, float]:
    found: dict[int, float] = {}
    texts = texts_to_embed(pairs)
    for start in range(0, len(texts), _TEXTS // 2):
        part = texts[start : start + _TEXTS // 2]
        vectors = client.embeddings(model, [text for _, one, other in part for text in (one, other)])
        for number, (place, _, _) in enumerate(part):
            found[place] = cosine(vectors[2 * number], vectors[2 * number + 1])
    return found


def _judged(
    client: ReplayClient, judge: str, pairs: _Pairs, same: Sequence[bool], show: _Show | None
) -> dict[int, Judged]:
    """Ask the judge about every pair of answers that differ."""

    def ask(place: int) -> Judged:
        entry, one, other = pairs[place]
        assert one.answer is not None, "the pair was chosen for its answers"
        assert other.answer is not None, "the pair was chosen for its answers"
        try:
            straight = client.answer(question(judge, entry, one.answer, other.answer)).text
            swapped = client.answer(question(judge, entry, other.answer, one.answer)).text
        except QuestionRefused:
            return "unreadable"
        return verdict(straight, swapped)

    places = [
        place
        for place, (_, one, other) in enumerate(pairs)
        if one.answer is not None and other.answer is not None and not same[place]
    ]
    found: dict[int, Judged] = {}
    pool = ThreadPoolExecutor(_QUESTIONS)
    try:
        for place, judged in zip(places, pool.map(ask, places), strict=True):
            found[place] = judged
            if show is not None:
                show(len(found), f"{len(found)} of {len(places)} judged")
    finally:
        # Where one fails, or the command is interrupted, the others are not asked.
        pool.shutdown(wait=False, cancel_futures=True)
    return found


def print_difference(found: RunDifference, *, most: int) -> None:
    """Print the sums, the `most` entries that differ most, and which thresholds do not hold."""
    report = found.report
    fields = [
        ("baseline", found.baseline),
        ("candidate", found.candidate),
        ("compared", f"{report.compared} of {found.entries}"),
        ("alike", f"{report.alike:.1%}"),
        ("the same", f"{report.same:.1%}"),
        ("greedy, same", "" if report.greedy_same is None else f"{report.greedy_same:.1%} of {report.greedy}"),
        ("similarity", f"{report.similarity:.3f}"),
        ("length", f"x{report.length_ratio:.2f}"),
        ("calls", _counted(report.calls, "none")),
        ("finishes", _counted(report.finishes)),
        ("broken", str(report.broken or "")),
        ("failed", f"{report.candidate_failed or ''}"),
        ("judged", _counted(found.judged)),
        ("seconds", "" if found.seconds is None else f"{found.seconds[0]:.3f} > {found.seconds[1]:.3f}, medians"),
    ]
    print_fields([(name, printable(value)) for name, value in fields])
    worst = sorted((each for each in found.differences if not each.alike), key=lambda each: each.difference.similarity)
    if worst:
        print()
        print_table(("ENTRY", "DIFFERENCE"), [(printable(each.id[:48]), described(each)) for each in worst[:most]])
    if len(worst) > most:
        print(f"and {len(worst) - most} more; --json has them all")
    print()
    for line in found.violations:
        print(f"FAILED: {line}")
    if found.passed:
        print("PASSED")


def _counted(counts: Mapping[str, int], without: str = "") -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if name != without)
