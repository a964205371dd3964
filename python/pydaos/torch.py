"""Datasets and checkpoints of DAOS's Python interface over Esker: see `esker.pydaos.torch`."""

from esker.pydaos.torch import *  # noqa: F403
from esker.pydaos.torch import __all__  # noqa: F401
