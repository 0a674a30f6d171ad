"""Counts the bytecodes that all threads of this process execute, by code object.

Only what is executed by the interpreter is counted: compiled libraries (uvloop, grpc's core, msgspec) have no bytecodes.
"""

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any, Protocol

import msgspec

_Trace = Callable[[FrameType, str, Any], Any]


class FunctionLaps(msgspec.Struct, frozen=True):
    """Bytecodes executed in one function, in each lap. `module` is the one whose globals it has, `line` its first."""

    module: str
    function: str
    line: int
    laps: list[int]


class BytecodeCounter(Protocol):
    """Counts bytecodes in laps. It must be made before the process starts the threads that are to be counted."""

    def begin(self) -> None:
        """Start the first lap."""
        ...

    def lap(self) -> None:
        """End a lap and start the next one."""
        ...

    def end(self) -> list[FunctionLaps]:
        """Stop, and return the laps that were ended; the one under way is discarded."""
        ...


def bytecode_counter() -> BytecodeCounter:
    """Return the counter for this interpreter; it costs next to nothing outside of `begin` and `end`."""
    return MonitoringCounter() if sys.version_info >= (3, 12) else TracingCounter()


class TracingCounter:
    """Counts opcode events of `sys.settrace`, for Python 3.11: this thread, and the threads that start from now on."""

    def __init__(self) -> None:
        self._counting = False
        self._modules: dict[CodeType, str] = {}
        # By thread: an increment is not atomic.
        self._counts: dict[int, defaultdict[CodeType, int]] = {}
        self._tracers: dict[int, _Trace] = {}
        self._laps = _Laps()
        sys.settrace(self._first_call)
        threading.settrace(self._first_call)

    def begin(self) -> None:
        self._laps.begin(list(self._counts.values()))
        self._counting = True
        # Functions that run already, such as loops of threads, make no call event that would have them traced.
        for thread, innermost in sys._current_frames().items():
            tracer = self._tracers.get(thread)
            frame: FrameType | None = innermost
            while tracer is not None and frame is not None:
                self._trace(frame, tracer)
                frame = frame.f_back

    def lap(self) -> None:
        self._laps.lap(list(self._counts.values()))

    def end(self) -> list[FunctionLaps]:
        self._counting = False
        return self._laps.end(self._modules)

    def _trace(self, frame: FrameType, tracer: "_Trace") -> None:
        if frame.f_code not in self._modules:
            self._modules[frame.f_code] = _module_of(frame)
        frame.f_trace, frame.f_trace_opcodes, frame.f_trace_lines = tracer, True, False

    def _first_call(self, frame: FrameType, event: str, arg: Any) -> "_Trace | None":
        counts = self._counts[threading.get_ident()] = defaultdict(int)

        def opcode(frame: FrameType, event: str, arg: Any) -> _Trace:
            if event == "opcode" and self._counting:
                counts[frame.f_code] += 1
            return opcode

        def call(frame: FrameType, event: str, arg: Any) -> _Trace | None:
            if not self._counting:
                return None
            self._trace(frame, opcode)
            return opcode

        self._tracers[threading.get_ident()] = opcode
        sys.settrace(call)
        return call(frame, event, arg)


if sys.version_info >= (3, 12):

    class MonitoringCounter:
        """Counts instruction events of `sys.monitoring` (PEP 669), which all threads report."""

        def __init__(self) -> None:
            self._counts: defaultdict[CodeType, int] = defaultdict(int)
            self._modules: dict[CodeType, str] = {}
            self._laps = _Laps()
            monitoring = sys.monitoring
            monitoring.use_tool_id(monitoring.PROFILER_ID, "penstock bench cost")
            monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION, self._instruction)

        def begin(self) -> None:
            self._laps.begin([self._counts])
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, sys.monitoring.events.INSTRUCTION)

        def lap(self) -> None:
            self._laps.lap([self._counts])

        def end(self) -> list[FunctionLaps]:
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, sys.monitoring.events.NO_EVENTS)
            return self._laps.end(self._modules)

        def _instruction(self, code: CodeType, offset: int) -> None:
            self._counts[code] += 1
            if code not in self._modules:
                self._modules[code] = _module_of(sys._getframe(1))


class _Laps:
    """Counts that only grow, as they were at the end of each lap."""

    def __init__(self) -> None:
        self._ends: list[dict[CodeType, int]] = []

    def begin(self, counts: Sequence[Mapping[CodeType, int]]) -> None:
        self._ends = []
        self.lap(counts)

    def lap(self, counts: Sequence[Mapping[CodeType, int]]) -> None:
        total: defaultdict[CodeType, int] = defaultdict(int)
        for thread in counts:
            for code, count in dict(thread).items():  # a copy, as the thread goes on
                total[code] += count
        self._ends.append(total)

    def end(self, modules: Mapping[CodeType, str]) -> list[FunctionLaps]:
        found = []
        for code in self._ends[-1]:
            laps = [after.get(code, 0) - before.get(code, 0) for before, after in pairwise(self._ends)]
            if any(laps):
                found.append(FunctionLaps(modules[code], code.co_qualname, code.co_firstlineno, laps))
        return found


def _module_of(frame: FrameType) -> str:
    # Not by the file's name: methods of data classes are compiled from a text, with the globals of the class's module.
    return str(frame.f_globals.get("__name__", ""))
