/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares every Array of every container of a pool with a file.
 *
 * usage: equal POOL FILE
 *
 * Prints how many are equal; fails if one differs or none is found.
 */
#include <daos.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTAINERS_MAX 1024
#define OIDS_MAX       256

static void
must(int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, d_errdesc(rc));
	exit(1);
}

static char *
read_file(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	char *bytes;

	if (file == NULL || fseek(file, 0, SEEK_END) != 0)
		exit(1);
	*size = (size_t)ftell(file);
	rewind(file);
	bytes = malloc(*size);
	if (bytes == NULL || fread(bytes, 1, *size, file) != *size)
		exit(1);
	fclose(file);
	return bytes;
}

static int
is_equal(daos_handle_t cont, daos_obj_id_t oid, const char *bytes, size_t size)
{
	daos_size_t      cell, chunk, cells;
	daos_handle_t    array;
	daos_range_t     range = {0, size};
	daos_array_iod_t iod   = {1, &range, 0, 0};
	char            *found = calloc(1, size);
	d_iov_t          iov;
	d_sg_list_t      sgl = {1, 0, &iov};
	int              equal;

	must(daos_array_open(cont, oid, DAOS_TX_NONE, DAOS_OO_RO, &cell, &chunk, &array, NULL), "opening");
	must(daos_array_get_size(array, DAOS_TX_NONE, &cells, NULL), "querying the size");
	d_iov_set(&iov, found, size);
	equal = cells * cell == size;
	if (equal)
		must(daos_array_read(array, DAOS_TX_NONE, &iod, &sgl, NULL), "reading");
	must(daos_array_close(array, NULL), "closing");
	equal = equal && memcmp(found, bytes, size) == 0;
	free(found);
	return equal;
}

/* Returns the number of Arrays that are equal; ends the program if one differs. */
static unsigned
compare_container(daos_handle_t pool, const char *name, const char *bytes, size_t size)
{
	daos_handle_t cont, table;
	daos_epoch_t  epoch;
	daos_anchor_t anchor = {0};
	daos_obj_id_t oids[OIDS_MAX];
	unsigned      equal = 0;

	must(daos_cont_open(pool, name, DAOS_COO_RW, &cont, NULL, NULL), name);
	must(daos_cont_create_snap_opt(cont, &epoch, NULL, DAOS_SNAP_OPT_CR | DAOS_SNAP_OPT_OIT, NULL), "snapshot");
	must(daos_oit_open(cont, epoch, &table, NULL), "object table");
	while (!daos_anchor_is_eof(&anchor)) {
		uint32_t count = OIDS_MAX;

		must(daos_oit_list(table, oids, &count, &anchor, NULL), "listing objects");
		for (uint32_t i = 0; i < count; i++) {
			if (daos_obj_id2type(oids[i]) != DAOS_OT_ARRAY)
				continue;
			if (!is_equal(cont, oids[i], bytes, size)) {
				fprintf(stderr, "an Array of container %s differs\n", name);
				exit(1);
			}
			equal++;
		}
	}
	must(daos_oit_close(table, NULL), "closing");
	must(daos_cont_close(cont, NULL), "closing");
	return equal;
}

int
main(int argc, char **argv)
{
	static struct daos_pool_cont_info containers[CONTAINERS_MAX];
	daos_size_t                       count = CONTAINERS_MAX;
	daos_handle_t                     pool;
	unsigned                          equal = 0;
	size_t                            size;
	char                             *bytes;

	if (argc != 3)
		return 2;
	bytes = read_file(argv[2], &size);
	must(daos_init(), "starting");
	must(daos_pool_connect(argv[1], NULL, DAOS_PC_RW, &pool, NULL, NULL), argv[1]);
	must(daos_pool_list_cont(pool, &count, containers, NULL), "listing containers");
	for (daos_size_t i = 0; i < count; i++) {
		char uuid[37];

		uuid_unparse(containers[i].pci_uuid, uuid);
		equal += compare_container(pool, uuid, bytes, size);
	}
	must(daos_pool_disconnect(pool, NULL), "disconnecting");
	must(daos_fini(), "ending");
	printf("%u Arrays are equal\n", equal);
	return equal > 0 ? 0 : 1;
}
