"""Who makes a broker complain without end does not fill its log."""

from __future__ import annotations

import logging

from gravitate.serve.logs import EVERY_S, LINES_MAX, Throttle


class Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.lines: list[str] = []
        self.addFilter(Throttle(lambda: self.now))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_lines_of_a_kind_are_bounded_and_the_rest_is_told_later() -> None:
    log, logger = Log(), logging.Logger("x")
    logger.addHandler(log)

    def refuse(number: int) -> None:
        logger.warning("%d is refused", number)

    for number in range(1000):
        refuse(number)
    assert log.lines == [f"{number} is refused" for number in range(LINES_MAX)]
    logger.warning("something else: %s", "y")
    logger.info("told because it was asked for")
    assert len(log.lines) == LINES_MAX + 2
    log.now = EVERY_S
    refuse(1000)
    refuse(1001)
    assert log.lines[-2:] == [
        f"1000 is refused ({1000 - LINES_MAX} like it were not logged)",
        "1001 is refused",
    ]
