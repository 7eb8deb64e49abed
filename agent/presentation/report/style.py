"""The page's one style sheet, and the policy that lets nothing else in."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

from agent.presentation.svg.style import STYLE as PICTURES

NARROW_PX = 640
"""Below this the narrow drawings are shown."""

STYLE = (
    PICTURES
    + f"""
:root {{ font: 16px/1.5 system-ui, sans-serif; }}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; max-width: 80rem; padding: 1.5rem 1.25rem 4rem; background: var(--ground); color: var(--text);
  overflow-wrap: anywhere; }}
h1 {{ font-size: 1.8rem; line-height: 1.2; margin: 0 0 .5rem; }}
h2 {{ font-size: 1.4rem; line-height: 1.25; margin: 0 0 .5rem; }}
h3 {{ font-size: 1.05rem; margin: 1.6rem 0 .4rem; }}
p, ul {{ max-width: 52rem; margin: .5rem 0; }}
ul {{ padding-left: 1.3rem; }}
li {{ margin: .25rem 0; }}
a {{ color: var(--link); }}
a:focus-visible, summary:focus-visible, .scroll:focus-visible {{ outline: 3px solid var(--link);
  outline-offset: 2px; }}
.skip {{ position: absolute; left: -99rem; }}
.skip:focus {{ left: 1rem; top: .5rem; background: var(--ground); padding: .3rem .6rem; }}
.meta, small, caption, figcaption, .note, .cost {{ color: var(--soft); }}
.meta {{ font-size: .9rem; }}
.lead {{ font-size: 1.12rem; }}
.note {{ font-size: .9rem; border-left: 3px solid var(--line); padding-left: .7rem; }}
.advice li {{ border-left: 3px solid var(--joined); list-style: none; padding-left: .7rem; }}
.advice {{ padding-left: 0; }}
nav {{ margin: 1.4rem 0; padding: .8rem 1rem; background: var(--band); border-radius: 8px; }}
nav h2 {{ font-size: 1rem; }}
nav ol {{ margin: 0; padding-left: 1.4rem; columns: 20rem; }}
nav li {{ margin: .15rem 0; break-inside: avoid; }}
section {{ border-top: 1px solid var(--line); margin-top: 2.4rem; padding-top: 1.4rem; }}
dl {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(8.2rem, 1fr)); gap: .6rem; margin: 1rem 0; }}
dl div {{ background: var(--band); border-radius: 6px; padding: .55rem .8rem; }}
dt {{ color: var(--soft); font-size: .85rem; line-height: 1.3; }}
dd {{ margin: .1rem 0 0; font-size: 1.2rem; font-weight: 600; }}
dd small {{ display: block; font-weight: normal; font-size: .8rem; }}
dd.bad {{ color: var(--session); }}
figure {{ margin: 1.2rem 0; }}
figcaption {{ font-size: .9rem; margin: .2rem 0 .5rem; }}
.narrow {{ display: none; }}
.scroll {{ overflow-x: auto; margin: .8rem 0; }}
table {{ border-collapse: collapse; font-size: .9rem; }}
caption {{ text-align: left; font-size: .9rem; padding-bottom: .3rem; }}
th, td {{ text-align: left; padding: .3rem 1rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: normal; }}
thead th {{ color: var(--soft); vertical-align: bottom; }}
tbody th {{ font-weight: 600; min-width: 9rem; max-width: 24rem; overflow-wrap: anywhere; }}
.number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
td.words {{ min-width: 10.5rem; max-width: 32rem; overflow-wrap: anywhere; }}
td .spark {{ width: 9rem; height: 1.6rem; }}
.badge {{ display: inline-block; border: 1px solid; border-radius: 4px; padding: 0 .35rem; font-size: .8rem;
  font-weight: 600; white-space: nowrap; }}
.badge.critical {{ color: var(--critical); background: var(--critical-ground); }}
.badge.warning {{ color: var(--warning); background: var(--warning-ground); }}
.badge.info {{ color: var(--info); background: var(--info-ground); }}
code {{ background: var(--band); border-radius: 4px; padding: .1rem .3rem; font-size: .88em; }}
summary {{ cursor: pointer; color: var(--link); padding: .2rem 0; }}
footer {{ margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }}
@media screen and (max-width: {NARROW_PX}px) {{
  body {{ padding: 1rem .8rem 3rem; }}
  .narrow {{ display: block; }}
  .wide {{ display: none; }}
  dl {{ grid-template-columns: repeat(auto-fill, minmax(7.4rem, 1fr)); }}
}}
@page {{ size: A4; margin: 13mm; }}
@media print {{
  :root {{ font-size: 10.5px; }}
  body {{ max-width: none; padding: 0; }}
  nav {{ background: none; border: 1px solid var(--line); }}
  section.group {{ break-before: page; }}
  .skip, summary {{ display: none; }}
  details::details-content {{ content-visibility: visible; height: auto; }}
  .scroll {{ overflow: visible; }}
  h2, h3, caption, figcaption {{ break-after: avoid; }}
  p, li, tr, dl div {{ break-inside: avoid; }}
  figure {{ break-inside: avoid; }}
  figure svg {{ max-height: 235mm; }}
  th, td {{ padding-right: .6rem; }}
  td.words {{ min-width: 0; }}
  dl div, .badge, code {{ print-color-adjust: exact; -webkit-print-color-adjust: exact; }}
}}
"""
)


def policy() -> str:
    """The Content-Security-Policy: this style, and nothing that is loaded or run."""
    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
