"""The page for people at `/`: the fleet, one group, findings; as HTML that works without script, and lives with it.

`answering` has the routes, `fleet` the picture of all groups that they share, `home`, `group` and `findings` the
pages, `frame` what is around each, `static` the files. Everything that strangers wrote passes `markup`.
"""

from agent.page.answering import Pages

__all__ = ["Pages"]
