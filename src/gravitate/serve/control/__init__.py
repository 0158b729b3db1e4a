"""Networks of nodes, in one process or in many: started, stopped, restarted in turn."""
