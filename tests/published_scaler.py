"""KEDA's own client of external scalers, generated from the definition that KEDA publishes."""

import functools
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.kubernetes.programs import CannotBuild, resources


class Published(NamedTuple):
    """The modules of its messages and of its stubs."""

    messages: ModuleType
    stubs: ModuleType


@functools.cache
def published() -> Published:
    """Both, in a package of KEDA's own; a test that cannot have the definition is skipped."""
    try:
        source = resources() / "keda-scaler"
    except CannotBuild as error:
        pytest.skip(f"no definition of KEDA's external scaler: {error}")
    with tempfile.TemporaryDirectory() as name:
        options = [f"-I{source}", f"--python_out={name}", f"--grpc_python_out={name}", "externalscaler.proto"]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options], check=True)
        assert {file.name for file in Path(name).iterdir()} == {"externalscaler_pb2.py", "externalscaler_pb2_grpc.py"}
        sys.path.insert(0, name)
        try:
            messages = importlib.import_module("externalscaler_pb2")
            return Published(messages, importlib.import_module("externalscaler_pb2_grpc"))
        finally:
            sys.path.remove(name)
