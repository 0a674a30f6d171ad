"""Counts the bytecodes that all threads of this process execute, by function and by what the event loop called.

Only what is executed by the interpreter is counted: compiled libraries (uvloop, grpc's core, msgspec) have none.
"""

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any, Protocol

import msgspec

_Trace = Callable[[FrameType, str, Any], Any]
#: Counts by the function that the event loop (or a thread's loop) called, and by the function that they are of.
_Counts = defaultdict[CodeType, defaultdict[CodeType, int]]
_Total = defaultdict[tuple[CodeType, CodeType], int]
#: Seconds between two looks at a thread, which waits where it is found at both.
_LOOK_SECONDS = 0.002
_LOOKS = 500


class FunctionLaps(msgspec.Struct, frozen=True):
    """Bytecodes executed in one function, under one function that an event loop called (`root`), lap by lap.

    `module` is the one whose globals the function has, `line` its first line.
    """

    root: str
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
        """Stop at the end of a lap; return all laps."""
        ...


def bytecode_counter() -> BytecodeCounter:
    """Return the counter for this interpreter; it costs next to nothing outside of `begin` and `end`."""
    if sys.version_info >= (3, 12):
        return MonitoringCounter()
    return TracingCounter()


class TracingCounter:
    """Counts opcode events of `sys.settrace`, for Python 3.11: this thread, and the threads that start from now on."""

    def __init__(self) -> None:
        self._counting = False
        self._modules: dict[CodeType, str] = {}
        self._threads: dict[int, _ThreadTrace] = {}
        self._laps: list[_Total] = []
        sys.settrace(self._first_call)
        threading.settrace(self._first_call)

    def begin(self) -> None:
        self._counting = False
        bases = waiting_frames(self._threads)
        for number, thread in self._threads.items():
            thread.reset(bases.get(number))
        self._laps = []
        self._counting = True
        # Functions that run already, such as loops of threads, make no call event that would have them traced.
        for number, innermost in sys._current_frames().items():
            frame: FrameType | None = innermost
            while frame is not None and number in self._threads:
                self._trace(frame, self._threads[number].opcode)
                frame = frame.f_back

    def lap(self) -> None:
        self._laps.append(_total(self._threads))

    def end(self) -> list[FunctionLaps]:
        self.lap()
        self._counting = False
        return _described(self._laps, self._modules)

    def _trace(self, frame: FrameType, tracer: _Trace) -> None:
        if frame.f_code not in self._modules:
            self._modules[frame.f_code] = _module_of(frame)
        frame.f_trace, frame.f_trace_opcodes, frame.f_trace_lines = tracer, True, False

    def _first_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        thread = self._threads[threading.get_ident()] = _ThreadTrace()

        def opcode(frame: FrameType, event: str, arg: Any) -> None:
            # Called for each bytecode: what it takes is most of a count's time.
            if event == "opcode":
                thread.counts[frame.f_code] += 1

        def call(frame: FrameType, event: str, arg: Any) -> _Trace | None:
            if not self._counting:
                return None
            if frame.f_back is thread.base:
                thread.counts = thread.by_root[frame.f_code]
            self._trace(frame, opcode)
            return opcode

        thread.opcode = opcode
        sys.settrace(call)
        return call(frame, event, arg)


class _ThreadTrace:
    """The counts of one thread: an increment is not atomic, so each has its own."""

    __slots__ = ("base", "by_root", "counts", "opcode")

    opcode: _Trace

    def __init__(self) -> None:
        self.reset(None)

    def reset(self, base: FrameType | None) -> None:
        """Count from zero. `base` is the frame in which the thread waits for something to do."""
        self.base = base
        self.by_root: _Counts = defaultdict(lambda: defaultdict(int))
        self.counts = self.by_root[self.reset.__code__ if base is None else base.f_code]


if sys.version_info >= (3, 12):

    class MonitoringCounter:
        """Counts instruction events of `sys.monitoring` (PEP 669), which all threads report."""

        def __init__(self) -> None:
            self._modules: dict[CodeType, str] = {}
            self._threads: dict[int, _ThreadTrace] = {}
            self._laps: list[_Total] = []
            monitoring = sys.monitoring
            events = monitoring.events
            monitoring.use_tool_id(monitoring.PROFILER_ID, "penstock bench cost")
            monitoring.register_callback(monitoring.PROFILER_ID, events.INSTRUCTION, self._instruction)
            for entered in (events.PY_START, events.PY_RESUME, events.PY_THROW):
                monitoring.register_callback(monitoring.PROFILER_ID, entered, self._entered)

        def begin(self) -> None:
            monitoring, events = sys.monitoring, sys.monitoring.events
            monitoring.set_events(monitoring.PROFILER_ID, events.NO_EVENTS)
            own = threading.get_ident()
            threads = [number for number in sys._current_frames() if number != own]
            bases = waiting_frames(threads)
            self._threads = {number: _ThreadTrace() for number in threads}
            for number, thread in self._threads.items():
                thread.reset(bases.get(number))
            self._laps = []
            # Functions that run already are not entered any more.
            for innermost in sys._current_frames().values():
                frame: FrameType | None = innermost
                while frame is not None:
                    self._modules.setdefault(frame.f_code, _module_of(frame))
                    frame = frame.f_back
            wanted = events.INSTRUCTION | events.PY_START | events.PY_RESUME | events.PY_THROW
            monitoring.set_events(monitoring.PROFILER_ID, wanted)

        def lap(self) -> None:
            self._threads.pop(threading.get_ident(), None)  # this thread does nothing but count
            self._laps.append(_total(self._threads))

        def end(self) -> list[FunctionLaps]:
            sys.monitoring.set_events(sys.monitoring.PROFILER_ID, sys.monitoring.events.NO_EVENTS)
            self.lap()
            return _described(self._laps, self._modules)

        def _thread(self) -> _ThreadTrace:
            number = threading.get_ident()
            thread = self._threads.get(number)
            if thread is None:
                thread = self._threads[number] = _ThreadTrace()
            return thread

        def _instruction(self, code: CodeType, offset: int, number: Callable[[], int] = threading.get_ident) -> None:
            # Called for each bytecode: what it takes is most of a count's time.
            try:
                self._threads[number()].counts[code] += 1
            except KeyError:
                self._thread().counts[code] += 1

        def _entered(self, code: CodeType, offset: int, *_: object) -> None:
            thread = self._thread()
            frame = sys._getframe(1)
            if code not in self._modules:
                self._modules[code] = _module_of(frame)
            if frame.f_back is thread.base:
                thread.counts = thread.by_root[code]


def waiting_frames(threads: "dict[int, Any] | list[int]") -> dict[int, FrameType]:
    """Return the innermost frame of each thread that waits, by the thread's number; looks until all do, or a second."""
    before: dict[int, tuple[FrameType, int]] = {}
    found: dict[int, FrameType] = {}
    for _ in range(_LOOKS):
        frames = sys._current_frames()
        now = {number: (frames[number], frames[number].f_lasti) for number in threads if number in frames}
        found |= {number: frame for number, (frame, at) in now.items() if before.get(number) == (frame, at)}
        if all(number in found for number in now):
            break
        before = now
        time.sleep(_LOOK_SECONDS)
    return found


def _total(threads: "dict[int, _ThreadTrace]") -> _Total:
    total: _Total = defaultdict(int)
    for thread in list(threads.values()):
        # Copies, as the threads go on.
        for root, counts in list(thread.by_root.items()):
            for code, count in list(counts.items()):
                total[root, code] += count
    return total


def _described(ends: list[_Total], modules: dict[CodeType, str]) -> list[FunctionLaps]:
    """Describe functions by their totals at the end of each lap."""
    return [
        FunctionLaps(
            f"{modules.get(root, '')}:{root.co_qualname}",
            modules.get(code, ""),
            code.co_qualname,
            code.co_firstlineno,
            [after.get((root, code), 0) - before.get((root, code), 0) for before, after in pairwise([{}, *ends])],
        )
        for root, code in ends[-1]
    ]


def _module_of(frame: FrameType) -> str:
    # Not by the file's name: methods of data classes are compiled from a text, with the globals of the class's module.
    return str(frame.f_globals.get("__name__", ""))
