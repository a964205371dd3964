/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores a tensor in parts, by one process or by all processes of an MPI job, and reads it back whole
 * and in slabs. Python reads it with esker.TensorStore("POOL/CONT")["NAME"].
 *
 * compile: cc -O2 tensors.c -o tensors $(pkg-config --cflags --libs esker)
 *
 * usage: tensors POOL CONT NAME
 *
 * With MPI:  mpicc -DWITH_MPI tensors.c $(pkg-config --cflags --libs esker) -o tensors
 *            mpirun -n 4 ./tensors POOL CONT NAME
 */
#include "example.h"
#include "job.h"

/* Rows that each process writes, and columns. */
#define ROWS 25
#define COLUMNS 360

/* The element at a position. */
static double
value(uint64_t row, uint64_t column)
{
	return (double)row * 1000 + (double)column;
}

/* Writes the rows of this rank. */
static void
write_rows(daos_handle_t put, struct job job)
{
	uint64_t start[2] = {(uint64_t)ROWS * (uint64_t)job.rank, 0}, count[2] = {ROWS, COLUMNS};
	double  *rows = allocate(sizeof(double) * ROWS * COLUMNS);
	uint64_t row, column;

	for (row = 0; row < ROWS; row++)
		for (column = 0; column < COLUMNS; column++)
			rows[row * COLUMNS + column] = value(start[0] + row, column);
	check_store(esker_tensor_write(put, 2, start, count, rows, sizeof(double) * ROWS * COLUMNS, NULL),
		    "writing", "rows");
	free(rows);
}

/* Reads every second row of every third column, and compares. */
static void
compare(daos_handle_t store, const char *name)
{
	daos_handle_t       tensor;
	esker_tensor_info_t info;
	esker_slab_t        slabs[2];
	daos_size_t         size;
	double             *found;
	uint64_t            i;

	check_store(esker_tensor_open(store, name, &tensor, NULL), "opening", name);
	check_store(esker_tensor_query(tensor, &info), "describing", name);
	slabs[0] = (esker_slab_t){1, 2, info.shape[0] / 2};
	slabs[1] = (esker_slab_t){0, 3, COLUMNS / 3};
	check_store(esker_tensor_get(tensor, slabs, 2, NULL, &size, NULL), "sizing", name);
	found = allocate(size);
	check_store(esker_tensor_get(tensor, slabs, 2, found, &size, NULL), "reading", name);
	for (i = 0; i < slabs[0].count * slabs[1].count; i++)
		if (found[i] != value(1 + 2 * (i / slabs[1].count), 3 * (i % slabs[1].count)))
			fail("%s: element %lu of the selection differs", name, (unsigned long)i);
	printf("%s: %lu x %lu elements of %s, compared\n", info.name, (unsigned long)info.shape[0],
	       (unsigned long)info.shape[1], info.dtype);
	free(found);
	check_store(esker_tensor_close(tensor, NULL), "closing", name);
}

int
main(int argc, char **argv)
{
	const esker_attr_t units = {"units", "K", 1, ESKER_ATTR_TEXT, 0};
	struct job         job = job_start(&argc, &argv);
	struct handles     handles;
	daos_handle_t      store, put;
	uint64_t           shape[2] = {0, COLUMNS};

	if (argc != 4)
		fail("usage: %s POOL CONT NAME", argv[0]);
	store = open_tensors(&handles, job, argv[1], argv[2]);
	shape[0] = (uint64_t)ROWS * (uint64_t)job.ranks;
	put = begin_tensor(store, job, "<f8", 2, shape, &units, 1);
	write_rows(put, job);
	commit_tensor(put, job, argv[3]);
	if (job.rank == 0)
		compare(store, argv[3]);
	check_store(esker_tensor_store_close(store, NULL), "closing", "the tensor store");
	close_handles(&handles);
	job_end();
	return 0;
}
