from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from gravitate import __version__
from gravitate.cli import main as command_line
from gravitate.config import network, scenario
from gravitate.trace import manifest, reader

PARTS_WITH_EXTRAS = ("gravitate.pipeline", "gravitate.bench")


class Answer(NamedTuple):
    status: int
    out: str
    err: str


Gravitate = Callable[..., Answer]


@pytest.fixture
def gravitate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gravitate:
    """Runs the command in this process, exactly as the script does."""

    def run(*arguments: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["gravitate", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        written = capsys.readouterr()
        status = ended.value.code
        assert isinstance(status, int)
        return Answer(status, written.out, written.err)

    return run


def test_the_version_is_printed(gravitate: Gravitate) -> None:
    assert gravitate("--version") == (0, f"gravitate {__version__}\n", "")


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ("pyspark", ("workload",), "pipeline"),
        ("pyspark", ("ingest", "run"), "pipeline"),
        ("pyspark", ("match", "workload"), "pipeline"),
        ("pyspark", ("evaluate", "--run", "run"), "pipeline"),
        ("pyspark", ("report", "run"), "pipeline"),
        ("pyspark", ("bench", "pipeline"), "pipeline"),
        ("duckdb", ("bench", "pipeline"), "baselines"),
    ],
)
def test_what_is_not_installed_is_named_with_the_extra_it_comes_with(
    gravitate: Gravitate,
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    arguments: tuple[str, ...],
    extra: str,
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    for module in [name for name in sys.modules if name.startswith(PARTS_WITH_EXTRAS)]:
        monkeypatch.delitem(sys.modules, module)
    status, out, err = gravitate(*arguments)
    assert (status, out) == (2, "")
    assert f"is not installed: `pip install 'gravitate[{extra}]'`" in err


def test_help_imports_none_of_the_heavy_layers() -> None:
    program = (
        "import sys; from gravitate.cli.main import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'pyarrow', 'asyncio', 'uvloop', 'gravitate.broker'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "network" in done.stdout
    assert done.stderr.strip() == "[]"


def test_a_new_network_is_sound_and_can_be_shown(gravitate: Gravitate, tmp_path: Path) -> None:
    path = tmp_path / "n.toml"
    made = gravitate(
        "network", "new", "--shape", "balanced-tree", "--brokers", "63", "--fanout", "2",
        "--link-ms", "5", "-o", path,
    )  # fmt: skip
    assert made.status == 0
    assert len(network.load(path).brokers) == 63
    checked = gravitate("network", "check", path, "--json")
    facts = json.loads(checked.out)
    assert (facts["brokers"], facts["links"], facts["diameter_hops"]) == (63, 62, 10)
    shown = gravitate("network", "show", path)
    assert shown.status == 0
    assert "b63" in shown.out
    assert json.loads(gravitate("network", "show", path, "--json").out)["name"]


def test_a_network_goes_to_standard_output_unless_a_file_is_named(gravitate: Gravitate) -> None:
    answer = gravitate("network", "new", "--shape", "star", "--brokers", "4", "--name", "small")
    assert network.loads(answer.out).name == "small"


def test_a_file_is_not_replaced_unasked(gravitate: Gravitate, tmp_path: Path) -> None:
    path = tmp_path / "n.toml"
    path.write_text("precious")
    refused = gravitate("network", "new", "-o", path)
    assert refused.status == 2
    assert "--force" in refused.err
    assert path.read_text() == "precious"
    assert gravitate("network", "new", "-o", path, "--force").status == 0


def test_a_bad_file_ends_with_one_sentence_and_its_line(
    gravitate: Gravitate, tmp_path: Path
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('name = "x"\nbrokers = [{ id = "a" }, { id = "a" }]\n')
    answer = gravitate("network", "check", path)
    assert answer == (
        2,
        "",
        f"gravitate: {path}:2: duplicate broker id 'a': line 2 has it already\n",
    )
    missing = gravitate("network", "check", tmp_path / "none.toml")
    assert missing.status == 2
    assert missing.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("network", "new", "--shape", "ball"), "unknown shape 'ball': write one of balanced-tree"),
        (("reproduce", "nobody"), "unknown study 'nobody': write one of publishers, subscribers"),
        (("reproduce", "publishers", "--data", "."), "--data . is not accepted"),
        (("reproduce", "subscribers", "--data", "nowhere"), "nowhere"),
        (("bench", "nothing"), "unknown benchmark 'nothing': write one of matching"),
        (("bench", "matching", "--case", "no"), "no case 'no' in bench matching: write one of"),
        (("bench", "node", "--case", "no"), "no case 'no' in bench node: write one of q0-1to1"),
        (("bench", "links", "--case", "no"), "no case 'no' in bench links: write one of hop-"),
        (("bench", "simulator", "--case", "no"), "in bench simulator: write one of tree-63"),
        (("pub", "t", "text", "--lines"), "write no payload"),
        (("simulate",), "either a scenario"),
        (("simulate", "--random", "1", "--trace", "t"), "random worlds are not traced"),
        (
            ("simulate", "small", "--crashes", "--no-faults"),
            "--no-faults --crashes: for random worlds",
        ),
        (("sub", "--where", "volume >"), "does not parse:\nvolume >\n        ^ expected"),
        (("simulate", "demo", "--random", "3"), "either a scenario"),
        (("simulate", "no-such.toml"), "no-such.toml: cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_with_what_can(
    gravitate: Gravitate, arguments: tuple[str, ...], says: str
) -> None:
    answer = gravitate(*arguments)
    assert answer.status == 2
    assert says in answer.err
    assert "Traceback" not in answer.err


def test_a_defect_is_reported_without_a_traceback(
    gravitate: Gravitate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("nobody expects this")

    monkeypatch.setattr("gravitate.config.build.shaped", broken)
    monkeypatch.delenv(command_line.DEBUG, raising=False)
    answer = gravitate("network", "new")
    assert answer.status == 70
    assert "internal error: ZeroDivisionError('nobody expects this')" in answer.err
    assert "Traceback" not in answer.err


def test_ctrl_c_ends_quietly(gravitate: Gravitate, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gravitate.config.build.shaped", interrupted)
    answer = gravitate("network", "new")
    assert (answer.status, answer.err) == (130, "")


def test_a_traced_run_says_when_the_times_of_its_scenario_began(
    gravitate: Gravitate, tmp_path: Path
) -> None:
    answer = gravitate("simulate", "small", "--trace", tmp_path, "--json")
    began_s = manifest.load(tmp_path).started_at_s
    assert json.loads(answer.out)["started_at_s"] == began_s
    at_s = sorted(reader.read(tmp_path, "publications", ["at_s"])["at_s"].to_pylist())
    script = scenario.load("small")
    assert at_s == pytest.approx([began_s + one.at_s for one in script.publications])


def test_a_scenario_is_simulated_and_traced(gravitate: Gravitate, tmp_path: Path) -> None:
    answer = gravitate("simulate", "small", "--seed", "3", "--trace", tmp_path / "t", "--json")
    result = json.loads(answer.out)
    assert answer.status == 0
    assert result["delivered"] == result["expected"] > 0
    assert result["duplicates"] == result["out_of_order"] == 0
    assert reader.read(tmp_path / "t", "deliveries").num_rows == result["delivered"]
    assert manifest.load(tmp_path / "t").seed == 3


def test_status_of_a_network_that_is_down_says_so(gravitate: Gravitate, tmp_path: Path) -> None:
    path = tmp_path / "n.toml"
    gravitate("network", "new", "--brokers", "2", "--http-port", "1", "-o", path)
    answer = gravitate("status", path)
    assert answer.status == 1
    assert "no answer" in answer.out
    assert json.loads(gravitate("status", path, "--json").out)["b01"]["unreachable"] is True


def test_two_runs_do_not_share_a_trace_folder(gravitate: Gravitate, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    (traces / "run.json").write_text("{}")  # what a run leaves that failed to begin
    first = gravitate("simulate", "small", "--trace", traces, "--json")
    assert first.status == 0
    second = gravitate("simulate", "small", "--trace", traces, "--json")
    assert second.status == 2
    assert second.err.strip().endswith("holds the traces of another run: give another folder")
