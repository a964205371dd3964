"""Fields and tensors between C and Python: what one writes, the other reads.

The library is in the folder that ESKER_LIB names, the headers in that of ESKER_INCLUDE (scripts/test.sh).
"""

import itertools
import os
import pathlib
import shutil
import subprocess

import numpy
import pytest

import esker

_numbers = itertools.count()
_library = os.environ.get("ESKER_LIB")
_headers = os.environ.get("ESKER_INCLUDE")
SCHEMA = "[run [type [step: Integer]]]"

PROGRAM = r"""
#include <daos.h>
#include <esker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call) if ((call) != 0) { fprintf(stderr, "%s: %s\n", #call, esker_error_text()); exit(1); }
#define RUN(function) if (strcmp(argv[1], #function) == 0) function(cont);

static const char *program;

static void write_fields(daos_handle_t cont)
{
	daos_handle_t store;

	CHECK(esker_field_store_open(cont, "[run [type [step: Integer]]]", ESKER_CREATE, &store, NULL));
	for (int step = 0; step < 4; step++) {
		char         text[8];
		esker_pair_t key[] = {{"run", "a"}, {"type", "fc"}, {"step", text}};
		double       data[10] = {step};

		snprintf(text, sizeof(text), "%d", step);
		if (step == 3) CHECK(esker_field_flush(store, NULL));
		CHECK(esker_field_archive(store, key, 3, data, sizeof(data), NULL));
	}
	CHECK(esker_field_store_close(store, ESKER_DISCARD, NULL));
}

static void read_fields(daos_handle_t cont)
{
	const esker_pair_t request[] = {{"run", "a"}, {"type", "fc"}, {"step", "2/to/0/by/-1"}};
	daos_handle_t      store, found;
	uint64_t           count;
	char               data[100], key[ESKER_FIELD_KEY_SIZE];
	daos_size_t        size = sizeof(data);

	CHECK(esker_field_store_open(cont, NULL, 0, &store, NULL));
	CHECK(esker_field_select(store, request, 3, &found, &count, NULL));
	CHECK(esker_field_read(found, 0, count, data, &size, NULL));
	CHECK(esker_field_entry(found, 0, key, sizeof(key), NULL));
	printf("%d fields, first %s: %.*s\n", (int)count, key, (int)size, data);
}

static void adopt_field(daos_handle_t cont)
{
	const esker_pair_t key[] = {{"run", "a"}, {"type", "fc"}, {"step", "0"}};
	daos_handle_t      store;

	CHECK(esker_field_store_open(cont, "[run [type [step: Integer]]]", ESKER_CREATE, &store, NULL));
	CHECK(esker_field_adopt(store, key, 3, program, 1, 3, NULL));
	CHECK(esker_field_flush(store, NULL));
}

static void watch_fields(daos_handle_t cont)
{
	const esker_pair_t key[] = {{"run", "a"}, {"type", "fc"}, {"step", "0"}};
	daos_handle_t      store, watch, found, view;
	const void        *bytes;
	daos_size_t        size;

	CHECK(esker_field_store_open(cont, "[run [type [step: Integer]]]", ESKER_CREATE, &store, NULL));
	CHECK(esker_field_watch(store, NULL, 0, 0, &watch, NULL));
	CHECK(esker_field_archive(store, key, 3, "ready", 5, NULL));
	CHECK(esker_field_flush(store, NULL));
	for (int count = 0; count < 2; count++) {
		CHECK(esker_field_watch_next(watch, 60000000, &found, NULL));
		CHECK(esker_field_view(found, 0, 0, &view, &bytes, &size, NULL));
		printf("%.*s\n", (int)size, (const char *)bytes);
		fflush(stdout);
		CHECK(esker_field_view_close(view, NULL));
	}
}

static void write_tensor(daos_handle_t cont)
{
	const uint64_t     shape[] = {3, 4}, start[] = {0, 0};
	const int64_t      member = -7;
	const double       range[] = {0, 100};
	const esker_attr_t attrs[] = {
		{"units", "K", 1, ESKER_ATTR_TEXT, 0},
		{"member", &member, 8, ESKER_ATTR_INTEGER, 0},
		{"range", range, 16, ESKER_ATTR_LIST | ESKER_ATTR_REAL, 0},
		{"words", "a\0b", 4, ESKER_ATTR_LIST | ESKER_ATTR_TEXT, 0},
	};
	float              data[12];
	daos_handle_t      store, put, pending;

	for (int i = 0; i < 12; i++) data[i] = i;
	CHECK(esker_tensor_store_open(cont, ESKER_CREATE, &store, NULL));
	CHECK(esker_tensor_begin(store, "<f4", 2, shape, NULL, attrs, 4, &put, NULL));
	CHECK(esker_tensor_write(put, 2, start, shape, data, sizeof(data), NULL));
	CHECK(esker_tensor_commit(put, "t2m", NULL, NULL));
	CHECK(esker_tensor_begin(store, "<f4", 2, shape, NULL, NULL, 0, &pending, NULL));
	CHECK(esker_tensor_write(pending, 2, start, shape, data, sizeof(data), NULL));
}

static void read_tensor(daos_handle_t cont)
{
	const esker_slab_t slabs[] = {{0, 2, 2}, {1, 1, 2}};
	int32_t            data[4];
	daos_size_t        size = sizeof(data), length = 8;
	char               units[8];
	int64_t            levels[2];
	daos_handle_t      store, tensor;

	CHECK(esker_tensor_store_open(cont, 0, &store, NULL));
	CHECK(esker_tensor_open(store, "of python", &tensor, NULL));
	CHECK(esker_tensor_get(tensor, slabs, 2, data, &size, NULL));
	CHECK(esker_tensor_attribute(tensor, "units", NULL, units, &length));
	printf("%d %d %d %d %.*s ", data[0], data[1], data[2], data[3], (int)length, units);
	length = sizeof(levels);
	CHECK(esker_tensor_attribute(tensor, "levels", NULL, levels, &length));
	printf("%d %d\n", (int)levels[0], (int)levels[1]);
}

int main(int argc, char **argv)
{
	daos_handle_t pool = {0}, cont = {0};

	if (argc != 4 || daos_init() != 0) return 2;
	program = argv[0];
	if (daos_pool_connect(argv[2], NULL, DAOS_PC_RW, &pool, NULL, NULL) != 0) return 3;
	daos_cont_create_with_label(pool, argv[3], NULL, NULL, NULL);
	if (daos_cont_open(pool, argv[3], DAOS_COO_RW, &cont, NULL, NULL) != 0) return 4;
	RUN(write_fields) RUN(read_fields) RUN(write_tensor) RUN(read_tensor)
	RUN(adopt_field) RUN(watch_fields)
	return daos_fini();
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program, built with the library of the tests."""
    if not _library or not pathlib.Path(_library, "libdaos.so").exists():
        pytest.skip("ESKER_LIB names no folder with libdaos.so")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("c")
    (folder / "stores.c").write_text(PROGRAM)
    built = folder / "stores"
    libraries = [f"-L{_library}", "-ldaos", "-luuid"]
    command = ["cc", "-std=gnu11", f"-I{_headers}", "-o", built, folder / "stores.c", *libraries]
    subprocess.run(command, check=True)
    return built


@pytest.fixture
def label(native_url):
    """A name for a container, which is destroyed after the test."""
    name = f"c{next(_numbers)}"
    yield name
    esker.Pool(native_url).destroy_container(name, force=True)


def run(program, command, pool, label):
    """Run a command of the program; return what it prints."""
    environment = os.environ | {"LD_LIBRARY_PATH": _library}
    done = subprocess.run([program, command, pool, label], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python_reads_fields_of_c(program, native_url, label):
    run(program, "write_fields", native_url, label)
    with esker.FieldStore(native_url, label=label) as store:
        assert store.schema == SCHEMA
        found = store.retrieve({"run": "a", "type": "fc", "step": [0, 1, 2]})
        assert [numpy.frombuffer(field.data)[0] for field in found] == [0, 1, 2]
        assert len(list(store.list({}))) == 3, "the fourth was not flushed"


def test_c_reads_fields_of_python(program, native_url, label):
    with esker.FieldStore(native_url, label=label, schema=SCHEMA) as store:
        for step in range(3):
            store.archive(f"[{step}]".encode(), {"run": "a", "type": "fc", "step": step})
        store.flush()
    told = run(program, "read_fields", native_url, label)
    assert told == "3 fields, first run=a,type=fc,step=2: [2][1][0]\n"


def test_python_reads_tensors_of_c(program, native_url, label):
    run(program, "write_tensor", native_url, label)
    with esker.TensorStore(native_url, label=label) as store:
        assert list(store) == ["t2m"], "the other one was not committed"
        tensor = store["t2m"]
        assert tensor[...].tolist() == [
            [0, 1, 2, 3],
            [4, 5, 6, 7],
            [8, 9, 10, 11],
        ]
        assert tensor.dtype == numpy.dtype("<f4")
        expected = {"units": "K", "member": -7, "range": [0, 100], "words": ["a", "b"]}
        assert dict(tensor.attrs) == expected


def test_c_reads_tensors_of_python(program, native_url, label):
    with esker.TensorStore(native_url, label=label) as store:
        attributes = {"units": "K", "levels": [500, 850]}
        store.put(numpy.arange(12, dtype="<i4").reshape(3, 4), "of python", attributes)
    assert run(program, "read_tensor", native_url, label) == "1 2 9 10 K 500 850\n"


def test_python_reads_fields_that_c_adopted(program, native_url, label):
    run(program, "adopt_field", native_url, label)
    with esker.FieldStore(native_url, label=label) as store:
        (field,) = store.retrieve({"run": "a", "type": "fc", "step": 0})
        assert field.data == b"ELF" and field.adopted == (str(program), 1)


def test_c_watches_fields_of_python(program, native_url, label):
    environment = os.environ | {"LD_LIBRARY_PATH": _library}
    command = [program, "watch_fields", native_url, label]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout.readline() == "ready\n"
        with esker.FieldStore(native_url, label=label) as store:
            store.archive(b"of python", {"run": "a", "type": "fc", "step": 1})
            store.flush()
        told, _ = watching.communicate(timeout=120)
    assert watching.returncode == 0 and told == "of python\n"
