"""What the agent can be told: settings as typed values, where they come from, what can change while it runs."""
