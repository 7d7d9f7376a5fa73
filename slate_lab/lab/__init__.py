"""The lab: where the rooms are wired, and the verbs a person has."""

from slate_lab.lab.lab import Lab

__all__ = ["Lab"]
