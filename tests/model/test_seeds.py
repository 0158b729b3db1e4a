"""Random numbers depend on the seed and the purpose, on nothing else."""

from __future__ import annotations

from gravitate.model.seeds import generator


def test_the_same_seed_and_purpose_give_the_same_numbers() -> None:
    assert generator(3, "a", 1).random(5).tolist() == generator(3, "a", 1).random(5).tolist()


def test_another_seed_or_purpose_gives_others() -> None:
    firsts = {
        generator(*about).random()
        for about in ((3, "a", 1), (4, "a", 1), (3, "a", 2), (3, "b", 1), (3,), (3, "a"))
    }
    assert len(firsts) == 6


def test_numbers_stay_what_they_are_between_versions() -> None:
    drawn = generator(1, "stocks", "place", 0).integers(0, 1000, 4)
    assert drawn.tolist() == [673, 558, 119, 938]
