"""Plan files: what they say comes back, what is wrong is named, and done can be undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.plans import LINE, WHY, plan, relocation

from gravitate.config import network as network_file
from gravitate.config.network import Address, BrokerSpec, LinkSpec, Network
from gravitate.config.plan import (
    differences,
    digest_of,
    load,
    save,
    undo_path,
    undoing,
)
from gravitate.errors import FileError, GravitateError
from gravitate.model.moves import OpenLink


def test_a_plan_that_was_written_is_read_again(tmp_path: Path) -> None:
    made = plan()
    save(made, tmp_path / "plan.json")
    assert load(tmp_path / "plan.json") == made
    assert made.network_planned() == LINE
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_ids_follow_from_what_is_to_be_done() -> None:
    assert plan() == plan()
    assert [move.id for move in plan().moves] == [f"{plan().id}-1", f"{plan().id}-2"]
    assert plan().id != plan(relocation("p", "a", "b")).id
    assert plan().id.startswith("publishers-")


def replaced(change: tuple[str, ...], value: Any) -> bytes:
    told = msgspec.to_builtins(plan())
    part = told
    for key in change[:-1]:
        part = part[int(key)] if isinstance(part, list | tuple) else part[key]
    part[change[-1]] = value
    return msgspec.json.encode(told)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{", "is not a plan: Input data was truncated"),
        (b'{"id": 3}', r"is not a plan: Expected `str`, got `int` - at `\$\.id`"),
        (b"\xff\xfe", "is not a plan"),
        (b'{"id": "\xff"}', "is not a plan: 'utf-8' codec can't decode"),
        (b'{"moves": [{"x": ' + b"[" * 100_000, "is not a plan: maximum recursion depth"),
        (replaced(("weather",), "fine"), "unknown field `weather`"),
        (replaced(("digest",), "0"), "its network is not the one it was made for"),
        (
            replaced(("network",), "name = 3"),
            r"^[^:]*plan\.json: the network of the plan:1: 'name'",
        ),
        (replaced(("parameters", "service_ms"), "abc"), "service_ms is 'abc': write milliseconds"),
        (replaced(("parameters", "service_ms"), -1), "service_ms is -1.0: write milliseconds"),
        (replaced(("moves", "0", "path"), ["a", "c"]), "goes from 'a' to 'c', which have no link"),
        (replaced(("moves", "0", "path"), []), "along no path: write the brokers from source"),
        (replaced(("moves", "0", "target"), "b"), "goes from 'a' to 'b' along a - b - c"),
        (replaced(("moves", "0", "type"), "teleport"), "Invalid value 'teleport'"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_by_name(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    (tmp_path / "plan.json").write_bytes(content)
    with pytest.raises(FileError, match=sentence):
        load(tmp_path / "plan.json")


def test_two_moves_with_one_id_are_refused(tmp_path: Path) -> None:
    made = plan()
    (tmp_path / "plan.json").write_bytes(replaced(("moves", "1", "id"), made.moves[0].id))
    with pytest.raises(FileError, match=f"two moves with the id '{made.moves[0].id}'"):
        load(tmp_path / "plan.json")


def test_a_plan_that_cannot_be_read_or_written_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"plan\.json: cannot be read: No such file"):
        load(tmp_path / "plan.json")
    with pytest.raises(FileError, match=r"cannot be written"):
        save(plan(), tmp_path / "nowhere" / "plan.json")


def test_what_was_done_is_undone_from_the_last_to_the_first() -> None:
    made = plan()
    undo = undoing(made, made.moves)
    assert [(m.publisher, m.source, m.target, m.path) for m in undo.moves] == [  # type: ignore[union-attr]
        ("q", "b", "c", ("b", "c")),
        ("p", "c", "a", ("c", "b", "a")),
    ]
    assert undo.moves[0].why.reason == f"takes back {made.moves[1].id}"
    assert undo.moves[0].why.gain == -5.0
    assert (undo.before, undo.after) == (made.after, made.before)
    assert undo.digest == made.digest
    assert undo.id.startswith("undo-")


def test_half_of_a_plan_undone_makes_no_promise_for_the_half() -> None:
    made = plan()
    undo = undoing(made, made.moves[:1])
    assert [move.publisher for move in undo.moves] == ["p"]  # type: ignore[union-attr]
    assert undo.before == {}
    assert undo.after == made.before


def test_a_move_that_cannot_be_undone_is_named() -> None:
    made = plan(OpenLink("", ("a", "c"), WHY))
    with pytest.raises(GravitateError, match=f"'{made.id}-1' cannot be taken back"):
        undoing(made, made.moves)


def test_the_network_of_a_plan_is_not_made_anew_to_undo_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan()
    for name in ("loads", "render"):
        monkeypatch.delattr(network_file, name)
    undo = undoing(made, made.moves)
    assert (undo.network, undo.digest) == (made.network, made.digest)


def test_undo_files_stand_beside_their_plans() -> None:
    assert undo_path("plans/plan.json") == Path("plans/plan.undo.json")
    assert undo_path("plan") == Path("plan.undo.json")


def test_order_and_addresses_make_no_other_network() -> None:
    elsewhere = Network(
        "line",
        tuple(BrokerSpec(id, Address(mqtt=1883 + at)) for at, id in enumerate("cba")),
        (LinkSpec(("c", "b"), 20.0, 1e6), LinkSpec(("b", "a"), 10.0)),
    )
    assert digest_of(elsewhere) == digest_of(LINE)
    assert differences(LINE, elsewhere) == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"name": "row"}, "its name is 'row', the plan's is 'line'"),
        ({"brokers": (*LINE.brokers, BrokerSpec("d"))}, "the plan's network lacks the broker d"),
        ({"brokers": LINE.brokers[:2]}, "it lacks the broker c"),
        ({"links": LINE.links[:1]}, "it lacks the link b - c"),
        (
            {"links": (LinkSpec(("b", "a"), 11.0), LINE.links[1])},
            "its link a - b has 11 ms, the plan's 10",
        ),
        (
            {"links": (LINE.links[0], LinkSpec(("b", "c"), 20.0))},
            "its link b - c has 0 B/s, the plan's 1e+06",
        ),
    ],
)
def test_what_differs_is_told_in_a_sentence(changed: dict[str, Any], sentence: str) -> None:
    other = msgspec.structs.replace(LINE, **changed)
    assert digest_of(other) != digest_of(LINE)
    assert differences(LINE, other)[0] == sentence
