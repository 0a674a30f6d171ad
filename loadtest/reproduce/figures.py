"""The registry of reproducible figures by command name."""

from collections.abc import Callable
from typing import Final

from loadtest.reproduce import amoeba_12, amoeba_14, deepflow_5, deepflow_6, deepflow_8, scalellm_8, scalellm_9
from loadtest.reproduce.amoeba_traces import Recorded
from loadtest.reproduce.reproduction import Reproduction, Show

FIGURES: Final[dict[str, Callable[[Show], Reproduction]]] = {
    "scalellm-8": lambda show: scalellm_8.reproduce(show=show),
    "scalellm-9": lambda show: scalellm_9.reproduce(show=show),
    "deepflow-5": lambda show: deepflow_5.reproduce(show=show),
    "deepflow-6": lambda show: deepflow_6.reproduce(show=show),
    "deepflow-8": lambda show: deepflow_8.reproduce(show=show),
    "amoeba-12": lambda show: amoeba_12.reproduce(show=show),
    "amoeba-13": lambda show: amoeba_12.over_time(show=show),
    "amoeba-14": lambda show: amoeba_14.reproduce(show=show),
}
#: Those that can be drawn with recorded requests instead.
RECORDED: Final[dict[str, Callable[[Recorded, Show], Reproduction]]] = {
    "amoeba-12": lambda one, show: amoeba_12.reproduce(amoeba_12.Sizes(one.name, one.load, one.said, one.title), show),
    "amoeba-13": lambda one, show: amoeba_12.over_time(amoeba_12.Sizes(one.name, one.load, one.said, one.title), show),
    "amoeba-14": lambda one, show: amoeba_14.reproduce(
        amoeba_14.Sizes({one.name: one.load}, one.said, one.title), show
    ),
}
