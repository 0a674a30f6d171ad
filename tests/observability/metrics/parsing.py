"""A strict reader of Prometheus' text format."""

import re

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf'({_NAME})(?:\{{((?:{_NAME}="(?:[^"\\\n]|\\[\\"n])*",?)+)\}})? (\S+)')
_LABEL = re.compile(rf'({_NAME})="((?:[^"\\\n]|\\[\\"n])*)"')
_UNESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

Series = tuple[str, frozenset[tuple[str, str]]]


def parsed(text: str) -> tuple[dict[str, str], dict[Series, float]]:
    """Kinds by family and values by series; whatever the format forbids fails."""
    kinds, series = dict[str, str](), dict[Series, float]()
    family, helped = "", set[str]()
    assert text == "" or text.endswith("\n")
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            _, _, family, _ = line.split(" ", 3)
            assert family not in helped, "a family stands in one place"
            helped.add(family)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family
            kinds[name] = kind
        else:
            sample = _SAMPLE.fullmatch(line)
            assert sample, line
            name, value = sample[1], float(sample[3])
            suffixes = ("_bucket", "_sum", "_count") if kinds[family] == "histogram" else ("",)
            assert name in {family + suffix for suffix in suffixes}
            labels = [
                (key, re.sub(r'\\[\\"n]', lambda m: _UNESCAPED[m[0]], shown))
                for key, shown in _LABEL.findall(sample[2] or "")
            ]
            assert len({key for key, _ in labels}) == len(labels)
            assert (name, frozenset(labels)) not in series, "a series is there once"
            series[name, frozenset(labels)] = value
    return kinds, series
