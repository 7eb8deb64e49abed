"""Dashboards: what can be checked of them without a Grafana.

`grafana` reads the files and fills variables in as Grafana does, `asking` runs their queries against a Prometheus,
and `python -m tests.dashboards.draw` draws what comes back.
"""
