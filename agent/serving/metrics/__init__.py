"""Prometheus metrics: computed from the mirror when scraped; a scrape never talks to Kafka.

Read first `group_metrics`: one entry for each metric of groups. `table` has all metrics, `group_collector` takes
readings of groups, `lines` and `exporter` write them, `compat` has other exporters' names, `limits` how many series
there are. Nothing here knows HTTP.
"""
