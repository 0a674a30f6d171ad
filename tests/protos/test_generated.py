"""The generated code in the repository is what the compiler makes of the .proto file now."""

from pathlib import Path

import grpc_tools
from grpc_tools import protoc

import protos

FOLDER = Path(protos.__file__).parent


def test_the_generated_code_is_current(tmp_path: Path) -> None:
    include = Path(grpc_tools.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{FOLDER.parent}", f"-I{include}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    assert protoc.main([*arguments, "protos/replica.proto"]) == 0
    for name in ("replica_pb2.py", "replica_pb2.pyi"):
        assert (tmp_path / "protos" / name).read_text() == (FOLDER / name).read_text(), f"{name}: run `make proto`"
