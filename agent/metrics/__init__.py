"""Prometheus metrics: computed from the mirror when scraped; a scrape never talks to Kafka."""
