"""What is here for clients, found by whatever names it, without looking at all of it.

A `Store` keeps one kind: what is served and what is attached for clients of other brokers, what
waits to be taken along or to end. Each has a key of its own; several may be of one client, and many
of the clients of one broker (the *origin*).

Does not know what it keeps, nor in which state that is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Generic, Protocol, TypeVar


class Client(Protocol):
    """What all that is kept can be asked."""

    @property
    def id(self) -> str: ...

    @property
    def origin(self) -> str | None:
        """The broker that the client is connected to; None: this one, without a tether."""


K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Client)


class Store(Generic[K, T]):
    """`key` tells what each is called, one at a time."""

    def __init__(self, key: Callable[[T], K]) -> None:
        self._key = key
        self._by_key: dict[K, T] = {}
        self._by_client: dict[str, dict[K, T]] = {}
        self._by_origin: dict[str | None, dict[K, T]] = {}

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._by_key.values()))

    def get(self, key: K) -> T | None:
        return self._by_key.get(key)

    def put(self, one: T) -> None:
        key = self._key(one)
        assert key not in self._by_key, f"{key} is kept already"
        self._by_key[key] = one
        self._by_client.setdefault(one.id, {})[key] = one
        self._by_origin.setdefault(one.origin, {})[key] = one

    def remove(self, one: T) -> bool:
        """Whether it was kept, and not another one of its name."""
        key = self._key(one)
        if self._by_key.get(key) is not one:
            return False
        del self._by_key[key], self._by_client[one.id][key], self._by_origin[one.origin][key]
        if not self._by_client[one.id]:
            del self._by_client[one.id]
        if not self._by_origin[one.origin]:
            del self._by_origin[one.origin]
        return True

    def of_client(self, id: str) -> Collection[T]:
        """In the order they came."""
        return list(self._by_client[id].values()) if id in self._by_client else ()

    def of_origin(self, origin: str | None) -> Collection[T]:
        return list(self._by_origin[origin].values()) if origin in self._by_origin else ()

    def origins(self) -> Collection[str | None]:
        return self._by_origin.keys()
