"""Months of events as tables: what they hold, how events become rows, and the report that is made of them.

Owns the tables' columns, the reducer that sums a group's events, and the report's page; `spark_jobs` runs the same
code on a cluster. Must not know Spark, brokers or the command line. Begin with `tables.py`.
"""
