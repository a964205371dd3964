"""DAOS's Python interface over Esker: see `esker.pydaos`."""

from esker.pydaos import *  # noqa: F403
from esker.pydaos import __all__  # noqa: F401
