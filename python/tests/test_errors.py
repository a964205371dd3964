"""Errors: one class for each row of the table of errors."""

import builtins
import multiprocessing
import pickle

import pytest

import esker
from esker import _esker, errors

TABLE = _esker.error_table()


@pytest.mark.parametrize(("kind", "errno", "der", "bases"), TABLE)
def test_every_kind_has_its_class(kind, errno, der, bases):
    cls = getattr(errors, kind)
    assert issubclass(cls, esker.Error) and der < 0 and cls.__doc__
    assert cls.__bases__ == (esker.Error, *(getattr(builtins, base) for base in bases))
    error = cls(errno, "what happened")
    assert (str(error), error.errno, error.kind, error.needed) == ("what happened", errno, kind, None)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls and str(again) == "what happened"


def test_no_other_classes_exist():
    known = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert known == {"Error"} | {row[0] for row in TABLE}


@pytest.mark.parametrize("kind", [row[0] for row in TABLE])
def test_errors_define_their_own_pickling(kind):
    """Pickling as builtin exceptions, as tblib does in the process pools of dask, fails for some
    classes."""
    error = getattr(errors, kind)(7, "what happened")
    error.needed = 3
    make, arguments = error.__reduce_ex__(3)
    again = make(*arguments)
    assert make.__module__ == "esker.errors" and type(again) is type(error)
    assert (str(again), again.errno, again.needed) == ("what happened", 7, 3)
    tblib = pytest.importorskip("tblib.pickling_support")
    tblib.install(error)
    assert str(pickle.loads(pickle.dumps(error))) == "what happened"


def _fail(url):
    """Raise an error in a worker."""
    esker.Pool(url).container("missing")


def test_errors_cross_processes(native_url):
    with (
        multiprocessing.get_context("spawn").Pool(1) as workers,
        pytest.raises(esker.NotFound, match="missing"),
    ):
        workers.apply(_fail, (native_url,))


def test_a_full_pool_raises_an_os_error(tmp_path):
    with (
        esker.Pool.create("small", 32 << 20, dir=tmp_path, targets=2) as pool,
        pool.create_container() as container,
    ):
        cells = container.create_array("cells")
        with pytest.raises(OSError) as caught:
            for number in range(64):
                cells.write(number << 20, bytes(1 << 20))
        assert isinstance(caught.value, esker.NoSpace) and caught.value.errno == 28
        assert cells.read(0, 1) == b"\0"
