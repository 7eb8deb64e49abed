"""Kafka's own Connect workers, asked live: a Java program that plays stories, and random stories to play.

`python -m tests.generate.kafka_connect` records the answers that the plain tests are held to.
"""
