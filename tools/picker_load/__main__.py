"""Measure `penstock epp`: long prompts at a rate, from a client that plays Envoy, all on this machine.

    python -m tools.picker_load --rate 150 --kib 220 --seconds 30
    python -m tools.picker_load --rate 150 --kib 220 --seconds 30 --prefill 4

Each request is a stream of external processing: headers, the body in pieces of 16 KiB, then a short answer. Prompts
share their beginnings by conversations, as chats do. What is measured is the time from a body's last piece to the
answer that names the endpoint; the client's own lag is told beside it, for it plays on the same machine.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import grpc.aio
import uvloop
from grpc_health.v1 import health_pb2, health_pb2_grpc

from protos import ext_proc_pb2 as pb
from protos.ext_proc_codec import PREFILLER
from tools.picker_load.pods import POOL, Pods, write_kubeconfig

_METHOD: Final = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
_PIECE: Final = 16 * 1024
_DUPLEX: Final = pb.ProtocolConfiguration(
    request_body_mode=pb.FULL_DUPLEX_STREAMED, response_body_mode=pb.FULL_DUPLEX_STREAMED
)
_SCRAPE: Final = (
    b"vllm:num_requests_running 1\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.1\n"
    b'vllm:cache_config_info{block_size="16",num_gpu_blocks="200000"} 1\n'
)
_ANSWER: Final = (
    b'data: {"choices":[{"delta":{"content":"yes"}}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":50000,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
)
_HEADERS: Final = pb.ProcessingRequest(request_headers=pb.HttpHeaders(), protocol_config=_DUPLEX).SerializeToString()
_RESPONSE_HEADERS: Final = pb.ProcessingRequest(response_headers=pb.HttpHeaders()).SerializeToString()
_RESPONSE: Final = pb.ProcessingRequest(response_body=pb.HttpBody(body=_ANSWER, end_of_stream=True)).SerializeToString()
_WORDS: Final = ("fleet", "prompt", "cache", "a", "the", "of", "token", "answers", "queue", "while")
#: Requests under way, beyond which the client waits: a picker that cannot follow does not fill the memory.
_MOST_STREAMS: Final = 200


def main() -> int:
    """Run one measurement and print it."""
    parser = argparse.ArgumentParser(prog="python -m tools.picker_load", description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", type=float, default=150.0, help="requests a second")
    parser.add_argument("--kib", type=int, default=220, help="length of a body")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--endpoints", type=int, default=8)
    parser.add_argument("--prefill", type=int, default=0, help="endpoints of these that only compute prompts")
    parser.add_argument("--conversations", type=int, default=40, help="prompts with a beginning of their own")
    parser.add_argument("--cores", default="", help="cores of the picker, as 0,1; unset: any")
    options = parser.parse_args()
    print(json.dumps(uvloop.run(_measure(options)), indent=2))
    return 0


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    # Before anything is served: thousands of prompts take longer than endpoints may be silent.
    rng, size = random.Random(1), options.kib * 1024
    beginnings = [
        _Beginning(" ".join(rng.choice(_WORDS) for _ in range(size // 5))[: size - 256])
        for _ in range(options.conversations)
    ]
    with tempfile.TemporaryDirectory(prefix="penstock-picker-") as name:
        folder = Path(name)
        # Each has an address of its own, as pods have, and all have the same port.
        addresses = [f"127.0.0.{10 + number}" for number in range(options.endpoints)]
        port, served = _free_port(), _free_port()
        servers = [await asyncio.start_server(_serve_metrics, address, served) for address in addresses]
        pool: dict[str, Any] = {"name": "p", "engine": "openai"}
        pool["replicas"] = [f"http://{address}:{served}/v1" for address in addresses]
        config = {
            "state": name,
            "epp": {"port": port, "health_port": _free_port(), "metrics_port": _free_port()},
            "models": [{"name": "m", "context": 200_000, "pools": [pool]}],
        }
        if options.prefill:
            roles = ["prefill" if number < options.prefill else "decode" for number in range(options.endpoints)]
            pods = Pods(dict(zip(addresses, roles, strict=True)), served)
            api = await asyncio.start_server(pods.serve, "127.0.0.1", 0)
            servers.append(api)
            write_kubeconfig(folder / "kubeconfig", api.sockets[0].getsockname()[1])
            pool["replicas"] = {"inference_pool": {"name": POOL}}
            config["kubernetes"] = {"kubeconfig": "kubeconfig"}
        path = folder / "penstock.yaml"
        await asyncio.to_thread(path.write_text, json.dumps(config))  # which is YAML, too
        cores = ["taskset", "-c", options.cores] if options.cores else []
        command = [*cores, sys.executable, "-m", "gateway.cli.main", "epp", "--config", str(path)]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                async with asyncio.timeout(60):
                    await _healthy(channel)
                return await _Client(channel, options, process.pid, beginnings).run()
        finally:
            process.send_signal(signal.SIGTERM)
            await process.wait()
            for server in servers:
                server.close()


async def _healthy(channel: grpc.aio.Channel) -> None:
    """Wait until the picker knows its endpoints, as a proxy does by its health; before that it refuses requests."""
    await channel.channel_ready()
    async for told in health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest()):
        if told.status == health_pb2.HealthCheckResponse.SERVING:
            return


class _Client:
    def __init__(
        self,
        channel: grpc.aio.Channel,
        options: argparse.Namespace,
        picker: int,
        beginnings: "Sequence[_Beginning]",
    ) -> None:
        # It sends and receives bytes: what a proxy written in C++ spends on messages is nothing beside this.
        self._process: Any = channel.stream_stream(_METHOD)
        self._options = options
        self._picker = picker
        self._beginnings = beginnings
        self._picks: list[float] = []
        self._late: list[float] = []
        self._failed = 0
        self._paired = 0
        self._streams = asyncio.Semaphore(_MOST_STREAMS)
        self._deepest = 0
        self._open = 0

    async def run(self) -> dict[str, Any]:
        """Send for the time that the options say, each request when it is due."""
        total = round(self._options.rate * self._options.seconds)
        tasks: list[asyncio.Task[None]] = []
        used, began, own = _cpu_seconds(self._picker), time.monotonic(), time.process_time()
        for number in range(total):
            due = began + number / self._options.rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._late.append(time.monotonic() - due)
            await self._streams.acquire()
            tasks.append(asyncio.create_task(self._request(self._beginnings[number % len(self._beginnings)], number)))
        await asyncio.gather(*tasks)
        seconds = time.monotonic() - began
        cores = (_cpu_seconds(self._picker) - used) / seconds
        return {
            "requests": total,
            "failed": self._failed,
            "with_another_for_the_prompt": self._paired,
            "seconds": round(seconds, 2),
            "requests_per_second": round((total - self._failed) / seconds, 1),
            "body_bytes": self._beginnings[0].size,
            "pick_ms": _percentiles(self._picks),
            "client_late_ms": _percentiles(self._late),
            "most_streams_at_once": self._deepest,
            "picker_cores": round(cores, 2),
            "client_cores": round((time.process_time() - own) / seconds, 2),
        }

    async def _request(self, beginning: "_Beginning", number: int) -> None:
        self._open += 1
        self._deepest = max(self._deepest, self._open)
        try:
            async with asyncio.timeout(30):
                await self._exchange(beginning, number)
        except (TimeoutError, grpc.aio.AioRpcError, AssertionError):
            self._failed += 1
        finally:
            self._open -= 1
            self._streams.release()

    async def _exchange(self, beginning: "_Beginning", number: int) -> None:
        call = self._process()
        await call.write(_HEADERS)
        for piece in beginning.pieces:
            await call.write(piece)
        await call.write(beginning.end(number))
        sent = time.monotonic()
        answer = pb.ProcessingResponse.FromString(await call.read())
        self._picks.append(time.monotonic() - sent)
        assert answer.WhichOneof("response") == "request_headers"
        changed = answer.request_headers.response.header_mutation.set_headers
        self._paired += any(one.header.key == PREFILLER for one in changed)
        back = 0
        while back < beginning.size:
            back += len(await call.read())
        await call.write(_RESPONSE_HEADERS)
        await call.read()
        await call.write(_RESPONSE)
        await call.read()
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF


class _Beginning:
    """A conversation so far, as messages; what is asked next comes at the end."""

    def __init__(self, text: str) -> None:
        whole = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "@"}]})
        head, _, self._tail = whole.partition("@")
        body = (head + text).encode()
        last = len(body) // _PIECE * _PIECE
        self.pieces = [_piece(body[at : at + _PIECE], end=False) for at in range(0, last, _PIECE)]
        self._rest = body[last:]
        self.size = len(body)

    def end(self, number: int) -> bytes:
        """The last message of a request."""
        return _piece(self._rest + f" request {number}{self._tail}".encode(), end=True)


def _piece(body: bytes, *, end: bool) -> bytes:
    return pb.ProcessingRequest(request_body=pb.HttpBody(body=body, end_of_stream=end)).SerializeToString()


async def _serve_metrics(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = _SCRAPE if head.startswith(b"GET /metrics") else b'{"data":[]}'
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, OSError):
        writer.close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _cpu_seconds(process: int) -> float:
    """CPU time of a process, by /proc (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds) or [0.0]
    return {
        name: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 2)
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))
    }


if __name__ == "__main__":
    sys.exit(main())
