"""Tokens for clusters whose logins librdkafka does not have: Amazon MSK's IAM, Google's managed Kafka.

Owns how a token is come by, when anew, and what is said where that fails. `tokens.py` is what `agent.kafka.client`
uses, and the one to read first; there is a file for each method, which imports its vendor's library when it is asked
for a token. Refuses to know what a token opens. No token is ever logged, shown or kept beyond its client.
"""
