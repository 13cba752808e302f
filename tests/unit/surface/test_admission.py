"""Admission: nobody is turned away while the loop is in time; load beyond what it can do is (F34)."""

import subprocess
import sys
from collections import Counter

import pytest

from wicket_mcp.surface.admission import FEW, LEAST, MEMORY_SHORT, Admission
from wicket_mcp.telemetry.loop_lag import LoopLag
from wicket_mcp.telemetry.memory import share_used


def measure(lag: LoopLag, seconds: float) -> None:
    lag.latest = seconds
    lag.ticks += 1


def enter(admission: Admission, times: int, principal: str = "a") -> int:
    """How many are admitted."""
    return sum(admission.enter(principal) == 0 for _ in range(times))


def test_f34_nobody_is_turned_away_while_the_loop_keeps_up() -> None:
    lag = LoopLag()
    admission = Admission(lag, most_per_principal=10_000)
    assert enter(admission, 5000) == 5000
    measure(lag, 0.02)
    assert enter(admission, 1000) == 1000


def test_f34_a_late_loop_halves_what_is_at_work_until_it_keeps_up_and_a_few_always_get_in() -> None:
    lag = LoopLag()
    admission = Admission(lag, most_per_principal=10_000)
    enter(admission, 1000)
    measure(lag, 0.5)
    assert enter(admission, 10) == 0
    for _ in range(600):
        admission.leave("a")
    assert enter(admission, 1000) == 100, "half of the thousand"
    for _ in range(500):
        admission.leave("a")
    for _ in range(9):
        measure(lag, 0.5)
        enter(admission, 1)
        admission.leave("a")
    assert enter(admission, 1000) == LEAST
    assert repr(admission) == f"<Admission {LEAST} of {LEAST} at work, {10 + 900 + 1000 - LEAST} rejected>"


def test_f34_the_bound_is_gone_when_the_loop_has_been_in_time_for_a_while() -> None:
    lag = LoopLag()
    admission = Admission(lag)
    enter(admission, LEAST)
    measure(lag, 0.5)
    assert enter(admission, 1) == 0
    for _ in range(20):
        measure(lag, 0.01)
        admission.enter("b")
    assert "of" not in repr(admission).split("at work", maxsplit=1)[0]


@pytest.mark.promise("F34", "Refused clients get spread times to come back, so that few return in each second.")
def test_f34_who_is_turned_away_comes_back_a_few_at_a_time() -> None:
    lag, now = LoopLag(), 1000.0
    admission = Admission(lag, clock=lambda: now)
    enter(admission, LEAST)
    for _ in range(20):  # a thousand are answered in a second
        now += 0.25
        measure(lag, 0.5)
        for _ in range(250):
            admission.leave("a")
            assert admission.enter("a") == 0
    waits = [admission.enter("a") for _ in range(500)]
    assert waits[0] == 1
    assert waits == sorted(waits)
    assert max(Counter(waits).values()) <= 101, "a tenth of the thousand"
    assert max(admission.enter("a") for _ in range(20_000)) == 30
    now += 60
    assert admission.enter("a") == 1


def test_v11_one_principal_has_a_bound_of_its_own() -> None:
    admission = Admission(LoopLag(), most_per_principal=3)
    assert enter(admission, 5, "a") == 3
    assert enter(admission, 5, "b") == 3
    admission.leave("a")
    assert enter(admission, 5, "a") == 1


@pytest.mark.promise("F29", "While memory is short, only a few requests are worked on at once; the others get 503.")
def test_f29_little_is_admitted_while_memory_is_short() -> None:
    lag = LoopLag()
    admission = Admission(lag)
    enter(admission, 100)
    lag.memory = MEMORY_SHORT + 0.01
    measure(lag, 0.0)
    assert enter(admission, 1) == 0
    for _ in range(100):
        admission.leave("a")
    assert enter(admission, 100) == FEW
    lag.memory = 0.5
    for _ in range(40):
        measure(lag, 0.0)
        enter(admission, 0)
        if admission.enter("a") == 0:
            admission.leave("a")
    assert enter(admission, 500) == 500


_NEAR_ITS_LIMIT = """
import resource, sys
from pathlib import Path
from wicket_mcp.telemetry.memory import share_used
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (int(size * 1.02), resource.RLIM_INFINITY))
print(share_used())
"""


@pytest.mark.promise("F29", "Wicket measures the free memory of the process, the container and the machine.")
def test_f29_a_process_near_its_limit_knows_it() -> None:
    done = subprocess.run([sys.executable, "-c", _NEAR_ITS_LIMIT], capture_output=True, text=True, check=True)
    assert float(done.stdout) > MEMORY_SHORT
    assert 0.0 < share_used() < 1.0, "of this machine"
