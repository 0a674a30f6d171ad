from loadtest.simulation.rollouts.rollout_report import HEADER, markdown
from loadtest.simulation.rollouts.rollout_run import RolloutRun
from loadtest.simulation.rollouts.rollout_study import Conditions, study
from loadtest.simulation.rollouts.scenario import Scenario


def test_a_candidate_that_fails_is_rolled_back_for_it_in_its_first_stage() -> None:
    run = RolloutRun(Scenario(name="fails", errors=0.2), "1", rate=10.0, hold=60.0, limit=300).run()
    assert (run.end, run.stage) == ("rolled_back", 0)
    assert "fail" in run.reason or "errors" in run.reason
    assert run.requests < run.all_requests / 4


def test_the_same_seed_is_the_same_run() -> None:
    one, other = (RolloutRun(Scenario(name="slow", slower=3.0), "2", rate=5.0, hold=60.0, limit=120) for _ in range(2))
    assert one.run() == other.run()


def test_a_study_counts_its_runs() -> None:
    scenarios = [Scenario(name="as good")]
    (result,) = study(scenarios, 2, Conditions(rate=5.0, hold=20.0, limit=60, seed=3), processes=1)
    assert result.rolled_back + result.promoted + result.waiting == 1.0
    assert result.good
    table = markdown([result]).splitlines()
    assert table[0].count("|") == len(HEADER) + 1
    assert table[2].startswith("| as good | 2 | 0 % |")
