"""Plugin of pytest that runs the tests of pyfdb on `esker.pyfdb`.

Get the tests with `git clone https://github.com/ecmwf/fdb`, install gitpython and eccodes, and run

    PYTHONPATH=python/tests python -m pytest -p as_pyfdb fdb/tests/pyfdb

Tests of what Esker does not have, libraries and files of FDB, are skipped; the reason is said.
"""

import re
import sys
import types

import pytest

from esker import pyfdb

# Skipped tests, by patterns of file and test names, and the reasons.
_SKIPPED = {
    r"test_cli\.py|test_version_compat\.py": "about the shared libraries that pyfdb loads",
    r"test_control_enums\.py.*_raw|test_control_enums\.py.*mapping": "about the enums of FDB's C++ library",
    r"test_control_(action|identifier)_values|test_wipe_enum_mapping": "about the enums of FDB's C++ library",
    r"test_fdb_tool_request\.py": "about requests of FDB's C++ library",
    r"test_config_mapper\.py": "about the form in which FDB's C++ library gets configurations",
    r"test_control_lock_": "looks for FDB's lock files in a directory of the database",
    r"test_stats\.py.*test_stats(_db_stats)?$": "looks for counts of FDB's TOC files",
    r"test_stats_index_stats": "FDB counts whole indexes, Esker the fields of the selection",
}


class _Raw:
    """Stands for a class of FDB's C++ library that a module of the tests imports."""


def _modules():
    """The modules of pyfdb, and what is in them."""
    internal = types.ModuleType("pyfdb._internal")
    below = types.ModuleType("pyfdb._internal.pyfdb_internal")
    internal._ControlAction = pyfdb.ControlAction
    internal._ControlIdentifier = pyfdb.ControlIdentifier
    internal._check_fdb5_version_compatibility = None
    below.ConfigMapper = below.FDBToolRequest = _Raw
    iterators = types.ModuleType("pyfdb.pyfdb_iterator")
    vars(iterators).update(vars(pyfdb.pyfdb_iterator), _WipeElementType=_Raw)
    package = types.ModuleType("pyfdb")
    vars(package).update(vars(pyfdb), _internal=internal, __path__=[])
    main = types.ModuleType("pyfdb.__main__")
    main.DEPENDENCY_ORDER, main.OPTIONAL_DEPENDENCIES, main.main = [], [], None
    return {
        "pyfdb": package,
        "pyfdb.pyfdb": pyfdb.pyfdb,
        "pyfdb.pyfdb_type": pyfdb.pyfdb_type,
        "pyfdb.pyfdb_iterator": iterators,
        "pyfdb._internal": internal,
        "pyfdb._internal.pyfdb_internal": below,
        "pyfdb.__main__": main,
    }


sys.modules.update(_modules())


def pytest_collection_modifyitems(items):
    """Skip what cannot be tried."""
    for item in items:
        for pattern, reason in _SKIPPED.items():
            if re.search(pattern, item.nodeid):
                item.add_marker(pytest.mark.skip(reason=f"not applicable: {reason}"))
                break
