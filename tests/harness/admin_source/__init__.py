"""What `--source admin` sees, beside what the topic tells: `python -m tests.harness.admin_source`.

One broker, one scene (`scene`), two agents as processes of their own: one reads the topic and the broker's log, which
is the truth; one looks through the Admin API. `score` holds the second to the first. Prints a table, requests a
second and CPU. `--groups 500` adds groups that only stand there, most without members, as on a real cluster. Exit
code 1 where a bound of `score.BOUNDS` is missed.
"""
