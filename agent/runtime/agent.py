"""The running agent: its life, from the first connection to the last thing made safe.

Owns the order in which its parts start and stop. `reader_loop` reads, `queries` answers, `scrape` gives metrics their
values; `parts` has what they share.
"""

from __future__ import annotations

import logging
import time

from agent.common.threads import BackgroundThread
from agent.config.settings import ClusterSettings
from agent.kafka.admin_api.sampled_reader import SampledReader
from agent.runtime.parts import AgentOptions, build_parts
from agent.runtime.queries import AgentQueries
from agent.runtime.reader_loop import ReaderLoop
from agent.runtime.sampling import Sampler
from agent.runtime.scrape import ScrapeReader

log = logging.getLogger("kshadow")

STOP_S = 13.0
"""For all of a stop: what does not come to its end by then is left."""


class Agent:
    """Follows the topic of one cluster from `start` to `stop`; `queries` answers what is asked of it."""

    def __init__(self, options: AgentOptions) -> None:
        """Connects to nothing yet. Raises `SourceMisconfigured`."""
        self.options = options
        self._parts = parts = build_parts(options)
        self.state, self.lock, self.lags = parts.state, parts.lock, parts.lags
        self._loop = ReaderLoop(parts, self._on_caught_up)
        self._scrape = ScrapeReader(parts, self._loop)
        self.is_saved = True
        """Whether nothing was read yet, or a stop came to its end and saved all that was known, where that is asked
        for, and all events that waited for the history's sinks."""
        self._sampler = None
        if options.exports is not None:
            self._sampler = Sampler(
                parts.state,
                parts.lock,
                parts.lags.scraped,
                options.exports,
                cluster=options.settings.name,
                shows=options.visibility.shows_group,
                is_current=lambda: self.queries.ready().ready,
                interval_s=options.settings.history.samples_s,
            )
        watches = (
            parts.lags.watcher,
            parts.lags.share_watcher,
            self._sampler,
            parts.rollouts,
            parts.transactions,
            parts.sessions,
        )
        self._watches: list[BackgroundThread] = [it for it in watches if it is not None]
        """What begins once the topic was read to its end."""
        others = (parts.checkpointer, options.observer, options.kubernetes)
        told = [*self._watches, *(it for it in others if it is not None)]
        self.queries = AgentQueries(parts, self._loop, self._scrape, told)

    def start(self, timeout_s: float = 10.0) -> None:
        """Connect within `timeout_s`, then read in a thread. Raises what `TopicReader.connect` raises."""
        parts, options = self._parts, self.options
        if options.broker_log is not None:
            options.broker_log.start()
        parts.reader.connect(timeout_s)
        # What is read is told by them.
        parts.sessions.ask()
        if options.exports is not None:
            options.exports.start()
        if parts.checkpointer is not None:
            parts.checkpointer.start()
        self.is_saved = False
        self._loop.start()

    def _on_caught_up(self) -> None:
        if (misplaced := self.queries.misplaced_groups()) is not None:
            log.warning("%s", misplaced)
        if self.options.observer is not None:
            self.options.observer.observe(self.queries)
        for watch in self._watches:
            watch.start()

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Stop reading, make safe what is known and what happened, and let go of the connections."""
        deadline = time.monotonic() + timeout_s
        parts, options = self._parts, self.options
        self._loop.request_stop()
        if parts.checkpointer is not None:
            # A cycle that waits for a sink is given up: the last one has the time.
            parts.checkpointer.request_stop()
        for watch in self._watches:
            watch.request_stop()
        if options.observer is not None:
            options.observer.stop()
        for watch in self._watches:
            watch.stop()
        self._loop.join(timeout_s / 3)
        # Partitions that are shared are given up here, and kept once more before.
        parts.reader.close()
        is_saved = True
        if parts.checkpointer is not None:
            is_saved = parts.checkpointer.finish(max(1.0, (deadline - time.monotonic()) / 2))
        if options.exports is not None:
            with parts.exclusive:
                parts.state.settle_origins(time.monotonic(), all_of_them=True)
                if parts.held is not None:
                    parts.held.release(all_of_them=True)
            is_saved = options.exports.stop(max(1.0, deadline - time.monotonic())) and is_saved
        if options.broker_log is not None:
            options.broker_log.stop()
        self.is_saved = is_saved

    def change(self, settings: ClusterSettings) -> None:
        """Take what can change while it runs; what is not at work is left as it is."""
        self.options.visibility.change(settings.filters)
        self._scrape.change_granularity(settings.metrics.granularity)
        if self.options.observer is not None:
            self.options.observer.change_rate(settings.admin.groups_per_s)
        if isinstance(self._parts.reader, SampledReader):
            self._parts.reader.change_rate(settings.admin.requests_per_s)
        if self._parts.lags.watcher is not None:
            self._parts.lags.watcher.change_interval(settings.lag.interval_ms / 1000)
        if self._sampler is not None:
            self._sampler.change_interval(settings.history.samples_s)
