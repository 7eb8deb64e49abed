"""An autoscaler that goes by lag, over the simulation of the group protocol: what its settings cost in rebalances."""
