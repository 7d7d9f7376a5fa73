"""Models: one protocol, one gate through which every request goes, and the providers behind it.

In: a `Request` and the route to ask. Out: a `Reply`, and one `Attempt` for every HTTP exchange made for it.
Called by the weave (worker and compressor) through `Gate`; nothing here knows threads or the store.
"""
