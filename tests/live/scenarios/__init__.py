"""The whole agent against real brokers, with real clients in processes of their own."""
