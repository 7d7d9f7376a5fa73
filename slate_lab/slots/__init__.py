"""Slots: authored code at fixed points of a turn, loaded from the project's surface and run in phases and lanes.

`surface` finds and checks what a project declares (`pipelines`, `manifest`, `entrypoint`), `modules` loads its code so
that no two slots meet, `pipeline` runs the phases, `context` is what a slot is handed. The room knows nothing of
models, stores or threads: what it needs of them comes through the protocols in `ports`.
"""
