"""Stop strings: an answer ends before the first one, however its text was cut into pieces."""

import re
from collections import deque
from collections.abc import Sequence


class StopMatcher:
    """Ends a text at the first complete stop string; of two that end together, at the start of the longer one.

    Text is released as soon as it cannot be the beginning of a stop string: what is held is the longest end of the text
    that begins one. A text without any stop string's first character costs one search in C; other characters cost a
    step of an Aho-Corasick automaton each, so the time is linear in the text, whatever the stop strings repeat.
    """

    __slots__ = ("_depths", "_fails", "_first", "_held", "_lengths", "_node", "_steps", "found", "stopped")

    def __init__(self, stops: Sequence[str]) -> None:
        """Takes time and memory proportional to the length of `stops`; raises ValueError for an empty string."""
        if not all(stops):
            raise ValueError("a stop string must not be empty")
        self.stopped = False
        #: The stop string that ended the text.
        self.found: str | None = None
        self._held = ""
        self._node = 0
        self._first = re.compile("|".join(re.escape(first) for first in {stop[0] for stop in stops}) or "(?!)").search
        # By node, which stands for a prefix of stop strings: the next node by character, ...
        self._steps: list[dict[str, int]] = [{}]
        # ... the number of its characters, ...
        self._depths = [0]
        # ... the length of the longest stop string that ends here, 0 for none, ...
        self._lengths = [0]
        # ... and the node of its longest proper suffix that is a prefix too (the failure link).
        self._fails = [0]
        for stop in stops:
            self._lengths[self._add(stop)] = len(stop)
        self._link()

    def _add(self, stop: str) -> int:
        node = 0
        for character in stop:
            following = self._steps[node].setdefault(character, len(self._steps))
            if following == len(self._steps):
                self._steps.append({})
                self._depths.append(self._depths[node] + 1)
                self._lengths.append(0)
                self._fails.append(0)
            node = following
        return node

    def _link(self) -> None:
        waiting = deque(self._steps[0].values())
        while waiting:  # shallow nodes first: deeper nodes' failure links depend on them
            node = waiting.popleft()
            for character, following in self._steps[node].items():
                fail = self._next(self._fails[node], character)
                self._fails[following] = fail
                self._lengths[following] = self._lengths[following] or self._lengths[fail]
                waiting.append(following)

    def _next(self, node: int, character: str) -> int:
        while character not in self._steps[node]:
            if not node:
                return 0
            node = self._fails[node]
        return self._steps[node][character]

    def feed(self, text: str) -> tuple[str, bool]:
        """Add text; returns the text to release and whether a stop string was found: then nothing more is released."""
        if self.stopped:
            return "", True
        if not self._node and not self._first(text):
            return text, False
        at = len(self._held)
        text = self._held + text
        node = self._node
        while at < len(text):
            if not node:
                found = self._first(text, at)
                if not found:
                    break
                at = found.start()
            node = self._next(node, text[at])
            at += 1
            if self._lengths[node]:
                self.stopped = True
                self._held = ""
                start = at - self._lengths[node]
                self.found = text[start:at]
                return text[:start], True
        self._node = node
        cut = len(text) - self._depths[node]
        self._held = text[cut:]
        return text[:cut], False

    def flush(self) -> str:
        """End the text without a stop string; returns the text that was held."""
        text, self._held = self._held, ""
        self._node = 0
        return text
