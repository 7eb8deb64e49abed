"""What sinks write is what sources, Kafka's dump tool and brokers read."""
