"""A problem on which Gr* is worse than the best by as much as is asked for."""

from __future__ import annotations

import numpy as np

from gravitate.plan.assignment.problem.problem import Problem, network_of, problem_of

THIN = 1e-3


def trap(worse: float, each: int = 5) -> Problem:
    """Three leaves with one box each, and four kinds of subscribers, `each` of a kind.

    Interests are thin upright strips: *left* at 0 and *right* at 1; *far* by `worse` further;
    *captive* on the other side, twice as far. Left and right can go to leaves 0 and 1, far to
    all, captives to leaf 2. Gr* takes those with fewer candidates first, so left and
    right are put in a leaf each, which costs a strip each; then far has to widen a filter over
    `worse`. Best are left and right together and far alone: 1 and two strips."""
    corner = np.sqrt(3.0)
    network = network_of([0.0, corner / 3], [[-1, 0], [1, 0], [0, corner]], complexity=1)
    places = [[0.0, 0.0], [0.0, 0.0], [0.0, corner / 3], [0.0, corner]]
    starts = [0.0, 1.0 - THIN, 1.0 + worse, -2.0 * worse]
    interests = [[[start, 0.0], [start + THIN, 1.0]] for start in starts]
    return problem_of(
        network,
        np.repeat(places, each, axis=0),
        np.repeat(interests, each, axis=0),
        delay_max=0.2,
        beta=1.6,
        beta_max=1.8,
    )


BEST = 1.0 + 2.0 * THIN
