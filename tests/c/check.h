/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_TESTS_CHECK_H
#define ESKER_TESTS_CHECK_H

/*
 * Shared code of the C programs in this directory. Each takes the name of a pool, creates a
 * container in it, and removes it. The first check that fails ends the program with status 1.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <daos.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);    \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/** Checks the return code of a call. */
#define GIVES(expected, call)                                                                      \
	do {                                                                                       \
		int rc_ = (call);                                                                  \
		if (rc_ != (expected)) {                                                           \
			fprintf(stderr, "%s:%d: %s gives %d, not %d\n", __FILE__, __LINE__, #call, \
				rc_, (expected));                                                  \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define OK(call) GIVES(0, call)

#define NO_TX DAOS_TX_NONE

/** A pool with a container, both open. */
struct store {
	daos_handle_t poh;
	daos_handle_t coh;
	char          label[64];
};

/** Initializes the library and creates a container with the program's name as its label. */
static inline struct store
store_open(const char *pool, const char *name)
{
	struct store store;

	snprintf(store.label, sizeof(store.label), "%s-%d", name, (int)getpid());
	OK(daos_init());
	OK(daos_pool_connect(pool, NULL, DAOS_PC_RW, &store.poh, NULL, NULL));
	OK(daos_cont_create_with_label(store.poh, store.label, NULL, NULL, NULL));
	OK(daos_cont_open(store.poh, store.label, DAOS_COO_RW, &store.coh, NULL, NULL));
	return store;
}

static inline void
store_close(struct store *store)
{
	OK(daos_cont_close(store->coh, NULL));
	OK(daos_cont_destroy(store->poh, store->label, 0, NULL));
	OK(daos_pool_disconnect(store->poh, NULL));
	OK(daos_fini());
}

/** A unique object id. */
static inline daos_obj_id_t
new_oid(struct store *store, enum daos_otype_t type, daos_oclass_id_t class)
{
	daos_obj_id_t oid = {0, 0};

	OK(daos_cont_alloc_oids(store->coh, 1, &oid.lo, NULL));
	OK(daos_obj_generate_oid(store->coh, &oid, type, class, 0, 0));
	return oid;
}

static inline daos_handle_t
new_kv(struct store *store)
{
	daos_handle_t oh;

	OK(daos_kv_open(store->coh, new_oid(store, DAOS_OT_KV_HASHED, OC_SX), DAOS_OO_RW, &oh,
			NULL));
	return oh;
}

#endif /* ESKER_TESTS_CHECK_H */
