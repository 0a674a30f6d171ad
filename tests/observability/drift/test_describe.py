from observability.drift.describe import change_of
from observability.drift.features import BY_NAME, length_bin


def test_a_change_in_words() -> None:
    shares = [("en", 0.83, 0.74), ("de", 0.05, 0.15), ("fr", 0.06, 0.06), ("es", 0.06, 0.05)]
    assert change_of(BY_NAME["language"], shares) == "de 5.0 -> 15.0 %, en 83.0 -> 74.0 %, es 6.0 -> 5.0 %"
    assert change_of(BY_NAME["tools"], [("0", 1.0, 0.5), ("2", 0.0, 0.5)]) == (
        "no tools 100.0 -> 50.0 %, 2 or 3 tools 0.0 -> 50.0 %"
    )
    short, long = length_bin(100), length_bin(1000)
    said = change_of(BY_NAME["answer_tokens"], [(short, 0.9, 0.4), (long, 0.1, 0.6)])
    assert said == "median 107 -> 1023 tokens, p95 1023 -> 1023 tokens"
