"""Commands against brokers on sockets, each a process as a user starts it."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from gravitate.config import network
from gravitate.config.build import shaped
from gravitate.serve.control.network import on_free_ports
from gravitate.trace import reader

COMMAND = [sys.executable, "-m", "gravitate"]


@pytest.fixture
def network_file(tmp_path: Path) -> Path:
    path = tmp_path / "network.toml"
    network.save(on_free_ports(shaped("line", 3)), path)
    return path


def gravitate(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=30
    )


@contextmanager
def running(*arguments: str | Path, until: str) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on; entered when it has said `until` on standard error."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the suite in the background has told its children to ignore Ctrl-C.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if until in line:
                break
        else:
            pytest.fail(f"{arguments} ended with {''.join(said)!r}")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "options", [(), ("--processes", "--emulate-latency", "--trace-queue-mb", "8")]
)
def test_an_event_crosses_a_network_that_is_up(
    network_file: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    traces = tmp_path / "traces"
    with running("up", network_file, *options, "--trace", traces, until="is up") as brokers:
        with running(
            "sub", "stocks/#", "--where", "volume > 1000000", "--count", "1", "--json",
            "--network", network_file, "--at", "b03",
            until="settled",
        ) as subscriber:  # fmt: skip
            to_b01 = ("--network", network_file, "--at", "b01")
            few = gravitate("pub", "stocks/YHOO", "few", "-a", "volume=5", *to_b01)
            assert few.returncode == 0, few.stderr
            many = gravitate("pub", "stocks/YHOO", "many", "-a", "volume=2000000", *to_b01)
            assert many.returncode == 0, many.stderr
            received, _ = subscriber.communicate(timeout=30)
            assert subscriber.returncode == 0
        assert json.loads(received) == {
            "topic": "stocks/YHOO",
            "attributes": {"volume": "2000000"},
            "payload": "many",
            "qos": 1,
        }
        status = gravitate("status", network_file, "--json")
        assert status.returncode == 0
        states = json.loads(status.stdout)
        assert {link["state"] for broker in states.values() for link in broker["links"]} == {"up"}
        brokers.send_signal(signal.SIGINT)
        brokers.communicate(timeout=30)
        assert brokers.returncode == 0
    hops = reader.read(traces, "hops", ["broker", "came_from", "local_deliveries"]).to_pylist()
    assert [row["broker"] for row in hops if row["local_deliveries"]] == ["b03"]
    (delivery,) = reader.read(traces, "deliveries").to_pylist()
    assert delivery["hops"] == 2
    assert delivery["delay_s"] >= 0


def test_brokers_are_asked_for_their_neighbours(network_file: Path, tmp_path: Path) -> None:
    """One is not there; then all are; then one was started with another file."""
    made, other = network.load(network_file), tmp_path / "other.toml"
    links = (made.links[0], msgspec.structs.replace(made.links[1], between=("b01", "b03")))
    network.save(msgspec.structs.replace(made, links=links), other)

    def told(*options: str) -> subprocess.CompletedProcess[str]:
        return gravitate("network", "show", "--live", network_file, *options)

    with (
        running("broker", network_file, "b01", until="is up"),
        running("broker", network_file, "b02", until="is up"),
    ):
        shown, answer = told(), told("--json")
        assert (shown.returncode, answer.returncode) == (1, 1)
        assert "does not answer" in " ".join(shown.stdout.split())
        found = json.loads(answer.stdout)
        assert found["brokers"] == {
            "b01": {"version": 0, "neighbours": ["b02"]},
            "b02": {"version": 0, "neighbours": ["b01", "b03"]},
        }
        assert list(found["no_answer"]) == ["b03"]
        assert (found["is_tree"], found["differences"]) == (False, [])
        with running("broker", network_file, "b03", until="is up"):
            answer = told("--json")
            found = json.loads(answer.stdout)
            assert (answer.returncode, found["is_tree"], found["no_answer"]) == (0, True, {})
            assert told().returncode == 0
        with running("broker", other, "b03", until="is up"):
            shown, answer = told(), told("--json")
            assert (shown.returncode, answer.returncode) == (1, 1)
            assert "does not name it: b03" in " ".join(shown.stdout.split())
            found = json.loads(answer.stdout)
            assert found["differences"] == [["b02", "b03"], ["b03", "b01"]]
            assert not found["is_tree"]


def test_lines_of_standard_input_become_events(network_file: Path) -> None:
    with (
        running("broker", network_file, "b01", until="is up"),
        running(
            "sub", "lines", "--count", "3", "--network", network_file, until="subscribed"
        ) as subscriber,
    ):
        done = subprocess.run(
            [*COMMAND, "pub", "lines", "--lines", "--network", str(network_file)],
            input="one\ntwo\nthree\n",
            text=True,
            timeout=30,
        )
        assert done.returncode == 0
        received, _ = subscriber.communicate(timeout=30)
    assert received.split() == ["lines", "one", "lines", "two", "lines", "three"]


def test_a_publisher_says_that_it_was_moved(network_file: Path) -> None:
    address = network.load(network_file).brokers[0].address
    with (
        running("up", network_file, until="is up"),
        running(
            "sub", "t", "--count", "2", "--network", network_file, "--at", "b02", until="settled"
        ) as subscriber,
    ):
        publisher = subprocess.Popen(
            [*COMMAND, "pub", "t", "--lines", "--id", "p", "--network", str(network_file)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert publisher.stdin is not None
        assert publisher.stderr is not None
        assert subscriber.stdout is not None
        publisher.stdin.write("one\n")
        publisher.stdin.flush()
        assert subscriber.stdout.readline() == "t  one\n"
        move = {
            "type": "relocate-publisher", "id": "m", "publisher": "p", "source": "b01",
            "target": "b03", "why": {"reason": "a test"},
        }  # fmt: skip
        connection = http.client.HTTPConnection(address.host, address.http, timeout=30)
        kind = {"Content-Type": "application/json"}
        connection.request("POST", "/moves", json.dumps(move), kind)
        assert json.load(connection.getresponse())["outcome"] == "done"
        connection.close()
        publisher.stdin.write("two\n")
        publisher.stdin.close()
        said = publisher.stderr.read()
        assert publisher.wait(timeout=30) == 0
        target = network.load(network_file).brokers[2].address
        assert f"moved to {target.host}:{target.mqtt}" in said
        assert subscriber.stdout.readline() == "t  two\n"


def test_ctrl_c_ends_a_subscriber_quietly(network_file: Path) -> None:
    with (
        running("broker", network_file, "b01", until="is up"),
        running("sub", "--network", network_file, until="subscribed") as subscriber,
    ):
        subscriber.send_signal(signal.SIGINT)
        out, err = subscriber.communicate(timeout=30)
        assert (subscriber.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("pub", "t", "x", "--port", "1"), "127.0.0.1:1"),
        (("sub", "--where", "volume >"), "^"),
        (("sub", "--at", "b01"), "give --network too"),
        (("pub", "t", "-a", "volume"), "write NAME=VALUE"),
    ],
)
def test_a_client_that_cannot_is_told_why(arguments: tuple[str, ...], says: str) -> None:
    done = gravitate(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_that_the_network_lacks_is_refused(network_file: Path) -> None:
    done = gravitate("broker", network_file, "b99")
    assert done.returncode == 2
    assert "b99" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_port_that_is_taken_is_named(network_file: Path) -> None:
    with running("broker", network_file, "b01", until="is up"):
        done = gravitate("broker", network_file, "b01")
    assert done.returncode == 2
    assert "cannot listen" in done.stderr


def test_brokers_are_restarted_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    network.save(on_free_ports(shaped("line", 2)), path)
    with (
        running("broker", path, "b01", until="is up") as first,
        running("broker", path, "b02", until="is up") as second,
    ):
        before = json.loads(gravitate("status", path, "--json").stdout)
        done = gravitate("restart", path, "--json")
        assert done.returncode == 0, done.stderr
        after = json.loads(gravitate("status", path, "--json").stdout)
        assert [one["broker"] for one in json.loads(done.stdout)["done"]] == ["b01", "b02"]
        assert all(after[id]["incarnation"] > before[id]["incarnation"] for id in before)
        shown = gravitate("restart", path, "--broker", "b02")
        assert "1 of 1 brokers restarted" in shown.stdout
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
            assert process.returncode == 0


def test_a_restart_that_stops_says_where_and_why(network_file: Path) -> None:
    with running("up", network_file, until="is up"):
        stopped = gravitate("restart", network_file)
    assert stopped.returncode == 1
    assert "0 of 3 brokers restarted" in stopped.stdout
    assert "stopped at 'b01'" in stopped.stderr
    assert "shares its process with the other brokers" in stopped.stderr


def test_torture_says_what_it_found() -> None:
    done = gravitate(
        "torture",
        "--fault",
        "large",
        "--brokers",
        "2",
        "--minutes",
        "0.05",
        "--moves",
        "0",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["verdict"], told["lost"], told["seed"]) == ("kept", 0, 1)
    assert told["acknowledged"] == told["published"] > 0
    assert set(told["memory"]) == {"b01", "b02"}
