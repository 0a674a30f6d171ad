import msgspec

from protos.types import Payload, Sampling
from routing.transports.default_sampling import with_defaults
from tests.harness import submit_of

DEFAULTS = Sampling(temperature=0.25, top_k=40)


def body(sent: dict[str, object], path: str = "/chat/completions") -> dict[str, object]:
    payload = Payload(path, msgspec.json.encode(sent), False, False, "m")
    told = with_defaults(submit_of(payload=payload), DEFAULTS).payload
    assert told is not None
    found: dict[str, object] = msgspec.json.decode(told.body)
    return found


def test_an_upstream_is_told_what_its_client_left_out() -> None:
    assert body({"model": "m"}) == {"model": "m", "temperature": 0.25, "top_k": 40}
    assert body({"temperature": 1, "top_k": None}) == {"temperature": 1, "top_k": 40}
    assert body({"input": "x"}, "/embeddings") == {"input": "x"}


def test_a_body_that_cannot_be_read_stays_as_it_is() -> None:
    payload = Payload("/completions", b"[", False, False, "m")
    assert with_defaults(submit_of(payload=payload), DEFAULTS).payload == payload


def test_parameters_of_the_request_win() -> None:
    sampling = with_defaults(submit_of(top_k=3, seed=5), DEFAULTS).sampling
    assert (sampling.temperature, sampling.top_k, sampling.seed) == (0.25, 3, 5)
