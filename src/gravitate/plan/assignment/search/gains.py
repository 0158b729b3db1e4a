"""Which moves of subscribers are worth making, by what recorded events really do.

    after, gains = worthwhile(home, target, events, Limits(capacity, candidates))

An assignment is chosen by boxes, which only approximate what filters let pass, with one root for
all events, and it does not know where subscribers are now. So it is held against the recorded
events, which tell exactly how many links are crossed with subscribers here or there:

1. moves without which no more links are crossed are given up, all at once, and the rest is asked
   again, until nothing changes;
2. subscribers go one step further where that saves links: in every round those that save most
   first, as far as there is room, and only as many as lower the total together;
3. the first step once more.

Bounds come first. Nobody goes where it is no candidate, or where there is no room. A broker that
has more than its capacity is relieved as far as the assignment relieves it, even where that costs
links: those go whose going costs least. For no other reason does the result cross more links than
before; when nothing better is found, nobody moves.

Owns that choice. It knows neither filters nor how links are counted.
"""

from __future__ import annotations

from typing import Annotated, Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from gravitate.plan.assignment.problem.problem import Floats, Ints, Longs
from gravitate.plan.assignment.problem.room import Room

ROUNDS_MAX: Final = 8
"""Each round is a pass over the recorded events, or a few."""

Bools = NDArray[np.bool_]


class Gains(msgspec.Struct, frozen=True, eq=False):
    """What some moves change, in links crossed by the recorded events."""

    before: float
    after: float
    alone: Floats
    """For each subscriber, fewer when it alone moves."""
    joint: Floats
    """For each subscriber, more when all move and it alone stays."""


class Candidates(msgspec.Struct, frozen=True, eq=False):
    """Who may go elsewhere, and where to."""

    subscriber: Longs
    table: Bools
    """(those subscribers, brokers)"""


class Events(Protocol):
    """Recorded events, as far as they are asked here."""

    def gains(self, home: Ints, target: Ints) -> Gains:
        """What changes from `home` to `target`."""
        ...

    def savings(self, home: Ints, candidates: Candidates) -> Floats:
        """(those that may go elsewhere, brokers): by how many fewer links are crossed when one
        subscriber alone goes from home to a broker; 0 where that is no candidate."""
        ...


class Limits(msgspec.Struct, frozen=True, eq=False):
    """What moves must keep to."""

    capacity: Longs
    """How many subscribers each broker may have."""
    candidates: Candidates | None = None
    """None: nobody goes anywhere but to where it was chosen for."""
    is_counted: Bools | None = None
    """Who counts against capacities; None: everybody."""
    moves_max: int | None = None
    rounds: Annotated[int, msgspec.Meta(ge=0)] = ROUNDS_MAX
    """Of the second step."""


def worthwhile(home: Ints, target: Ints, events: Events, limits: Limits) -> tuple[Ints, Gains]:
    """Where subscribers should be, given where an assignment would have them, and the gains.

    With `moves_max` those moves are made without which most would be crossed."""
    room = Room(home, limits.capacity, limits.is_counted)
    after, gains = _start(home, target, events, room)
    if limits.candidates is not None and limits.rounds:
        after = _refined(home, after, gains, events, room, limits)
        after, gains = _without_idle_moves(home, after, events.gains(home, after), events, room)
    if limits.moves_max is not None and (after != home).sum() > limits.moves_max:
        after = room.best(after, gains.joint, limits.moves_max)
        after, gains = _without_idle_moves(home, after, events.gains(home, after), events, room)
        if gains.after > gains.before and room.excess(after) >= room.excess(home):
            return home.copy(), _nothing(gains)
    return after, gains


def _start(home: Ints, target: Ints, events: Events, room: Room) -> tuple[Ints, Gains]:
    """What of the chosen places is worth while; if nothing is in all, then of those that are for
    their subscriber alone; if nothing is again, home. Where brokers have too many the start that
    leaves the fewest of them, and of several the first that crosses no more links than before."""
    found = events.gains(home, target)
    on_their_own = np.where(found.alone > 0, target, home)
    tried = []
    for start, worth in ((target, found.joint), (on_their_own, found.alone), (home, found.alone)):
        after = room.relieved(room.kept(start, worth), target, worth)
        if (after == home).all():
            gains = _nothing(found)
        else:
            gains = found if (after == target).all() else events.gains(home, after)
            after, gains = _without_idle_moves(home, after, gains, events, room)
        if gains.after <= gains.before and not room.excess(after):
            return after, gains
        tried.append((after, gains))
    return min(tried, key=lambda it: (room.excess(it[0]), max(it[1].after, it[1].before)))


def _nothing(gains: Gains) -> Gains:
    """The gains of not moving."""
    zeros = np.zeros(len(gains.alone))
    return Gains(gains.before, gains.before, zeros, zeros)


def _without_idle_moves(
    home: Ints, after: Ints, gains: Gains, events: Events, room: Room
) -> tuple[Ints, Gains]:
    """As many of the moves to `after` as bring something, given their gains."""
    for _ in range(ROUNDS_MAX):
        idle = np.flatnonzero((after != home) & (gains.joint <= 0))
        back = room.back(after, idle[np.argsort(gains.joint[idle], kind="stable")])
        if (back == after).all():
            break
        trial = events.gains(home, back)
        if trial.after > gains.after:
            break
        after, gains = back, trial
    return after, gains


def _refined(
    home: Ints, start: Ints, gains: Gains, events: Events, room: Room, limits: Limits
) -> Ints:
    """Places from which no single move that is allowed saves a link, or as near to that as the
    rounds allow."""
    assert limits.candidates is not None, "only where somebody may go elsewhere"
    here, crossed = start, gains.after
    for _ in range(limits.rounds):
        savings = events.savings(here, limits.candidates)
        steps = room.steps(here, limits.candidates.subscriber, savings)
        # Each step saves by itself; together they may get in each other's way.
        while len(steps):
            there = here.copy()
            there[steps[:, 0]] = steps[:, 1]
            found = events.gains(home, there).after
            if found < crossed:
                here, crossed = there, found
                break
            steps = steps[: len(steps) // 2]
        else:
            break
    return here
