from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravitate.errors import InputError
from gravitate.trace.sampling import Sampler, event_hash, event_hashes, publisher_hash

counters_of_any_length = st.lists(st.integers(0, 2**62), max_size=60, unique=True).map(sorted)


@given(st.text(max_size=20), st.integers(0, 2**40), counters_of_any_length)
def test_many_counters_hash_like_one_by_one(
    publisher: str, incarnation: int, counters: list[int]
) -> None:
    base = publisher_hash(publisher, incarnation)
    assert event_hashes(base, counters).tolist() == [event_hash(base, c) for c in counters]


@given(st.floats(0, 1), counters_of_any_length)
def test_an_event_is_kept_or_not_whatever_batch_it_comes_in(
    rate: float, counters: list[int]
) -> None:
    sampler = Sampler(rate)
    kept = sampler.kept("quotes", 7, counters)
    assert list(kept) == [i for i, c in enumerate(counters) if sampler.kept("quotes", 7, [c])]


@given(st.integers(0, 10**9))
def test_a_higher_rate_keeps_what_a_lower_one_keeps(counter: int) -> None:
    kept = [bool(Sampler(rate).kept("p", 1, [counter])) for rate in (0.0, 0.1, 0.5, 0.9, 1.0)]
    assert kept == sorted(kept)
    assert kept[0] is False
    assert kept[-1] is True


def test_about_the_asked_share_is_kept_of_every_publisher() -> None:
    sampler = Sampler(0.1)
    for publisher in ("a", "b", "c"):
        assert 900 < len(sampler.kept(publisher, 1, range(10_000))) < 1100


def test_another_process_keeps_the_same_events() -> None:
    program = (
        "from gravitate.trace.sampling import Sampler;"
        "print(list(Sampler(0.3).kept('publisher-9', 4, range(50))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == str(list(Sampler(0.3).kept("publisher-9", 4, range(50))))


def test_the_sample_of_a_known_publisher_never_changes() -> None:
    assert list(Sampler(0.2).kept("publisher-1", 1, range(30))) == GOLDEN


def test_a_rate_outside_zero_to_one_is_refused() -> None:
    with pytest.raises(InputError, match=r"sampling rate 1\.5"):
        Sampler(1.5)


GOLDEN = [1, 11, 13]
