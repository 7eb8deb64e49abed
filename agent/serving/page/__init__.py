"""The page for people at `/`: the fleet, one group, findings; as HTML that works without script, and lives with it.

Read `pages` first: it has the routes. `fleet` takes the picture of all groups that readers share; `home_page`,
`group_page` and `findings_page` make the pages, `frame` what is around each, `static` the files. Everything that
strangers wrote passes `markup`. It must not know Kafka or the runtime.
"""

from agent.serving.page.pages import Pages

__all__ = ["Pages"]
