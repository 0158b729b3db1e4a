"""Programs that tests run in processes of their own."""

PROGRAM = """
import sys
from gravitate.config.network import load
from gravitate.serve.control.processes import run_network, run_processes
if __name__ == "__main__":
    network = load(sys.argv[2])
    def ready():
        print("ready", flush=True)
    if sys.argv[1] == "processes":
        raise SystemExit(run_processes(network, on_ready=ready))
    raise SystemExit(run_network(network, brokers=sys.argv[3:] or None, on_ready=ready))
"""
"""Brokers of a network file: `processes`, or `together` in this one, all or those named."""
