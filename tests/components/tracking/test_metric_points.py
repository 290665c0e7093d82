from components.tracking.metric_points import read_evaluation_points, read_evaluation_rows, read_iteration_points
from tests.components.tracking.reports import evaluation, iteration


def test_a_step_shows_its_metrics_and_its_timings() -> None:
    assert read_iteration_points(iteration("r", 7)) == {
        "rollout/success_rate": 0.07,
        "reward/plan_agent/mean": 9.0,
        "time/update_policy_seconds": 0.5,
        "time/step_seconds": 0.5,
    }


def test_the_rows_of_an_evaluation_are_its_problems() -> None:
    rows = read_evaluation_rows(evaluation(3))
    assert len(rows["problem"]) == len(set(map(str, rows["problem"]))) == 40
    assert sum(map(bool, rows["solved"])) == 30


def test_an_evaluation_is_named_by_its_sampling_and_leaves_out_what_did_not_occur() -> None:
    assert read_evaluation_points(evaluation(3)) == {
        "eval/greedy/num_generated_tokens": 800.0,
        "eval/greedy/n": 40.0,
        "eval/greedy/num_successes": 30.0,
        "eval/greedy_success_rate": 0.75,
        "eval/greedy/interval_low": 0.598,
        "eval/greedy/interval_high": 0.858,
        "eval/greedy/mean_reward": 1.25,
        "eval/greedy/keep_rate": 1.0,
    }
