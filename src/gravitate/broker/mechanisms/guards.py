"""Who watches a broker cannot break it: a watcher that raises is detached, and the broker goes on.

A guard stands for an observer or a mechanism. The first time that one raises, the guard lets go of
it for good, since its state cannot be trusted any more, and tells whoever wants to know; from then
on the guard does nothing, as an observer does by default. What a mechanism asks of its broker is
the broker's own doing: if that raises, the core is broken, whoever asked.

Worlds have no guards: a checker that raises is to be heard.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from gravitate.broker.mechanisms.mechanism import Mechanism, Post
from gravitate.broker.observers import Observer
from gravitate.errors import PeerError

Failed = Callable[[str, Exception], None]
"""Told the name of a watcher that was detached, and what it raised."""


class CoreBroken(Exception):
    """What the broker itself raised while a mechanism was asking for something."""


_WATCHING: Final = [it for it in dir(Mechanism) if it.startswith(("on_", "attach", "mark", "is_"))]


class Guard(Mechanism):
    """In the place of a watcher; only the methods that the watcher has are more than nothing."""

    def __init__(self, watcher: Observer, failed: Failed) -> None:
        self._failed = partial(failed, _name_of(watcher))
        if isinstance(watcher, Mechanism):
            self.name = watcher.name  # type: ignore[misc]
        for name in _WATCHING:
            theirs = getattr(type(watcher), name, None)
            if theirs is not None and theirs is not getattr(Mechanism, name):
                setattr(self, name, self._guarded(getattr(watcher, name), getattr(self, name)))
        attach = self.__dict__.get("attach")
        if attach is not None:
            self.__dict__["attach"] = lambda post, now: attach(_Asked(post), now)

    def _guarded(self, method: Callable[..., Any], default: Callable[..., Any]) -> Any:
        def call(*arguments: Any) -> Any:
            try:
                return method(*arguments)
            except (CoreBroken, PeerError):
                # A peer's nonsense is not the mechanism's, which has only found it.
                raise
            except Exception as error:
                for name in _WATCHING:
                    self.__dict__.pop(name, None)
                self._failed(error)
                return default(*arguments)

        return call


def guarded_call(called: Callable[..., None], failed: Failed) -> Callable[..., None]:
    """A function that is called until it raises."""
    name = _name_of(called)

    def call(*arguments: Any) -> None:
        nonlocal called
        try:
            called(*arguments)
        except Exception as error:
            called = _nothing
            failed(name, error)

    return call


def _nothing(*arguments: Any) -> None: ...


class _Asked:
    """A mechanism's post; what raises behind it is the core."""

    def __init__(self, post: Post) -> None:
        self._post = post

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._post, name)
        if not callable(asked):
            return asked

        def ask(*arguments: Any, **named: Any) -> Any:
            try:
                return asked(*arguments, **named)
            except Exception as error:
                raise CoreBroken(f"{name} of a mechanism's post") from error

        return ask


def _name_of(watcher: object) -> str:
    names = (getattr(watcher, attribute, None) for attribute in ("name", "__qualname__"))
    return next((name for name in names if isinstance(name, str)), type(watcher).__name__)
