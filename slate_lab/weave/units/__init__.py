"""Units: modules and packages that bring tools and models into workers, and the guard that keeps the lab's own out."""

from __future__ import annotations

from slate_lab.weave.units.crew import Crew
from slate_lab.weave.units.resolving import Resolution
from slate_lab.weave.units.unit import Unit, UnitFailed
from slate_lab.weave.units.units import Units

__all__ = ["Crew", "Resolution", "Unit", "UnitFailed", "Units"]
