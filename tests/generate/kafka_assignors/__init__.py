"""Kafka's own assignors, asked live: a Java program that answers problems, and random groups to ask it about.

`python -m tests.generate.kafka_assignors` records the answers that the plain tests are held to.
"""
