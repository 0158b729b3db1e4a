"""The client's half of a session, without a broker: what it wants done upon what it is told."""

from __future__ import annotations

from typing import Any

import pytest

from gravitate.client.core import (
    Alarm,
    Changed,
    Core,
    Dial,
    Effect,
    Failed,
    HangUp,
    Note,
    Policy,
    Say,
)
from gravitate.client.outgoing import Publication
from gravitate.client.states import MACHINE, State
from gravitate.wire.mqtt.codes import ReasonCode

A_CORE = Core[str, str, str, str]


def a_core(**policy: Any) -> A_CORE:
    return Core("home", Policy(retry_s=(1.0, 5.0), **policy), lambda: 1.0)


def said(effects: list[Effect]) -> list[object]:
    """What is written, publications by what they are about."""
    words = [word for one in effects if isinstance(one, Say) for word in one.words]
    return [word.body if isinstance(word, Publication) else word for word in words]


def dialled(effects: list[Effect]) -> tuple[str, float, str]:
    (dial,) = (one for one in effects if isinstance(one, Dial))
    return dial.place, dial.after_s, dial.continues


def published(core: A_CORE, *bodies: str, qos: int = 0) -> list[str]:
    for body in bodies:
        core.publish(body, qos)
    return [one.body for one in core.due()]


def at_home(core: A_CORE) -> A_CORE:
    core.start()
    core.opened(core.connection)
    core.attached(core.connection)
    assert core.state is State.AT_HOME
    return core


def a_core_in(state: State) -> A_CORE:
    """By the shortest way."""
    core = a_core()
    if state is State.OFFLINE:
        return core
    core.start()
    if state is State.CONNECTING:
        return core
    core.opened(core.connection)
    if state is State.JOINING:
        return core
    core.attached(core.connection)
    if state is State.AT_HOME:
        return core
    core.redirected(core.connection)
    if state is State.PAUSED:
        return core
    core.moved(core.connection, "target")
    if state is State.ARRIVING:
        core.opened(core.connection)
    elif state is State.RETURNING:
        core.lost(core.connection, None)
    return core


# --- the table ----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", State)
def test_every_state_is_reached_and_can_be_left(state: State) -> None:
    core = a_core_in(state)
    assert core.state is state
    assert any(row.state is state and row.to is not state for row in MACHINE.rows)


@pytest.mark.parametrize("row", [row for row in MACHINE.rows if row.state is not None])
def test_every_row_is_gone_and_what_it_does_exists(row: Any) -> None:
    core = a_core_in(row.state)
    about = ("target",) if row.event == "moved" else ()
    effects = core._step(row.event, core.connection, *about)
    assert core.state is row.to
    assert effects[-1] == Changed(row.state, row.to)


@pytest.mark.parametrize("state", State)
def test_it_stops_wherever_it_is(state: State) -> None:
    core = a_core_in(state)
    core.stop()
    assert core.state is State.OFFLINE
    assert not core.lost(core.connection, None)


@pytest.mark.parametrize("state", State)
def test_what_is_told_of_an_earlier_connection_changes_nothing(state: State) -> None:
    core = a_core_in(state)
    before = core.connection - 1
    for told in (core.opened, core.attached, core.redirected, core.stay, core.late):
        assert told(before) == []
    assert core.lost(before, None) == core.moved(before, "elsewhere") == []
    assert core.acknowledged(before, 1) is None
    assert core.state is state


@pytest.mark.parametrize("state", State)
def test_a_client_that_has_paused_or_gone_does_not_answer(state: State) -> None:
    core = a_core_in(state)
    answers = state in (State.JOINING, State.AT_HOME, State.ARRIVING)
    assert core.may_answer(core.connection) == answers
    assert not core.may_answer(core.connection - 1)


# --- connections --------------------------------------------------------------------------------


def test_everything_that_is_meant_is_said_on_every_connection() -> None:
    core = at_home(a_core())
    assert said(core.want(core.subscriptions, "s", "subscribe s")) == ["subscribe s"]
    core.want(core.advertisements, "a", "advertise a")
    core.want(core.subscriptions, "t", "subscribe t")
    assert said(core.drop(core.subscriptions, "t", "unsubscribe t")) == ["unsubscribe t"]
    assert published(core, "one", qos=1) == ["one"]
    assert published(core, "two", qos=0) == ["two"]
    assert dialled(core.lost(core.connection, None)) == ("home", 1.0, "")
    assert said(core.opened(core.connection)) == ["advertise a", "subscribe s", "one", "two"]
    assert core.acknowledged(core.connection, 1) is not None
    core.lost(core.connection, None)
    assert said(core.opened(core.connection)) == ["advertise a", "subscribe s"]
    assert core.connects == 3


def test_pauses_grow_and_places_that_were_good_before_are_tried_in_the_end() -> None:
    core = at_home(a_core(loyalty=3))
    core.redirected(core.connection)
    core.moved(core.connection, "target")
    core.opened(core.connection)
    core.attached(core.connection)
    assert (core.place, core.moves) == ("target", 1)
    tried = [dialled(core.lost(core.connection, None)) for _ in range(6)]
    assert [place for place, _, _ in tried] == ["target"] * 3 + ["home", "target", "home"]
    assert [after_s for _, after_s, _ in tried] == [1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    assert core.start("elsewhere") == []


def test_a_refusal_for_good_is_the_end_where_it_belongs() -> None:
    core = at_home(a_core())
    effects = core.lost(core.connection, ReasonCode.SESSION_TAKEN_OVER)
    assert [type(one) for one in effects] == [Failed, Changed]
    core = at_home(a_core())
    core.moved(core.connection, "target")
    effects = core.lost(core.connection, ReasonCode.NOT_AUTHORIZED)
    assert core.state is State.RETURNING
    assert dialled(effects) == ("home", 0.0, "")


# --- moves --------------------------------------------------------------------------------------


def test_a_paused_client_keeps_what_it_publishes_and_says_it_when_it_may_stay() -> None:
    core = at_home(a_core())
    assert published(core, "before") == ["before"]
    assert said(core.redirected(core.connection)) == [Note.PAUSED]
    assert not core.asks
    assert core.takes
    assert published(core, "one", "two") == []
    assert said(core.stay(core.connection)) == ["one", "two"]
    assert len(core.outgoing) == 0
    core.lost(core.connection, None)
    assert said(core.opened(core.connection)) == []


def test_one_that_moves_says_all_again_and_keeps_it_until_it_is_attached() -> None:
    core = at_home(a_core(move_s_max=7.0))
    core.want(core.subscriptions, "s", "subscribe s")
    core.redirected(core.connection)
    published(core, "one")
    dial, alarm, _ = core.moved(core.connection, "target")
    assert dial == Dial(core.connection, "target", 0.0, "moved")
    assert alarm == Alarm(core.connection, 7.0)
    published(core, "two")
    assert said(core.opened(core.connection)) == ["subscribe s", "one", "two"]
    assert published(core, "three") == ["three"]
    assert len(core.outgoing) == 3
    assert said(core.attached(core.connection)) == [Note.ARRIVED]
    assert len(core.outgoing) == 0
    assert core.late(core.connection) == []


@pytest.mark.parametrize("how", ["late", "lost", "moved"])
def test_one_that_is_not_attached_goes_back_under_a_greater_number(how: str) -> None:
    core = at_home(a_core())
    core.want(core.subscriptions, "s", "subscribe s")
    core.moved(core.connection, "target")
    core.opened(core.connection)
    published(core, "one")
    number = core.connection
    told: list[Effect] = {
        "late": lambda: core.late(number),
        "lost": lambda: core.lost(number, None),
        "moved": lambda: core.moved(number, "further"),
    }[how]()
    assert told[0] == HangUp()
    assert dialled(told) == ("home", 0.0, "back")
    assert core.connection > number
    again = core.lost(core.connection, None)
    assert dialled(again) == ("home", 1.0, "back")
    assert said(core.opened(core.connection)) == ["subscribe s", "one"]
    assert said(core.attached(core.connection)) == [Note.ARRIVED]
    assert (core.state, core.moves, core.connects) == (State.AT_HOME, 0, 1)


def test_one_that_is_sent_nobody_knows_where_comes_back() -> None:
    core = at_home(a_core())
    effects = core.moved(core.connection, None)
    assert dialled(effects) == ("home", 0.0, "")
    assert effects[-1] == Changed(State.AT_HOME, State.RETURNING)
    assert core.state is State.RETURNING
    assert core.takes


def test_one_that_does_not_follow_stays() -> None:
    core = at_home(a_core(follow=False))
    assert core.redirected(core.connection) == []
    assert dialled(core.moved(core.connection, "target")) == ("home", 1.0, "")
