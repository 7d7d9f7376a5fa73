"""The weave: an `Action` is admitted, waits for a permit, becomes a worker with a brief, and ends as an `Episode`.

In: actions, from the lab. Out: handles that settle with episodes. All of it runs on the lab's own event loop; the
store is told everything as it happens, so that a killed process loses nothing that was found.
"""
