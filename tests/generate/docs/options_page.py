"""`docs/reference/options.md`: every setting of `kshadow run`."""

from __future__ import annotations

from tests.generate.options_table import table

HEAD = """\
# Settings of `kshadow run`

Each is an option on the command line, an environment variable (`--lag-interval` is `KSHADOW_LAG_INTERVAL`), and a
key of the YAML file that `kshadow --config FILE` reads (`lag-interval`). The command line wins over the
environment, the environment over the file. How the file looks, with several clusters and with secrets that stand
elsewhere: [configuration](../operations.md#configuration).

The last column: what *reloads* takes effect without a restart, when the file changes or on SIGHUP; what is of the
*process* may not stand in the section of one cluster.

"""


def page() -> str:
    """The whole page."""
    return HEAD + table()
