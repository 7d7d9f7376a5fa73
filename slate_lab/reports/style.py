"""How the page of a notebook looks: system fonts, one column, light and dark. Used by `page`."""

from __future__ import annotations

__all__ = ["PAGE"]

PAGE = """
:root { color-scheme: light dark; --ground: #ffffff; --ink: #1f2328; --soft: #59636e; --rule: #d9dee4; --code: #f6f8fa;
  --jp-layout-color1: var(--ground); --jp-layout-color2: var(--code); --jp-content-font-color1: var(--ink);
  --jp-border-color2: var(--rule); }
@media (prefers-color-scheme: dark) {
  :root { --ground: #1b1f24; --ink: #e6e8eb; --soft: #a8b0b9; --rule: #3a4149; --code: #262b31; }
  .highlight { filter: invert(1) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, "DejaVu Sans", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 5rem; }
h1, h2, h3 { line-height: 1.25; margin: 2.2em 0 .6em; }
h1 { font-size: 1.9rem; margin-top: 0; }
h2 { font-size: 1.35rem; padding-top: .9em; border-top: 1px solid var(--rule); }
h3 { font-size: 1.1rem; }
p, ul, ol { margin: .7em 0; max-width: 44rem; }
a { color: #2b6cd4; }
code, pre, kbd { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .86rem; }
:not(pre) > code { background: var(--code); border-radius: 4px; padding: .1em .35em; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.5; }
.input { margin: 1em 0 .5em; background: #f6f8fa; border: 1px solid var(--rule); border-radius: 6px;
  padding: .7em .9em; overflow-x: auto; }
@media (prefers-color-scheme: dark) { .input { background: #262b31; } .highlight pre { color: #19171a; } }
.highlight { background: none !important; }
.output_area { margin: .6em 0; overflow-x: auto; }
.output_html, .output_text { font-size: .86rem; }
.output_area img { max-width: 100%; height: auto; }
.output_error pre, .output_stderr pre { border-left: 3px solid #cf3a2f; padding-left: .8em; }
.rendered_html table.dataframe { border: 0; }
.rendered_html table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
.rendered_html table.dataframe th, .rendered_html table.dataframe td, .text_cell_render th, .text_cell_render td {
  text-align: left; vertical-align: top; padding: .35em .9em .35em 0; border: 0;
  border-bottom: 1px solid var(--rule); }
.rendered_html table.dataframe th { color: var(--soft); font-weight: 600; }
.ansi-bold { font-weight: bold; }
.ansi-red-fg, .ansi-red-intense-fg { color: #cf3a2f; }
.ansi-green-fg, .ansi-green-intense-fg { color: #0d7f74; }
.ansi-blue-fg, .ansi-blue-intense-fg, .ansi-cyan-fg { color: #2b6cd4; }
.ansi-yellow-fg { color: #96690a; }
@media (prefers-color-scheme: dark) {
  a, .ansi-blue-fg, .ansi-blue-intense-fg, .ansi-cyan-fg { color: #7fb0ff; }
  .ansi-red-fg, .ansi-red-intense-fg { color: #ff8f85; }
  .ansi-green-fg, .ansi-green-intense-fg { color: #5fd0c2; }
  .ansi-yellow-fg { color: #e0b24a; }
}
@media print { main { max-width: none; padding: 0; } .input, .output_area { break-inside: avoid; } }
"""
