"""Half a minute of real brokers under load, while something goes wrong."""

from __future__ import annotations

import tempfile
from pathlib import Path

import psutil
import pytest

from gravitate.errors import EnvironmentLack, InputError
from gravitate.torture import brokers, faults, run
from gravitate.torture.brokers import Brokers
from gravitate.torture.faults import FAULTS
from gravitate.torture.ledger import STAYING, VISITING, Role
from gravitate.torture.run import Report, Settings, clients_of, moved_of, torture
from gravitate.torture.scene import Scene
from tests.torture.scenes import LINE


def told(report: Report) -> str:
    return "\n".join(
        (
            f"seed {report.settings.seed}: {report.judgement}",
            *report.brokers_ended,
            *report.errors_logged,
            *report.problems,
            *report.judgement.examples,
        )
    )


def nothing_is_amiss(report: Report) -> bool:
    """But for how long anybody was silent: a busy machine may make that long."""
    judgement = report.judgement
    counted = judgement.lost, judgement.doubled, judgement.reordered, judgement.closed_without_cause
    return counted == (0, 0, 0, 0) and not report.brokers_ended and not report.errors_logged


def test_a_rolling_restart_under_load_costs_nobody_anything() -> None:
    """Whatever is published while a subscriber's own broker is up and ready, it gets."""
    report = torture(
        Settings("restart", brokers=3, minutes=0.25, publishers=2, moved_share=0.0, rate_per_s=40.0)
    )
    assert nothing_is_amiss(report), told(report)
    assert report.faults >= 2
    assert report.judgement.owed > 0


def test_a_crash_costs_what_only_the_crashed_broker_had() -> None:
    report = torture(Settings("kill", brokers=3, minutes=0.25, moved_share=0.5))
    assert nothing_is_amiss(report), told(report)
    assert report.faults >= 1
    assert report.judgement.owed > 0


@pytest.mark.slow
@pytest.mark.processor_time(400)
def test_a_rolling_restart_of_seven_brokers_under_load_costs_nobody_anything() -> None:
    report = torture(
        Settings("restart", brokers=7, minutes=1.0, publishers=10, moved_share=0.0, rate_per_s=40.0)
    )
    assert report.is_kept, told(report)
    assert report.faults >= 7


def test_a_broker_that_ends_by_itself_is_told_and_the_logs_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def one_ends(scene: Scene, until: float) -> None:
        (b01,) = [one for one in psutil.Process().children() if one.cmdline()[-1:] == ["b01"]]
        b01.kill()
        await faults.kill(scene, until)

    monkeypatch.setitem(FAULTS, "kill", one_ends)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # Nobody comes to be ready any more, or can hand on everything before it stops.
    monkeypatch.setattr(faults, "EXCUSE_S_MAX", 1.0)
    monkeypatch.setattr(run, "MEND_S_MAX", 1.0)
    monkeypatch.setattr(run, "DRAIN_S_MAX", 1.0)
    monkeypatch.setattr(brokers, "STOP_S_MAX", 1.0)
    report = torture(Settings("kill", brokers=3, minutes=0.05, moved_share=0.0))
    assert not report.is_kept
    assert report.brokers_ended[0] == "b01 ended by itself with status -9"
    assert report.problems == ["not everybody was back 1 s after the last fault"]
    assert {path.name for path in Path(report.logs).glob("*.log")} == {
        f"{id}.log" for id in report.memory
    }


def test_a_run_without_a_report_says_where_the_logs_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def in_vain(_: Brokers) -> bool:
        return False

    monkeypatch.setattr(Brokers, "start", in_vain)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(EnvironmentLack, match="brokers did not come to be ready") as caught:
        torture(Settings("kill", brokers=2))
    (directory,) = tmp_path.iterdir()
    assert caught.value.__notes__ == [f"logs of the brokers: {directory}"]


def test_what_goes_wrong_is_known_or_refused() -> None:
    with pytest.raises(InputError, match="unknown fault 'flood': write one of restart, kill"):
        torture(Settings("flood"))
    with pytest.raises(InputError, match="1 brokers have no links: write a number from 2"):
        torture(Settings("kill", brokers=1))


def test_there_are_publishers_and_subscribers_at_each_broker() -> None:
    specs = clients_of(Settings("kill"), LINE)
    for role in Role:
        homes = [spec.home for spec in specs if spec.role is role]
        assert sorted(homes) == sorted(2 * [spec.id for spec in LINE.brokers])
    for lanes in (STAYING, VISITING):
        homes = [spec.home for spec in specs if spec.lanes == lanes]
        assert sorted(homes) == [spec.id for spec in LINE.brokers]


def test_the_seed_says_who_is_moved() -> None:
    settings = Settings("kill", seed=7, moved_share=0.5)
    specs = clients_of(settings, LINE)
    moved = moved_of(settings, specs)
    assert moved == moved_of(settings, specs)
    assert len(moved) == len(specs) // 2
    assert {spec.role for spec in moved} == set(Role)
    assert moved_of(Settings("kill", moved_share=0.0), specs) == []
