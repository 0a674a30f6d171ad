from routing.health.refusals import (
    CLEAR_REFUSALS,
    FUNDS_SECONDS,
    LONGEST_FUNDS_SECONDS,
    ROW_SECONDS,
    UNCLEAR_REQUESTS,
    FundsBackOff,
    RefusalProof,
)


def test_refusals_of_the_key_are_proof_when_repeated_without_an_answer() -> None:
    proof = RefusalProof()
    for _ in range(3):
        assert not any(proof.noted(1.0, "t", 1, clear=True) for _ in range(CLEAR_REFUSALS - 1))
        proof.answered()
    assert [proof.noted(1.0, "t", 1, clear=True) for _ in range(CLEAR_REFUSALS)][-1]
    # What is proven stays so until it answers.
    assert proof.noted(1.0 + 2 * ROW_SECONDS, "t", 1, clear=False)


def test_unclear_refusals_need_different_requests_of_several_tenants() -> None:
    same, one_tenant, several = RefusalProof(), RefusalProof(), RefusalProof()
    assert not any(same.noted(1.0, str(n % 2), n % 2, clear=False) for n in range(50))
    assert not any(one_tenant.noted(1.0, "t", n, clear=False) for n in range(50))
    found = [several.noted(1.0, str(n % 2), n, clear=False) for n in range(UNCLEAR_REQUESTS)]
    assert found == [False] * (UNCLEAR_REQUESTS - 1) + [True]


def test_refusals_far_apart_are_no_row() -> None:
    proof = RefusalProof()
    assert not any(proof.noted(n * ROW_SECONDS, "t", n, clear=True) for n in range(10))


def test_an_account_that_cannot_pay_is_asked_less_and_less_often() -> None:
    funds, now, waits = FundsBackOff(), 0.0, []
    for _ in range(6):
        waits.append(funds.noted(now, 0.0))
        # Requests under way say the same again.
        assert funds.noted(now + 1.0, 0.0) == waits[-1] - 1.0
        now += waits[-1]
    assert waits == [FUNDS_SECONDS, 120.0, 240.0, 480.0, LONGEST_FUNDS_SECONDS, LONGEST_FUNDS_SECONDS]
    funds.paid()
    assert funds.noted(now, 90.0) == 90.0
