from loadtest.simulation.simulate import Simulation
from loadtest.simulation.simulated_fleet import Fleet, Pool, PoolShape
from loadtest.simulation.simulated_requests import TimedRequest
from routing.contracts.policy import Report, Stepped
from routing.contracts.policy_settings import PolicySettings
from routing.policies.auto import Auto


class Listening(Auto):
    """Notes by how many steps each report went on, of those with a prompt and of all."""

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings)
        self.steps = 0
        self.prompts: list[int] = []

    def observe(self, report: Report) -> None:
        super().observe(report)
        if isinstance(report, Stepped):
            if report.work.prefill_tokens:
                self.prompts.append(report.view.load.steps - self.steps)
            self.steps = report.view.load.steps


def test_the_step_of_a_prompt_counts_as_one_however_many_follow_until_it_is_reported() -> None:
    policies: list[Listening] = []

    def made() -> Listening:
        policies.append(Listening(PolicySettings()))
        return policies[-1]

    # Nothing happens between the arrivals, so that the steps until the next one are reported together.
    requests = [TimedRequest(10.0 * number, 4000, 200) for number in range(5)]
    fleet = Fleet((Pool("p", PoolShape(tp=2), replicas=1, kv_blocks=4000),))
    outcomes = Simulation(fleet, made, max_tokens=256).run(requests).outcomes
    assert len(outcomes) == 5
    assert policies[0].prompts == [1] * 5
    assert policies[0].steps == 5 * 200
