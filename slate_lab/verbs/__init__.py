"""The verbs: one table of commands for the `%slate` magic and the `slate-lab` program, and what each does to a lab.

`table` says which commands and options exist, `words` splits a line as a shell would, `parser` makes `Asked` records,
`values` turns names into ids, limits and texts, `run` does the verb against a `Door`, `follow` waits for a handle and
minds Ctrl-C, `text` writes plain tables and JSON. Nothing here knows IPython or the lab's own class.
"""
