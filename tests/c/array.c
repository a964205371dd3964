/* SPDX-License-Identifier: Apache-2.0 */

/* Arrays: ranges across chunks, holes, sizes, serialized handles. */

#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

enum { CHUNK = 1000, CELLS = 12345 };

static int
transfer(daos_handle_t array, daos_range_t *range, void *buf, size_t cell, bool write)
{
	daos_array_iod_t iod;
	d_iov_t          iov;
	d_sg_list_t      sgl = {1, 0, &iov};

	/* Two fields of the iod stay uninitialized: they are results. */
	iod.arr_nr  = 1;
	iod.arr_rgs = range;
	d_iov_set(&iov, buf, range->rg_len * cell);
	return write ? daos_array_write(array, NO_TX, &iod, &sgl, NULL)
		     : daos_array_read(array, NO_TX, &iod, &sgl, NULL);
}

static void
cells(struct store *store)
{
	daos_obj_id_t oid = new_oid(store, DAOS_OT_ARRAY, OC_SX);
	daos_handle_t array;
	daos_range_t  range = {77, CELLS};
	daos_size_t   size, cell, chunk;
	uint32_t     *out = malloc(CELLS * 4), *in = calloc(CELLS, 4);
	uint32_t      i;

	for (i = 0; i < CELLS; i++)
		out[i] = i * 2654435761U;
	OK(daos_array_create(store->coh, oid, NO_TX, 4, CHUNK, &array, NULL));
	GIVES(-DER_EXIST, daos_array_create(store->coh, oid, NO_TX, 4, CHUNK, &array, NULL));
	OK(transfer(array, &range, out, 4, true));
	OK(daos_array_close(array, NULL));

	OK(daos_array_open(store->coh, oid, NO_TX, DAOS_OO_RO, &cell, &chunk, &array, NULL));
	CHECK(cell == 4 && chunk == CHUNK);
	OK(daos_array_get_size(array, NO_TX, &size, NULL));
	CHECK(size == 77 + CELLS);
	OK(transfer(array, &range, in, 4, false));
	CHECK(memcmp(in, out, CELLS * 4) == 0);
	GIVES(-DER_NO_PERM, transfer(array, &range, in, 4, true));
	OK(daos_array_close(array, NULL));
	free(out);
	free(in);
}

static void
bytes(struct store *store)
{
	daos_handle_t array;
	daos_obj_id_t oid   = new_oid(store, DAOS_OT_ARRAY_BYTE, OC_SX);
	daos_range_t  range = {4, 4};
	daos_size_t   size;
	char          buf[12] = "............";

	OK(daos_array_open_with_attr(store->coh, oid, NO_TX, DAOS_OO_RW, 1, CHUNK, &array, NULL));
	OK(transfer(array, &range, "data", 1, true));
	range.rg_idx = 0;
	range.rg_len = 12;
	OK(transfer(array, &range, buf, 1, false));
	CHECK(memcmp(buf, "\0\0\0\0data....", 12) == 0);
	OK(daos_array_set_size(array, NO_TX, 6, NULL));
	OK(daos_array_get_size(array, NO_TX, &size, NULL));
	CHECK(size == 6);
	OK(daos_array_destroy(array, NO_TX, NULL));
	OK(daos_array_get_size(array, NO_TX, &size, NULL));
	CHECK(size == 0);
	OK(daos_obj_close(array, NULL));
}

static void
global(struct store *store)
{
	daos_handle_t array, other;
	daos_obj_id_t oid   = new_oid(store, DAOS_OT_ARRAY, OC_S1);
	daos_range_t  range = {0, 5};
	char          buf[5];
	d_iov_t       glob = {NULL, 0, 0};

	OK(daos_array_create(store->coh, oid, NO_TX, 1, CHUNK, &array, NULL));
	OK(transfer(array, &range, "bytes", 1, true));
	OK(daos_array_local2global(array, &glob));
	CHECK(glob.iov_buf_len == 72);
	glob.iov_buf = malloc(72);
	OK(daos_array_local2global(array, &glob));
	OK(daos_array_global2local(store->coh, glob, 0, &other));
	OK(transfer(other, &range, buf, 1, false));
	CHECK(memcmp(buf, "bytes", 5) == 0);
	glob.iov_len = 71;
	GIVES(-DER_INVAL, daos_array_global2local(store->coh, glob, 0, &other));
	free(glob.iov_buf);
	OK(daos_array_close(array, NULL));
}

enum { SHARED = 1 << 20, WRITES = 64 };

static atomic_bool is_written;

static void *
change(void *shared)
{
	volatile unsigned char *buf = shared;

	while (!is_written)
		for (size_t i = 0; i < SHARED; i += 512)
			buf[i]++;
	return NULL;
}

/* A write from a buffer that another thread changes meanwhile succeeds, with undefined content. */
static void
changing(struct store *store)
{
	daos_obj_id_t oid = new_oid(store, DAOS_OT_ARRAY, OC_S1);
	daos_handle_t array;
	daos_range_t  range = {0, SHARED};
	char         *buf = calloc(1, SHARED), *in = malloc(SHARED);
	pthread_t     thread;

	OK(daos_array_create(store->coh, oid, NO_TX, 1, SHARED, &array, NULL));
	CHECK(pthread_create(&thread, NULL, change, buf) == 0);
	for (int i = 0; i < WRITES; i++) {
		OK(transfer(array, &range, buf, 1, true));
		OK(transfer(array, &range, in, 1, false));
	}
	is_written = true;
	CHECK(pthread_join(thread, NULL) == 0);
	for (size_t i = 0; i < SHARED; i++)
		CHECK(i % 512 == 0 || in[i] == 0);
	OK(daos_array_close(array, NULL));
	free(buf);
	free(in);
}

int
main(int argc, char **argv)
{
	struct store store = store_open(argv[argc - 1], "array");

	cells(&store);
	bytes(&store);
	global(&store);
	changing(&store);
	store_close(&store);
	return 0;
}
