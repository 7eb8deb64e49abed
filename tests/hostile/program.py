"""The agent as `kshadow run` has it, with its log in the form that is asked for: BOOTSTRAP text|json."""

from __future__ import annotations

import logging
import sys

from agent import logs
from agent.diagnosis.registry import choose
from agent.observer.observer import Observer
from agent.runtime import Agent
from agent.serve import WebServer
from agent.stopping import Step, Stopping


def main(bootstrap: str, form: str) -> int:
    logs.configure(form, "debug")
    logging.getLogger("asyncio").setLevel(logging.INFO)
    conf = {"bootstrap.servers": bootstrap}
    agent = Agent(conf, observer=Observer(conf, groups_per_s=50), chosen=choose())
    server = WebServer(agent)
    with Stopping(on_ask=server.drain) as stopping:
        agent.start()
        server.start()
        print(server.url, flush=True)
        stopping.wait()
        return stopping.stop([Step("reader", agent.stop, 8), Step("http", server.stop, 7)])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
