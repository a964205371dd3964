/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Handles that cross hosts: the first rank opens a pool and a container and sends both handles to the others, like
 * programs for DAOS under MPI. Each rank writes an array that is striped over all targets, and reads its neighbour's.
 */

#include <mpi.h>

#include "../c/check.h"

enum { CELLS = 3 << 20, CHUNK = 1 << 20 };

/** Sends a handle to all ranks. */
static void
share(daos_handle_t *handle, daos_handle_t pool, int is_pool, int rank)
{
	d_iov_t global = {0};

	if (rank == 0)
		OK(is_pool ? daos_pool_local2global(*handle, &global)
			   : daos_cont_local2global(*handle, &global));
	MPI_Bcast(&global.iov_buf_len, sizeof(global.iov_buf_len), MPI_BYTE, 0, MPI_COMM_WORLD);
	global.iov_buf = malloc(global.iov_buf_len);
	global.iov_len = global.iov_buf_len;
	CHECK(global.iov_buf != NULL);
	if (rank == 0)
		OK(is_pool ? daos_pool_local2global(*handle, &global)
			   : daos_cont_local2global(*handle, &global));
	MPI_Bcast(global.iov_buf, (int)global.iov_buf_len, MPI_BYTE, 0, MPI_COMM_WORLD);
	if (rank != 0)
		OK(is_pool ? daos_pool_global2local(global, handle)
			   : daos_cont_global2local(pool, global, handle));
	free(global.iov_buf);
}

/** The array of a rank. */
static daos_obj_id_t
array_of(daos_handle_t container, int rank)
{
	daos_obj_id_t oid = {.hi = 0, .lo = 100 + rank};

	OK(daos_array_generate_oid(container, &oid, true, OC_SX, 0, 0));
	return oid;
}

static void
transfer(daos_handle_t array, unsigned char *bytes, int is_write)
{
	daos_range_t     range = {.rg_idx = 0, .rg_len = CELLS};
	daos_array_iod_t iod = {.arr_nr = 1, .arr_rgs = &range};
	d_iov_t          iov;
	d_sg_list_t      list = {.sg_nr = 1, .sg_iovs = &iov};

	d_iov_set(&iov, bytes, CELLS);
	OK(is_write ? daos_array_write(array, NO_TX, &iod, &list, NULL)
		    : daos_array_read(array, NO_TX, &iod, &list, NULL));
}

int
main(int argc, char **argv)
{
	daos_handle_t  pool = {0}, container = {0}, array;
	unsigned char *bytes = malloc(CELLS);
	daos_size_t    cell, chunk;
	int            rank, ranks, i, neighbour;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	CHECK(argc == 3 && bytes != NULL);
	OK(daos_init());
	if (rank == 0) {
		OK(daos_pool_connect(argv[1], NULL, DAOS_PC_RW, &pool, NULL, NULL));
		OK(daos_cont_open(pool, argv[2], DAOS_COO_RW, &container, NULL, NULL));
	}
	share(&pool, pool, 1, rank);
	share(&container, pool, 0, rank);

	memset(bytes, 'a' + rank, CELLS);
	OK(daos_array_create(container, array_of(container, rank), NO_TX, 1, CHUNK, &array, NULL));
	transfer(array, bytes, 1);
	OK(daos_array_close(array, NULL));
	MPI_Barrier(MPI_COMM_WORLD);

	neighbour = (rank + 1) % ranks;
	OK(daos_array_open(container, array_of(container, neighbour), NO_TX, DAOS_OO_RO, &cell, &chunk,
			   &array, NULL));
	transfer(array, bytes, 0);
	for (i = 0; i < CELLS; i++)
		CHECK(bytes[i] == 'a' + neighbour);
	OK(daos_array_close(array, NULL));
	MPI_Barrier(MPI_COMM_WORLD);

	OK(daos_cont_close(container, NULL));
	OK(daos_pool_disconnect(pool, NULL));
	OK(daos_fini());
	if (rank == 0)
		puts("all ranks have read");
	MPI_Finalize();
	return 0;
}
