/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a value into a Key-Value and reads it back: the program of the C lines in README.md.
 *
 * compile: cc first.c -o first $(pkg-config --cflags --libs daos)
 *
 * Needs a pool "tank" with a container "run1":  esker pool create tank --size 1G; esker cont create tank run1
 *
 * Calls reject handles that could not be opened, so checking the last call detects every failure. ESKER_LOG=1 shows its
 * cause.
 */
#include <daos.h>
#include <stdio.h>

int
main(void)
{
	daos_handle_t pool = {0}, cont = {0}, kv = {0};
	daos_obj_id_t oid = {.lo = 1};
	char          value[16] = "";
	daos_size_t   size = sizeof(value);
	int           rc;

	daos_init();
	daos_pool_connect("tank", NULL, DAOS_PC_RW, &pool, NULL, NULL);
	daos_cont_open(pool, "run1", DAOS_COO_RW, &cont, NULL, NULL);
	daos_obj_generate_oid(cont, &oid, DAOS_OT_KV_HASHED, OC_SX, 0, 0);
	daos_kv_open(cont, oid, DAOS_OO_RW, &kv, NULL);
	daos_kv_put(kv, DAOS_TX_NONE, 0, "t2m", 3, "2.1", NULL);

	rc = daos_kv_get(kv, DAOS_TX_NONE, 0, "t2m", &size, value, NULL);
	if (rc != 0) {
		fprintf(stderr, "tank/run1: %s\n", d_errdesc(rc));
		return 1;
	}
	printf("t2m = %.*s\n", (int)size, value);

	daos_kv_close(kv, NULL);
	daos_cont_close(cont, NULL);
	daos_pool_disconnect(pool, NULL);
	return daos_fini();
}
