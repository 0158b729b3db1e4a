"""Where the clients of a plan stand in a running network, and where the plan has them."""

from __future__ import annotations

from collections.abc import Sequence

from gravitate.config.network import Network
from gravitate.config.plan import Plan
from gravitate.model.moves import ClientMove, ReassignSubscriber, RelocatePublisher, client_of
from gravitate.operate import asking


def found(plan: Plan, network: Network) -> tuple[dict[str, str], set[str]]:
    """Moves whose client is not where the plan has it, as `misplaced`, and those whose client is
    where the plan brings it; once the moves of these clients that are under way have ended."""
    asking.wait_for_moves(network, {client_of(it) for it in client_moves(plan)})
    told = asking.places(network)
    elsewhere, arrived = misplaced(plan, *told), in_place(plan, told[0])
    if any(isinstance(move, ReassignSubscriber) for move in plan.moves):
        told = asking.places(network, asking.SUBSCRIBERS)
        elsewhere |= misplaced(plan, *told, kind=ReassignSubscriber)
        arrived |= in_place(plan, told[0], kind=ReassignSubscriber)
    return elsewhere, arrived


def misplaced(
    plan: Plan,
    places: dict[str, str],
    untold: Sequence[str],
    kind: type[ClientMove] = RelocatePublisher,
) -> dict[str, str]:
    """Moves of a kind whose client is not where the plan has it, each with a sentence; and moves
    that no broker carries out."""
    found = {}
    for move in plan.moves:
        if not isinstance(move, ClientMove):
            found[move.id] = f"move '{move.id}' is of no client: it cannot be carried out yet"
        elif not isinstance(move, kind) or move.source in untold:
            # What cannot be known before is left to the broker, which refuses what it has not.
            continue
        elif (at := places.get(client_of(move))) != move.source:
            nowhere = "at no broker that tells" if untold else "not connected"
            where = f"at {at}" if at else nowhere
            who = "publisher" if isinstance(move, RelocatePublisher) else "subscriber"
            found[move.id] = (
                f"{who} '{client_of(move)}' is {where}, the plan has it at {move.source}"
            )
    return found


def in_place(
    plan: Plan, places: dict[str, str], kind: type[ClientMove] = RelocatePublisher
) -> set[str]:
    """Moves of a kind whose client is where the plan brings it."""
    return {
        move.id
        for move in client_moves(plan)
        if isinstance(move, kind) and places.get(client_of(move)) == move.target
    }


def client_moves(plan: Plan) -> list[ClientMove]:
    """The moves of a plan that are about clients."""
    return [move for move in plan.moves if isinstance(move, ClientMove)]
