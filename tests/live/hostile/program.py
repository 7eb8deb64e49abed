"""The agent as `kshadow run` has it, with its log in the form that is asked for: BOOTSTRAP text|json."""

from __future__ import annotations

import logging
import sys

from agent.common import logs
from agent.kafka.admin_api.observer import AdminObserver
from agent.runtime.agent import Agent
from agent.runtime.parts import AgentOptions
from agent.runtime.shutdown import Shutdown, ShutdownStep
from agent.serving.server import WebServer
from analyzers.registry import select_analyzers


def main(bootstrap: str, form: str) -> int:
    logs.configure(form, "debug")
    logging.getLogger("asyncio").setLevel(logging.INFO)
    conf = {"bootstrap.servers": bootstrap}
    observer = AdminObserver(conf, groups_per_s=50)
    agent = Agent(AgentOptions(conf=conf, observer=observer, analyzers=select_analyzers()))
    server = WebServer(agent.queries)
    with Shutdown(on_request=server.drain) as stopping:
        agent.start()
        server.start()
        print(server.url, flush=True)
        stopping.wait()
        return stopping.stop([ShutdownStep("reader", agent.stop, 8), ShutdownStep("http", server.stop, 7)])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
