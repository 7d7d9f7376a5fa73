"""Reports: the store as pandas frames with declared columns, and notebooks run to pages that need no network.

`columns` says what a column is, `declared` holds the frames' columns, `frames` reads them. `notebook` runs a notebook
in a kernel of its own, `page` writes the self-contained HTML, `demo` does both for the first page of the tour. Called
by the lab, the verbs and the program. Nothing else in the package imports pandas or the notebook libraries.
"""
