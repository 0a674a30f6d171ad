"""The generated code in the repository is what the compiler makes of the .proto file now."""

import subprocess
import sys
from pathlib import Path

import protos

FOLDER = Path(protos.__file__).parent


def test_the_generated_code_is_current(tmp_path: Path) -> None:
    options = [f"-I{FOLDER.parent}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options, "protos/replica.proto"], check=True)
    for name in ("replica_pb2.py", "replica_pb2.pyi"):
        assert (tmp_path / "protos" / name).read_text() == (FOLDER / name).read_text(), f"{name}: run `make proto`"
