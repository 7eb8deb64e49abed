"""What an agent loses when things break: real brokers, real agents killed, and the truth read from the log itself."""
