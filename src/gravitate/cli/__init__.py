"""The command line: one module a group of commands.

Commands import what they need when they run, so that `--help`, completion and small commands
start at once. A command parses, calls one function of the layers below, and shows the answer.
"""
