"""The page's one style sheet, and the policy that lets nothing else in."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

LEVELS = 6
"""Shades of the heat maps, from the least that is not 0 to the most."""

_LIGHT = ("#e4eef6", "#bcd7ea", "#8bbadb", "#559ac8", "#2a78ad", "#0b5388")
_DARK = ("#16283a", "#1b3d5c", "#205781", "#2b75a9", "#58a0cf", "#a5d2ee")


def _shades(colors: tuple[str, ...], dark_text: str, light_text: str, light_from: int, light_to: int) -> str:
    return "\n".join(
        f".l{level} {{ --shade: {color}; --ink: {light_text if light_from <= level <= light_to else dark_text}; }}"
        for level, color in enumerate(colors, 1)
    )


STYLE = f"""
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif;
  --ground: #fff; --text: #1b1f24; --soft: #57606a; --line: #d0d7de; --band: #f6f8fa; --link: #0b5cad; }}
@media screen and (prefers-color-scheme: dark) {{
  :root {{ --ground: #14171b; --text: #e4e7eb; --soft: #a0a9b4; --line: #3a424c; --band: #1d2228; --link: #74b3f0; }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; max-width: 84rem; padding: 1.5rem 1rem 4rem; background: var(--ground); color: var(--text);
  overflow-wrap: anywhere; }}
h1 {{ font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }}
h2 {{ font-size: 1.3rem; margin: 0 0 .5rem; }}
h3 {{ font-size: 1.05rem; margin: 1.5rem 0 .4rem; }}
p, ul {{ max-width: 48rem; margin: .5rem 0; }}
ul {{ padding-left: 1.3rem; }}
a {{ color: var(--link); }}
a:focus-visible, summary:focus-visible, .scroll:focus-visible {{
  outline: 3px solid var(--link); outline-offset: 2px; }}
nav ul {{ list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; max-width: none; }}
section {{ border-top: 1px solid var(--line); margin-top: 2.2rem; padding-top: 1.4rem; }}
.lead {{ font-size: 1.1rem; }}
.note, small, caption, figcaption {{ color: var(--soft); }}
.note {{ font-size: .9rem; border-left: 3px solid var(--line); padding-left: .7rem; }}
dl {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(8.2rem, 1fr)); gap: .6rem; margin: 1.2rem 0; }}
dl div {{ background: var(--band); border-radius: 6px; padding: .6rem .8rem; }}
dt {{ color: var(--soft); font-size: .85rem; }}
dd {{ margin: 0; font-size: 1.2rem; font-weight: 600; }}
dd small {{ display: block; font-weight: normal; font-size: .8rem; }}
.scroll {{ overflow-x: auto; margin: .8rem 0; }}
table {{ border-collapse: collapse; font-size: .9rem; }}
caption {{ text-align: left; font-size: .9rem; padding-bottom: .3rem; }}
caption span {{ position: sticky; left: 0; display: inline-block; max-width: 90vw; }}
th, td {{ overflow-wrap: normal; text-align: left; padding: .3rem .9rem .3rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; }}
thead th, thead th.number {{ vertical-align: bottom; color: var(--soft); white-space: normal; }}
tbody td:not(.number) {{ min-width: 7.5rem; overflow-wrap: anywhere; }}
p bdi {{ font-weight: 600; }}
tbody th {{ font-weight: 600; min-width: 11rem; max-width: 20rem; overflow-wrap: anywhere; }}
td small, th small {{ display: block; font-weight: normal; }}
.number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
.unseen {{ position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }}
.blank {{ display: inline-block; min-width: 1rem; position: relative; }}
figure {{ margin: 1rem 0; }}
figure img {{ width: 100%; height: auto; display: none; }}
figure img.wide.light {{ display: block; }}
@media screen and (prefers-color-scheme: dark) {{
  figure img.wide.light {{ display: none; }}
  figure img.wide.dark {{ display: block; }}
}}
@media screen and (max-width: 640px) {{
  figure img.wide.light, figure img.wide.dark {{ display: none; }}
  figure img.narrow.light {{ display: block; }}
}}
@media screen and (max-width: 640px) and (prefers-color-scheme: dark) {{
  figure img.narrow.light {{ display: none; }}
  figure img.narrow.dark {{ display: block; }}
}}
td img {{ display: block; height: 1.6rem; width: 9rem; }}
figcaption {{ font-size: .9rem; }}
code {{ background: var(--band); border-radius: 4px; padding: .1rem .3rem; font-size: .88em; }}
summary {{ cursor: pointer; color: var(--link); padding: .2rem 0; }}
.pair {{ display: flex; flex-wrap: wrap; gap: 0 3rem; }}
.week {{ table-layout: fixed; width: 100%; max-width: 36rem; border-collapse: separate; border-spacing: 2px; }}
.pair .scroll {{ flex: 1 1 20rem; max-width: 38rem; }}
.week tbody th, .week tbody td:not(.number) {{ min-width: 0; }}
.week th, .week td {{ padding: .1rem .2rem; border: 0; text-align: center; min-width: 0; font-size: .8rem;
  font-variant-numeric: tabular-nums; overflow-wrap: normal; }}
abbr {{ text-decoration: none; }}
.week thead th small {{ font-size: .7rem; }}
.week td {{ border-radius: 3px; background: var(--band); color: var(--text); }}
.week td.none {{ background: none; }}
{_shades(_LIGHT, "#111", "#fff", 5, 6)}
@media screen and (prefers-color-scheme: dark) {{
{_shades(_DARK, "#111", "#fff", 1, 4)}
}}
.week td[class^="l"] {{ background: var(--shade); color: var(--ink); }}
@media (max-width: 480px) {{
  body {{ padding: 1rem .7rem 3rem; }}
  .week {{ border-spacing: 1px; }}
  .week th, .week td {{ font-size: .68rem; padding: .1rem 0; }}
}}
@page {{ size: A4; margin: 12mm; }}
@media print {{
  :root {{ font-size: 10.5px; color-scheme: light; }}
  body {{ max-width: none; padding: 0; }}
  nav, summary {{ display: none; }}
  details::details-content {{ content-visibility: visible; height: auto; }}
  .scroll {{ overflow: visible; }}
  section {{ break-inside: auto; }}
  h2, h2 + p, h3, caption {{ break-after: avoid; }}
  p, tr, figure, .week {{ break-inside: avoid; }}
  td img {{ width: 6rem; }}
  th, td {{ padding-right: .6rem; }}
  * {{ print-color-adjust: exact; }}
}}
"""


def policy() -> str:
    """The Content-Security-Policy: pictures that stand in the page itself, and this style."""
    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
