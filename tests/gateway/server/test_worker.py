import pickle
from functools import partial

from gateway.server.worker import WorkerLoader, load_worker
from tests.asgi import config_of


def test_a_worker_is_sent_the_configuration_of_the_moment_it_is_started() -> None:
    in_use = [config_of("redis://127.0.0.1:1", ["unix:/one"])]
    loader = WorkerLoader(lambda: in_use[-1], "/run/supervisor.sock")
    for address in ("unix:/two", "unix:/three"):
        in_use.append(config_of("redis://127.0.0.1:1", [address]))
        sent = pickle.loads(pickle.dumps(loader))
        assert isinstance(sent, partial)
        assert (sent.func, sent.args) == (load_worker, (in_use[-1], "/run/supervisor.sock"))
