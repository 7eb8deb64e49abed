"""The demo's groups: real clients, real faults, told in a minute.

    with EmbeddedBroker(fetch_jars()) as broker, Scenarios(broker.bootstrap_servers, workdir) as scenarios:
        scenarios.start()
        while not scenarios.wait(0.2):
            for entry in scenarios.new_steps():     # LedgerEntry: at_ms, scenario, group, act, members, sentence
                …
        scenarios.failures                          # name of scenario: why it could not be played
        scenarios.ledger                            # the truth, to hold a diagnosis against
        # the clients that are left go on until the block ends

`SCENARIOS` is the script: each has a group, a one-sentence story and its steps. KIP-848 needs a broker of Kafka 4 or
newer: `playable_scenarios` asks for that.
"""

from agent.tools.demo.player import LedgerEntry
from agent.tools.demo.scenarios import Scenarios, playable_scenarios
from agent.tools.demo.script import SCENARIOS, Act, Scenario, Step

__all__ = ["SCENARIOS", "Act", "LedgerEntry", "Scenario", "Scenarios", "Step", "playable_scenarios"]
