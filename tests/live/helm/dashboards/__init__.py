"""Dashboards: what can be checked of them without a Grafana.

`grafana` reads the files and fills variables in as Grafana does, `asking` runs their queries against a Prometheus,
and `python -m tests.harness.dashboards_draw` draws what comes back.
"""
