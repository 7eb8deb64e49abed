"""What other settings would have made of a group's history, for beside its findings: rebalances and stopped time."""

from __future__ import annotations

from agent.presentation.markup import Markup
from agent.presentation.narrative import gains as narrative
from agent.presentation.narrative.gains import Gains
from agent.presentation.narrative.words import capitalized, duration
from agent.serving.page.markup import sentences, table

MAX_PRICE = 600
REPLAYING = Markup('<p class="none">The history is being replayed; the numbers follow in a moment.</p>')
"""In the place of numbers that are not there yet."""


def gains_table(gains: Gains | None) -> Markup:
    """The table under its heading; nothing where there is nothing to say. None: it is being replayed."""
    if gains is None:
        return _aside(REPLAYING)
    lines = narrative.replayed(gains)
    if not lines:
        # Why there are no numbers stands with what could not be seen.
        return Markup("")
    if not gains.gains:
        return _aside(f'<p class="prose">{sentences(lines[0])}</p>')
    rows = _row("As today", gains.rebalances, gains.stopped_s)
    for it in gains.gains:
        exact = " ".join(str(sentences(f"`{line[: narrative.MAX_LINE]}`")) for line in it.exact)
        price = f"<br>{sentences(it.price, MAX_PRICE)}" if it.price else ""
        rows += _row(capitalized(it.setting), it.rebalances_after, it.stopped_after_s)
        rows += Markup(f'<tr class="how"><td colspan="3">{exact} {sentences(it.where)}.{price}</td></tr>')
    heads = """<th scope="col">Setting</th><th scope="col" class="number">Rebalances</th>
<th scope="col" class="number">Stopped</th>"""
    caption = "The same history under other settings"
    dear = any(it.stopped_after_s > it.stopped_before_s + narrative.NEGLIGIBLE_S for it in gains.gains)
    price_of_it = "Each setting that saves rebalances stops partitions for longer. "
    near = f"The replay reproduces {gains.matched} of {gains.generations} generations."
    return _aside(
        f'{table("gains", "the same history under other settings", caption, heads, rows)}<p class="more">'
        f"{price_of_it if dear else ''}{near} Stopped: partition time.</p>"
    )


def _row(setting: str, rebalances: int, stopped_s: float) -> Markup:
    return Markup(
        f'<tr><th scope="row" class="name">{sentences(setting)}</th><td class="number">{rebalances:,}</td>'
        f'<td class="number">{duration(round(stopped_s * 1000))}</td></tr>'
    )


def _aside(inner: str) -> Markup:
    return Markup(f"""<div class="settings" id="settings">
<h3>With other settings</h3>
{inner}
</div>""")
