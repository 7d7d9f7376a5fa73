"""Routing: which exact provider and model answers for a logical name.

In: the configuration and the environment. Out: a frozen `Policy` and its `Grant`s. Nothing here opens a connection.
"""

from __future__ import annotations
