from pathlib import Path

import pytest

from loadtest.cost.wire import ROUND_TRIPS, SCRIPTS, missing, replica_counts, store_counts

_INFO = (
    "# Stats\r\ntotal_commands_processed:50\r\ntotal_net_input_bytes:1000\r\ntotal_net_output_bytes:2000\r\n"
    "total_reads_processed:40\r\n# Commandstats\r\ncmdstat_evalsha:calls=12,usec=3,usec_per_call=1.0\r\n"
)
# A socket of another process, one of the worker to another peer, and two to replicas, as `ss -tinpHO` prints them.
_SOCKETS = """\
ESTAB 0 0 127.0.0.1:50000 127.0.0.1:9051 users:(("python",pid=7,fd=10)) cubic bytes_sent:900 bytes_received:900
ESTAB 0 0 127.0.0.1:50001 127.0.0.1:6379 users:(("python",pid=42,fd=11)) cubic bytes_sent:800 bytes_received:800
ESTAB 0 0 127.0.0.1:50002 127.0.0.1:9051 users:(("python",pid=42,fd=12)) rto:2 bytes_sent:70 bytes_received:8
ESTAB 0 0 [::1]:50003 [::1]:9052 users:(("python",pid=42,fd=13)) cubic bytes_sent:5
"""


def test_the_stores_counts_are_read_out_of_its_info() -> None:
    found = store_counts(_INFO)
    assert found == {ROUND_TRIPS: 40, SCRIPTS: 12, "bytes to store": 1000, "bytes from store": 2000}


def test_a_store_that_ran_no_script_has_none() -> None:
    assert store_counts("")[SCRIPTS] == 0


def test_only_the_workers_connections_to_replicas_are_counted() -> None:
    assert replica_counts(_SOCKETS, 42, (9051, 9052)) == {"bytes to replicas": 75, "bytes from replicas": 8}
    assert replica_counts("", 42, (9051,)) == {"bytes to replicas": 0, "bytes from replicas": 0}


def test_without_ss_it_is_said_what_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing() == "bytes to and from replicas: there is no `ss` (iproute2)"
