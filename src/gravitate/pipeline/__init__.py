"""The slow loop on Spark: workloads, traces, derived tables, matching, evaluation, report."""
