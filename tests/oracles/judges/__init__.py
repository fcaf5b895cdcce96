"""The judges of dialects, found by the names of their modules."""

from __future__ import annotations

import importlib
import pkgutil

from tests.oracles.judge import Judge

JUDGES: dict[str, Judge] = {
    module.name: importlib.import_module(f"{__name__}.{module.name}").JUDGE
    for module in pkgutil.iter_modules(__path__)
}
