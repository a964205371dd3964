"""Programs that run as ranks of MPI."""

import os
import shutil
import subprocess
import sys

import pytest

# Settings of Open MPI that allow more ranks than processors, a run as root, and a machine without network.
_VARIABLES = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl": "self,vader",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def require_mpi():
    """The module of MPI. Without it, or without a library of MPI, skip the test."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # mpi4py 4.1.2 raises the latter if it finds no library.
        pytest.skip(f"no MPI: {str(error).splitlines()[0]}")
    return MPI


def run_ranks(count, program, *arguments):
    """Run a Python program as ranks; return what they print. Without MPI, skip the test."""
    require_mpi()
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed")
    command = ["mpirun", "-n", str(count), sys.executable, "-c", program, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | _VARIABLES)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
