"""Months of events as tables: what they hold, how events become rows, and the report that is made of them.

Owns the tables' columns, the reducer that sums a group's events, the report, and DuckDB, which reads, sorts and asks
on one machine; `spark_jobs` runs the reducer and the report on a cluster. Must not know Spark, brokers or the command
line. Begin with `tables.py`; `rollup.py`, `report/building.py` and `querying.py` are what the commands call.
"""
