/* SPDX-License-Identifier: Apache-2.0 */

/* Children of a process that uses the library, with and without events in flight. */

#include <sys/wait.h>

#include "check.h"

enum { CHILDREN = 8, KEYS = 50 };

static void
write_keys(daos_handle_t kv, int child)
{
	char key[32];
	int  i;

	for (i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "%d.%d", child, i);
		OK(daos_kv_put(kv, NO_TX, 0, key, sizeof(child), &child, NULL));
	}
}

/** A child opens pools and containers itself; the parent's handles are not valid in it. */
static void
child(const char *pool, struct store *store, daos_obj_id_t oid, daos_handle_t inherited, int number)
{
	daos_handle_t poh, coh, kv, eq;
	daos_event_t  ev, *done;
	daos_size_t   size = 0;

	OK(daos_reinit());
	GIVES(-DER_NO_HDL, daos_kv_put(inherited, NO_TX, 0, "key", 1, "x", NULL));
	OK(daos_pool_connect(pool, NULL, DAOS_PC_RW, &poh, NULL, NULL));
	OK(daos_cont_open(poh, store->label, DAOS_COO_RW, &coh, NULL, NULL));
	OK(daos_kv_open(coh, oid, DAOS_OO_RW, &kv, NULL));
	write_keys(kv, number);
	OK(daos_eq_create(&eq));
	OK(daos_event_init(&ev, eq, NULL));
	OK(daos_kv_get(kv, NO_TX, 0, "parent", &size, NULL, &ev));
	CHECK(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done) == 1 && ev.ev_error == 0 && size == 1);
	OK(daos_eq_destroy(eq, 0));
	OK(daos_kv_close(kv, NULL));
	OK(daos_cont_close(coh, NULL));
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
	_exit(0);
}

static void
check_keys(daos_handle_t kv)
{
	char        key[32];
	daos_size_t size;
	int         i, n, value;

	for (n = 0; n < CHILDREN; n++) {
		for (i = 0; i < KEYS; i++) {
			snprintf(key, sizeof(key), "%d.%d", n, i);
			size = sizeof(value);
			OK(daos_kv_get(kv, NO_TX, DAOS_COND_KEY_GET, key, &size, &value, NULL));
			CHECK(value == n);
		}
	}
}

int
main(int argc, char **argv)
{
	const char   *pool  = argv[argc - 1];
	struct store  store = store_open(pool, "fork");
	daos_obj_id_t oid   = new_oid(&store, DAOS_OT_KV_HASHED, OC_SX);
	daos_handle_t kv, eq;
	daos_event_t  ev, *done;
	int           i, status;

	OK(daos_kv_open(store.coh, oid, DAOS_OO_RW, &kv, NULL));
	OK(daos_kv_put(kv, NO_TX, 0, "parent", 1, "x", NULL));
	OK(daos_eq_create(&eq));
	OK(daos_event_init(&ev, eq, NULL));
	for (i = 0; i < CHILDREN; i++) {
		OK(daos_kv_put(kv, NO_TX, 0, "parent", 1, "x", &ev));
		if (fork() == 0)
			child(pool, &store, oid, kv, i);
		CHECK(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done) == 1);
		OK(daos_kv_put(kv, NO_TX, 0, "parent", 1, "x", NULL));
	}
	for (i = 0; i < CHILDREN; i++) {
		CHECK(wait(&status) > 0);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	check_keys(kv);
	OK(daos_eq_destroy(eq, 0));
	OK(daos_kv_close(kv, NULL));
	store_close(&store);
	return 0;
}
