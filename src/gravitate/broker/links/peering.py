"""Connections to peers: made, greeted, resumed or reset, watched, lost, given up.

Every connection begins with `Hello` in both directions:

    DOWN --opened--> GREETING --hello--> UP
      ^------------------closed------------'

When both sides remember each other's incarnation they *resume*: the tail is sent again from
where the other side is. Otherwise the link is *reset*: numbers start at 1, control messages are
dropped because everything is said anew, publications stay, behind what is said anew.

Owns resumption, heartbeat, refusals. Does not know what is sent (`table`).
"""

from __future__ import annotations

from typing import Final

from gravitate.broker.context import Context
from gravitate.broker.interface import inputs, timers
from gravitate.broker.interface.effects import CloseLink, OpenLink, Send, Warn
from gravitate.broker.links.link import Link, LinkEvents, LinkState
from gravitate.broker.links.table import LinkTable
from gravitate.broker.messages import frames
from gravitate.broker.observers import LinkChange
from gravitate.errors import PeerError

SILENT_BEATS: Final = 2.5
"""A peer that nothing comes from for so many heartbeats is cut."""
LOOK_AGAIN_S: Final = 0.2
"""But not before it has been looked at once more: who was paused itself has not read yet."""
ABSENT_AFTER_S: Final = 0.5
"""A link that is down for longer is not waited for by those who need not."""
COMPLAIN_EVERY_S: Final = 60.0


class Peering:
    def __init__(
        self, context: Context, incarnation: int, links: LinkTable, told: LinkEvents
    ) -> None:
        self._context = context
        self._emit = context.emit
        self._options = context.options
        self._incarnation = incarnation
        self._links = links
        self._told = told
        self.refused_again = 0
        """How often a peer has refused what it had refused before."""

    def add(self, peer: str) -> None:
        """Use the link to `peer` for tethers; one that does not exist is made."""
        if peer in self._links:
            self._links[peer].tethers = True
        else:
            self._begin(self._links.add(peer))

    def release(self, peer: str) -> None:
        """No tether goes over the link any more; one that is for nothing else ends."""
        link = self._links[peer]
        link.tethers = False
        if not link.is_primary:
            self._told.collect()
            self._close(link, "no longer needed")
            self._links.remove(link)

    def start(self) -> None:
        for link in self._links:
            self._begin(link)

    def _begin(self, link: Link) -> None:
        if link.dials:
            self._emit(OpenLink(link.peer))
        self._expect(link)

    # Inputs --------------------------------------------------------------------------------

    def opened(self, input: inputs.LinkOpened) -> None:
        peer, connection = input.peer, input.connection
        link = self._links.get(peer)
        if link is None:
            here = self._context.broker_id
            reason = f"{peer} is no neighbour of {here}, and no tether with it is expected"
            self._emit(Send(connection, frames.Refusal(frames.UNKNOWN_BROKER, reason)))
            self._emit(CloseLink(connection, reason))
            return
        self._close(link, "replaced by a newer connection")
        link.state, link.connection = LinkState.GREETING, connection
        link.heard_at = link.pinged_at = self._context.now
        self._emit(Send(connection, self._hello(link)))
        self._heartbeat(link)

    def closed(self, input: inputs.LinkClosed) -> None:
        link = self._links.get(input.peer)
        if link is not None and input.connection == link.connection:
            self._down(link)
            self._retry(link)

    def dial_failed(self, input: inputs.DialFailed) -> None:
        link = self._links.get(input.peer)
        if link is not None and link.state is LinkState.DOWN:
            self._retry(link)

    def heard(self, input: inputs.LinkHeard) -> None:
        link = self._links.get(input.peer)
        if link is not None and input.connection == link.connection:
            link.heard_at = self._context.now

    def received(self, input: inputs.FrameReceived) -> None:
        link = self._links.get(input.peer)
        if link is None or input.connection != link.connection:
            return
        link.heard_at = self._context.now
        try:
            self._take(link, input.frame)
        except PeerError as error:
            self._emit(Send(input.connection, frames.Refusal(error.name, error.reason)))
            self._break(link, str(error))

    def _take(self, link: Link, frame: frames.Frame) -> None:
        match frame:
            case frames.Data() if link.state is LinkState.UP:
                self._links.take(link, frame)
            case frames.Acknowledge() if link.state is LinkState.UP:
                self._links.acknowledge(link, frame.acknowledged, frame.retained)
            case frames.Hello() if link.state is LinkState.GREETING:
                self._meet(link, frame)
            case frames.Ping():
                self._emit(Send(link.connection, frames.Pong(frame.sent_at)))
            case frames.Pong():
                sample = self._context.now - frame.sent_at
                link.rtt_s = 0.875 * link.rtt_s + 0.125 * sample if link.rtt_s else sample
            case frames.Draining():
                link.peer_draining = True
                if link.untaken and self._links.takes_from(link):
                    # What was not taken before that was known is sent again on a new connection.
                    self._break(link, "both sides stop")
            case frames.Refusal():
                self._refused(link, f"{frame.name}: {frame.reason}")
                self._break(link, f"refused by {link.peer}: {frame.name}: {frame.reason}")
            case _:
                raise PeerError("unexpected-frame", type(frame).__name__)

    def on_timer(self, timer: timers.LinkTimer) -> None:
        link = self._links.get(timer.peer)
        if link is None:
            return
        match timer:
            case timers.AcknowledgeLink():
                link.is_timed = False
                if link.unacknowledged and link.state is LinkState.UP:
                    self._links.say_received(link)
            case timers.RetryLink():
                if link.state is LinkState.DOWN and link.dials:
                    self._emit(OpenLink(link.peer))
            case timers.Heartbeat():
                self._heartbeat(link)
            # These timers were set anew at every loss, so the link has not been up since.
            case timers.LinkAbsent():
                if link.state is not LinkState.UP:
                    link.is_absent = True
                    self._told.changed(link.peer, LinkChange.ABSENT)
            case timers.GraceOver():
                if link.state is LinkState.GREETING:
                    # It has said what it counts by, so that does not change now.
                    self._wake(timer, LOOK_AGAIN_S)
                elif link.state is LinkState.DOWN:
                    link.given_up = link.starts_anew = True
                    self._links.empty(link)
                    self._told.changed(link.peer, LinkChange.GIVEN_UP)

    # Connection ----------------------------------------------------------------------------

    def _hello(self, link: Link) -> frames.Hello:
        received, series = link.has_received()
        return frames.Hello(
            self._options.network,
            self._context.broker_id,
            self._incarnation,
            link.peer_incarnation,
            received,
            retained=link.retains(),
            series=link.series,
            received_series=series,
            anew=link.starts_anew,
        )

    def _meet(self, link: Link, hello: frames.Hello) -> None:
        """The two begin to talk, if they may be linked."""
        for name, said, expected in (
            (frames.WRONG_VERSION, hello.version, frames.PROTOCOL_VERSION),
            (frames.WRONG_NETWORK, hello.network, self._options.network),
            (frames.WRONG_BROKER, hello.broker, link.peer),
        ):
            if said != expected:
                raise PeerError(name, f"{said!r}; here {expected!r} is expected")
        link.state = LinkState.UP
        knows = hello.remembers == self._incarnation and hello.received_series == link.series
        _, series = link.has_received()
        is_known = (hello.incarnation, hello.series) == (link.peer_incarnation, series)
        resumes = knows and is_known and not (hello.anew or link.starts_anew)
        if knows:
            # One that starts anew has what it has received: it is not sent again.
            self._links.acknowledge(link, hello.received, hello.retained if resumes else 0)
        link.attempts = 0
        link.given_up = link.starts_anew = link.is_absent = False
        link.peer_draining = link.untaken = False
        if resumes:
            link.sent = hello.received
            self._told.changed(link.peer, LinkChange.RESUMED)
        else:
            self._reset(link, hello)
        if self._links.draining:
            self._emit(Send(link.connection, frames.Draining()))
        self._links.touched[link.peer] = link

    def _reset(self, link: Link, hello: frames.Hello) -> None:
        self._told.collect()
        kept = [message for message in link.tail if type(message) is frames.Publications]
        is_same = hello.incarnation == link.peer_incarnation
        link.received_before = link.has_received() if is_same else None
        link.has_forgotten = bool(link.peer_incarnation) and not is_same
        link.peer_incarnation = hello.incarnation
        link.received, link.received_series = 0, hello.series + 1
        link.sent = link.unacknowledged = 0
        self._links.empty(link)
        self._told.changed(link.peer, LinkChange.RESET)
        for message in kept:
            fit = self._told.keep(link.peer, message)
            if fit.batches and link.peer in self._links:
                self._links.send(link.peer, fit)

    def _down(self, link: Link) -> None:
        """The connection is gone; another is expected if the link is still for something."""
        if link.state is LinkState.UP and (link.is_primary or link.tethers):
            self._expect(link)
        link.state, link.connection = LinkState.DOWN, 0
        self._links.forget_overflow(link)
        self._told.changed(link.peer, LinkChange.DOWN)

    def _expect(self, link: Link) -> None:
        """A link that is not up for a while is absent, after long it is given up."""
        self._wake(timers.LinkAbsent(link.peer), ABSENT_AFTER_S)
        if self._options.link_grace_s:
            self._wake(timers.GraceOver(link.peer), self._options.link_grace_s)

    def _retry(self, link: Link) -> None:
        if link.dials and (link.is_primary or link.tethers):
            options = self._options
            delay = min(options.retry_s_max, options.retry_s_min * 2 ** min(link.attempts, 16))
            link.attempts += 1
            self._wake(timers.RetryLink(link.peer), delay)

    def _refused(self, link: Link, reason: str) -> None:
        """The peer does not take something. If it is the same as before, it never will."""
        if link.state is not LinkState.UP or not len(link.tail):
            return
        first = (link.series, link.tail.acknowledged + 1)
        if link.refused_first != first:
            link.refused_first = first
            return
        self.refused_again += 1
        if self._context.now >= link.complained_at + COMPLAIN_EVERY_S:
            link.complained_at = self._context.now
            behind = f"{link.queued.events} events wait behind it"
            text = f"{link.peer} refuses message {first[1]} again ({reason}); {behind}"
            self._emit(Warn(link.peer, text, is_error=True))

    def _close(self, link: Link, reason: str) -> None:
        if link.state is not LinkState.DOWN:
            self._emit(CloseLink(link.connection, reason))
            self._down(link)

    def _break(self, link: Link, reason: str) -> None:
        self._close(link, reason)
        self._retry(link)

    def _wake(self, timer: timers.LinkTimer, in_s: float) -> None:
        self._context.set_timer(timer, self._context.now + in_s)

    def _heartbeat(self, link: Link) -> None:
        """Ping if that is due, cut the peer if it is silent; look again when either may be."""
        now, every_s = self._context.now, self._options.heartbeat_s
        if link.state is LinkState.DOWN or not every_s:
            return
        timer, silent_at = timers.Heartbeat(link.peer), link.heard_at + SILENT_BEATS * every_s
        if now >= silent_at:
            if link.is_doubted:
                self._break(link, f"silent for {now - link.heard_at:.1f} s")
            else:
                link.is_doubted = True
                self._wake(timer, LOOK_AGAIN_S)
            return
        link.is_doubted = False
        if now >= link.pinged_at + every_s:
            link.pinged_at = now
            if link.state is LinkState.UP:
                self._emit(Send(link.connection, frames.Ping(now)))
        self._context.set_timer(timer, min(link.pinged_at + every_s, silent_at))
