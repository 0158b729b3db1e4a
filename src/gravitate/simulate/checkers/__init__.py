"""What must hold in every world, checked while it runs.

Checkers watch brokers as observers do and clients from outside; brokers know nothing of them.
They say what is wrong and go on: a run reads `Violations` when it is quiet.
"""
