"""The learning rate rises and falls as the curves say, and bends when the plan changes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.options import ScheduleKind
from glassformer.tasks.recipe import DecidedTraining, Replan
from glassformer.training.optimizer_and_schedule import rate_of

KINDS: list[ScheduleKind] = ["cosine", "linear", "wsd", "noam", "constant"]


def planned(
    kind: ScheduleKind, warmup: int = 4, steps: int = 25, lowest: float = 0.1
) -> DecidedTraining:
    return DecidedTraining(
        lr_scheduler_type=kind,
        warmup_steps=warmup,
        max_steps=steps,
        min_lr_rate=lowest,
        per_device_train_batch_size=1,
        optimizer="adamw",
        learning_rate=1.0,
        weight_decay=0.0,
        ema=0.0,
        eval_steps=1,
        save_steps=1,
    )


def replanned(config: DecidedTraining, step: int, steps: int, warmup: int = 4) -> DecidedTraining:
    plan = Replan(step=step, max_steps=steps, warmup_steps=warmup, eval_steps=1, save_steps=1)
    return config.model_copy(update={"replans": (*config.replans, plan)})


def rates(config: DecidedTraining) -> list[float]:
    return [rate_of(config, step) for step in range(config.last_step)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_rate_rises_in_a_line_and_never_starts_at_zero(kind: ScheduleKind) -> None:
    assert rates(planned(kind))[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


@pytest.mark.parametrize("kind", KINDS)
def test_without_warm_up_the_first_step_has_the_full_rate(kind: ScheduleKind) -> None:
    assert rates(planned(kind, warmup=0))[0] == pytest.approx(1.0)


@pytest.mark.parametrize("kind", KINDS[:2])
def test_the_step_after_the_last_would_have_the_lowest_rate(kind: ScheduleKind) -> None:
    config = planned(kind, steps=24)
    falling = rates(config)[4:]
    assert falling == sorted(falling, reverse=True)
    assert (falling[0], falling[10]) == pytest.approx((1.0, 0.55))
    assert falling[19] > 0.1
    assert rate_of(config, 24) == rate_of(config, 1000) == pytest.approx(0.1)


def test_a_cosine_stays_high_longer_than_a_line_and_low_longer_too() -> None:
    cosine, line = rates(planned("cosine", steps=24)), rates(planned("linear", steps=24))
    assert cosine[9] == pytest.approx(0.1 + 0.9 * (1 + 0.5**0.5) / 2)
    assert cosine[9] > line[9]
    assert cosine[19] < line[19]


def test_wsd_stays_and_then_falls_in_a_line() -> None:
    falling = rates(planned("wsd", steps=24))[4:]
    assert falling[:13] == pytest.approx([1.0] * 13)
    assert (falling[16], falling[18]) == pytest.approx((0.55, 0.325))


def test_noam_falls_with_the_root_of_the_step() -> None:
    expected = [(5 / step) ** 0.5 for step in range(5, 26)]
    assert rates(planned("noam"))[4:] == pytest.approx(expected)


def test_a_constant_rate_stays() -> None:
    assert rates(planned("constant"))[4:] == pytest.approx([1.0] * 21)


@given(
    st.sampled_from(KINDS),
    st.integers(0, 9),
    st.integers(1, 12),
    st.floats(0, 1),
    st.integers(0, 30),
)
def test_every_rate_is_above_zero_and_at_most_one(
    kind: ScheduleKind, warmup: int, steps: int, lowest: float, step: int
) -> None:
    rate = rate_of(planned(kind, warmup, steps, lowest), step)
    assert 0 <= rate <= 1 + 1e-12
    if step < steps:
        assert rate > 0


# --- when the plan changes ---


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_that_says_the_same_changes_nothing(kind: ScheduleKind) -> None:
    config = planned(kind, steps=40)
    assert rates(replanned(config, 20, 40)) == pytest.approx(rates(config))


@pytest.mark.parametrize("kind", ["cosine", "linear", "wsd"])
@pytest.mark.parametrize("steps", [30, 200])
def test_the_fall_bends_without_a_jump_and_still_ends_at_the_lowest(
    kind: ScheduleKind, steps: int
) -> None:
    config = planned(kind, steps=100)
    bent = rates(replanned(config, 25, steps))
    assert bent[:25] == rates(config)[:25]  # what has been trained stays true
    falls = [before - after for before, after in pairwise(bent[4:])]
    slopes = falls[19], falls[21]  # before and after the plan's step, where the curve bends
    assert 0.95 * min(slopes) <= falls[20] <= 1.05 * max(slopes)
    assert bent[4:] == sorted(bent[4:], reverse=True)
    assert rate_of(replanned(config, 25, steps), steps) == pytest.approx(0.1)


def test_a_rise_that_is_cut_short_makes_no_jump() -> None:
    config = replanned(planned("linear", warmup=100, steps=1000), 50, 60, warmup=6)
    rising = rates(config)[:54]
    assert rising == sorted(rising)
    assert max(after - before for before, after in pairwise(rising)) < 0.2
    assert max(rising) == pytest.approx(1.0)


def test_noam_falls_from_where_its_rise_ended() -> None:
    config = replanned(planned("noam", warmup=100, steps=1000), 10, 60, warmup=6)
    falling = rates(config)
    assert falling.index(max(falling)) < 20
    assert falling[-1] < 0.6


def test_the_rise_goes_on_from_where_it_was() -> None:
    config = replanned(planned("linear", warmup=100, steps=1000), 10, 100, warmup=20)
    rising = rates(config)[:29]  # nine tenths of the new warm-up
    assert rising == sorted(rising)
    assert rising[9] < 0.11
    assert rising[28] == pytest.approx(1.0)


def test_plans_may_change_several_times() -> None:
    config = planned("linear", steps=100, lowest=0.0)
    for step, steps in ((10, 400), (50, 80), (70, 90), (85, 86)):
        config = replanned(config, step, steps)
    falling = rates(config)[4:]
    assert falling == sorted(falling, reverse=True)
    assert 0 < falling[-1] < 0.7
