"""What happens in random worlds beside what clients do, as the command line has it."""

from __future__ import annotations

import msgspec


class Switches(msgspec.Struct, frozen=True):
    """Each can be combined with every other."""

    faults: bool = True
    """Links are cut and delayed, brokers stop in order and start again, bounds are small."""
    crashes: bool = False
    """Brokers are killed, between any two effects of a step."""
    migrations: bool = False
    """Clients are sent to other brokers."""
    mechanisms: bool = False
    """Brokers send publishers to other brokers."""
    pings: bool = False
    """The same after publishers have measured their ways."""

    def moves(self) -> bool:
        """Whether clients are moved at all."""
        return self.migrations or self.mechanisms or self.pings

    def words(self) -> str:
        """As options of `gravitate simulate`; what is as by default is left out."""
        fields = msgspec.structs.fields(Switches)
        changed = [(one.name, getattr(self, one.name)) for one in fields]
        return "".join(
            f" --{name}" if is_on else f" --no-{name}"
            for (name, is_on), one in zip(changed, fields, strict=True)
            if is_on != one.default
        )
