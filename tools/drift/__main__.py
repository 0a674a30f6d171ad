"""Print the tables of docs/drift.md: `python -m tools.drift`, some minutes."""

import argparse
from collections import Counter
from statistics import median

from observability.drift.reference import FALSE_ALARMS
from tools.drift.traffic import Change, Kind, Traffic
from tools.drift.trial import LAYOUT, Trial

KINDS = (
    Kind("independent requests"),
    Kind("wanders by 5 %", wander=0.05),
    Kind("wanders by 10 %", wander=0.1),
    Kind("rhythm of the day", rhythm=0.4),
    Kind("rhythm, wanders by 5 %", wander=0.05, rhythm=0.4),
    Kind("rhythm, wanders by 10 % for 12 hours", wander=0.1, memory=12.0, rhythm=0.4),
    Kind("rhythm, wanders by 25 %", wander=0.25, memory=3.0, rhythm=0.4),
)
CHANGES = (
    (Change("prompts 20 % longer", prompts=1.2), "prompt_tokens"),
    (Change("answers 20 % longer", answers=1.2), "answer_tokens"),
    (Change("a language from 5 to 15 %", german=0.15), "language"),
    (Change("refusals from 1 to 2 %", refusals=0.02), "refusals"),
)
RATES = (500, 2000)
TRIALS = 4
DETECTIONS = 10
MOST_HOURS = 48


def main() -> None:
    """Run all trials."""
    parser = argparse.ArgumentParser(prog="python -m tools.drift", description=__doc__)
    parser.add_argument("--windows", type=int, default=2000, help="windows of an hour of each kind (default: 2000)")
    windows: int = parser.parse_args().windows
    print(f"False alarms, for {FALSE_ALARMS:g}: windows that were told as drifted of those that were looked at.\n")
    print("| traffic | requests an hour | " + " | ".join(f"{width // 4} h" for width in LAYOUT.widths) + " |")
    print("| --- | --- |" + " --- |" * len(LAYOUT.widths))
    for kind in KINDS:
        for rate in RATES:
            seen: Counter[int] = Counter()
            drifted: Counter[int] = Counter()
            for seed in range(TRIALS):
                tally = Trial(Traffic(kind, rate, seed)).tally(windows // TRIALS, FALSE_ALARMS)
                seen += tally.windows
                drifted += tally.drifted
            told = " | ".join(f"{drifted[width]} of {seen[width]}" for width in LAYOUT.widths)
            print(f"| {kind.name} | {rate} | {told} |", flush=True)
    print(f"\nDetection: median hours, and how many of {DETECTIONS} changes were found within {MOST_HOURS} hours.\n")
    print("| traffic | requests an hour | " + " | ".join(change.name for change, _ in CHANGES) + " |")
    print("| --- | --- |" + " --- |" * len(CHANGES))
    for kind in KINDS:
        for rate in RATES:
            cells = []
            for change, feature in CHANGES:
                trials = [Trial(Traffic(kind, rate, 100 + seed)) for seed in range(DETECTIONS)]
                hours = [trial.hours_until(change, feature, MOST_HOURS, FALSE_ALARMS) for trial in trials]
                found = [hour for hour in hours if hour is not None]
                cells.append(f"{median(found):g} h ({len(found)})" if found else "0")
            print(f"| {kind.name} | {rate} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
