"""`docs/reference/options.md`: every setting of `kshadow run`."""

from __future__ import annotations

from tests.generate.options_table import table

HEAD = """\
# Settings of `kshadow run`

Each is an option on the command line, an environment variable (`--lag-interval` is `KSHADOW_LAG_INTERVAL`), and a
key of the YAML file that `kshadow --config FILE` reads (`lag-interval`). The command line overrides the
environment, and the environment the file. The file's form, with several clusters and references to secrets:
[configuration](../operations.md#configuration).

The last column: *reloads* means that a change takes effect without a restart, when the file changes or on SIGHUP;
*process* means that the section of one cluster must not contain it.

"""


def page() -> str:
    """The whole page."""
    return HEAD + table()
