"""The rollouts of a group's workload, the newest first: the verdict on each and why, and of the newest its numbers,
with what other settings would have made of it beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.presentation.markup import Markup
from agent.presentation.narrative.words import about
from agent.presentation.rollouts.sentences import (
    PENDING,
    WHATIF_LABELS,
    lines,
    verdict_word,
    what_was_rolled_out,
    whatif_lines,
)
from agent.presentation.rollouts.verdicts import RolloutVerdict
from agent.serving.page.gains_table import REPLAYING
from agent.serving.page.markup import ago, mark, more, section, sentences, table, text

JsonObject = Mapping[str, Any]

MAX_SHOWN = 5
"""Rollouts in all; the route has the others."""

_LOOKS = {
    RolloutVerdict.BETTER: ("state", "steady", "info"),
    RolloutVerdict.SAME: ("state", "steady", "info"),
    RolloutVerdict.WORSE: ("severity", "warning", "warning"),
    RolloutVerdict.HARMFUL: ("severity", "critical", "critical"),
    PENDING: ("state", "moving", "info"),
}
"""Of a word: what its mark is of, which it is, and how its item is edged."""


def rollouts_section(rollouts: Sequence[JsonObject], costs: JsonObject | None, now_ms: int) -> Markup:
    """The section; nothing where there is no rollout. `rollouts`: the oldest first, as JSON. `costs`: the newest's
    `whatif` (None: it is being replayed)."""
    if not rollouts:
        return Markup("")
    newest, *earlier = rollouts[::-1]
    numbers = "".join(f"<div><dt>{text(label)}</dt><dd>{text(said)}</dd></div>" for label, said in lines(newest))
    shown = [_item(newest, now_ms, f'<dl class="facts">{numbers}</dl>')]
    shown += [_item(it, now_ms) for it in earlier[: MAX_SHOWN - 1]]
    items = "".join(shown)
    inner = f'<ul class="findings">{items}</ul>{more(len(rollouts) - MAX_SHOWN, "before these")}'
    beside = "" if newest["verdict"] is None else _costs(costs)
    return section("rollouts", "Rollouts", f'<div class="beside"><div>{inner}</div>{beside}</div>')


def _item(form: JsonObject, now_ms: int, inner: str = "") -> Markup:
    word = verdict_word(form)
    of, kind, edge = _LOOKS.get(word, _LOOKS[PENDING])
    what = what_was_rolled_out(form)
    named = f'<span class="where">{text(what)}</span>' if what else ""
    reasons = "".join(f'<p class="summary">{sentences(it)}</p>' for it in form["reasons"])
    return Markup(
        f'<li class="finding {edge}" data-key="rollout-{form["began_ms"]}"><p class="what">'
        f'<span class="{of} {kind}">{mark(kind)}{text(word, 40)}</span> {named} '
        f'<span class="when">began {ago(form["began_ms"], now_ms)}</span></p>{reasons}{inner}</li>'
    )


def _costs(costs: JsonObject | None) -> Markup:
    if costs is None:
        return _aside(REPLAYING)
    known = {label: costs[name] for name, label in WHATIF_LABELS.items() if costs.get(name) is not None}
    if not known:
        return _aside("".join(f'<p class="prose">{text(said)}.</p>' for _, said in whatif_lines(costs)))
    rows = "".join(
        f'<tr><th scope="row" class="name">{label}</th><td class="number">{cost["rebalances"]:,}</td>'
        f'<td class="number">{about(cost["stopped_partition_ms"])}</td></tr>'
        for label, cost in known.items()
    )
    heads = """<th scope="col">Setting</th><th scope="col" class="number">Rebalances</th>
<th scope="col" class="number">Stopped</th>"""
    caption = "The same rollout under other settings"
    costs_table = table("gains costs", "the same rollout under other settings", caption, heads, rows)
    untold = f" Not all was replayed: {text(costs['untold'])}." if costs["untold"] else ""
    return _aside(f'{costs_table}<p class="more">The same rollout, replayed. Stopped: partition time.{untold}</p>')


def _aside(inner: str) -> Markup:
    return Markup(f"""<div class="settings" id="rollout-settings">
<h3>The newest with other settings</h3>
{inner}
</div>""")
