/* SPDX-License-Identifier: Apache-2.0 */

/* Event queues and events: many at once, parents and children, callbacks. */

#include "check.h"

#include <sched.h>

enum { EVENTS = 64, ROUNDS = 20, CELLS = 4096 };

struct transfer {
	daos_event_t     ev;
	daos_range_t     range;
	daos_array_iod_t iod;
	d_iov_t          iov;
	d_sg_list_t      sgl;
	char             buf[CELLS];
};

static struct transfer transfers[EVENTS];

static int calls;

static int
note(void *arg, daos_event_t *ev, int rc)
{
	CHECK(arg == &calls && ev != NULL && rc == 0);
	__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
	return 0;
}

static void
start(daos_handle_t array, struct transfer *t, int i, bool write)
{
	t->range = (daos_range_t){(daos_off_t)i * CELLS, CELLS};
	t->iod   = (daos_array_iod_t){1, &t->range, 0, 0};
	t->sgl   = (d_sg_list_t){1, 0, &t->iov};
	d_iov_set(&t->iov, t->buf, CELLS);
	if (write)
		OK(daos_array_write(array, NO_TX, &t->iod, &t->sgl, &t->ev));
	else
		OK(daos_array_read(array, NO_TX, &t->iod, &t->sgl, &t->ev));
}

static void
wait_for_all(daos_handle_t eq)
{
	daos_event_t *done[7];
	int           left = EVENTS;

	while (left > 0) {
		int i, count = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 7, done);

		CHECK(count > 0);
		for (i = 0; i < count; i++)
			CHECK(done[i]->ev_error == 0);
		left -= count;
	}
	CHECK(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 7, done) == 0);
}

static void
many(struct store *store, daos_handle_t eq)
{
	daos_handle_t array;
	int           i, round;

	OK(daos_array_create(store->coh, new_oid(store, DAOS_OT_ARRAY, OC_SX), NO_TX, 1, CELLS * 4,
			     &array, NULL));
	for (i = 0; i < EVENTS; i++)
		OK(daos_event_init(&transfers[i].ev, eq, NULL));
	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < EVENTS; i++) {
			memset(transfers[i].buf, i + round, CELLS);
			start(array, &transfers[i], i, true);
		}
		wait_for_all(eq);
		for (i = 0; i < EVENTS; i++) {
			memset(transfers[i].buf, 0, CELLS);
			start(array, &transfers[i], i, false);
		}
		wait_for_all(eq);
		for (i = 0; i < EVENTS; i++)
			CHECK(transfers[i].buf[CELLS - 1] == (char)(i + round));
	}
	for (i = 0; i < EVENTS; i++)
		OK(daos_event_fini(&transfers[i].ev));
	OK(daos_array_close(array, NULL));
}

static void
family(struct store *store, daos_handle_t eq)
{
	daos_handle_t kv = new_kv(store);
	daos_event_t  parent, children[3], *done = NULL;
	bool          flag;
	int           i;

	OK(daos_event_init(&parent, eq, NULL));
	for (i = 0; i < 3; i++) {
		OK(daos_event_init(&children[i], eq, &parent));
		OK(daos_event_register_comp_cb(&children[i], note, &calls));
		OK(daos_kv_put(kv, NO_TX, 0, "key", 1, "x", &children[i]));
	}
	OK(daos_event_parent_barrier(&parent));
	GIVES(-DER_NO_PERM, daos_event_test(&children[0], 0, &flag));
	CHECK(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, &done) == 1);
	CHECK(done == &parent && parent.ev_error == 0 && calls == 3);
	OK(daos_event_fini(&parent));

	OK(daos_event_init(&parent, DAOS_HDL_INVAL, NULL));
	OK(daos_kv_remove(kv, NO_TX, DAOS_COND_KEY_REMOVE, "none", &parent));
	OK(daos_event_test(&parent, DAOS_EQ_WAIT, &flag));
	CHECK(flag && parent.ev_error == -DER_NONEXIST);
	OK(daos_kv_close(kv, NULL));
}

static int ended;

/* Ends the library with the last of these operations. */
static int
end(void *rest, daos_event_t *ev, int rc)
{
	CHECK(ev != NULL && rc == 0);
	if (__atomic_sub_fetch((int *)rest, 1, __ATOMIC_SEQ_CST) == 0) {
		OK(daos_fini());
		__atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
	}
	return 0;
}

/* The callback runs on a thread of the library, which has others. */
static void
fini_in_callback(const char *pool)
{
	struct store        store = store_open(pool, "fini");
	daos_handle_t       kv = new_kv(&store);
	static int          rest = EVENTS;
	static daos_event_t events[EVENTS];
	int                 i;

	for (i = 0; i < EVENTS; i++) {
		OK(daos_event_init(&events[i], DAOS_HDL_INVAL, NULL));
		OK(daos_event_register_comp_cb(&events[i], end, &rest));
	}
	for (i = 0; i < EVENTS; i++)
		OK(daos_kv_put(kv, NO_TX, 0, "key", 1, "x", &events[i]));
	while (!__atomic_load_n(&ended, __ATOMIC_SEQ_CST))
		sched_yield();
	GIVES(-DER_UNINIT, daos_fini());
	OK(daos_init());
	OK(daos_pool_connect(pool, NULL, DAOS_PC_RW, &store.poh, NULL, NULL));
	OK(daos_cont_destroy(store.poh, store.label, 1, NULL));
	OK(daos_pool_disconnect(store.poh, NULL));
	OK(daos_fini());
}

static int waits, refused;

/* Initialises the library while its last daos_fini waits for this callback. */
static int
init_too_late(void *unused, daos_event_t *ev, int rc)
{
	CHECK(unused == NULL && ev != NULL && rc == 0);
	__atomic_store_n(&waits, 1, __ATOMIC_SEQ_CST);
	while (daos_eq_destroy(DAOS_HDL_INVAL, 0) != -DER_UNINIT)
		sched_yield();
	GIVES(-DER_BUSY, daos_init());
	GIVES(-DER_UNINIT, daos_fini());
	refused = 1;
	return 0;
}

static void
init_in_callback_during_fini(const char *pool)
{
	struct store  store = store_open(pool, "fini");
	daos_handle_t kv = new_kv(&store);
	daos_event_t  ev;

	OK(daos_event_init(&ev, DAOS_HDL_INVAL, NULL));
	OK(daos_event_register_comp_cb(&ev, init_too_late, NULL));
	OK(daos_kv_put(kv, NO_TX, 0, "key", 1, "x", &ev));
	while (!__atomic_load_n(&waits, __ATOMIC_SEQ_CST))
		sched_yield();
	OK(daos_fini());
	CHECK(refused);
	OK(daos_init());
	OK(daos_pool_connect(pool, NULL, DAOS_PC_RW, &store.poh, NULL, NULL));
	OK(daos_cont_destroy(store.poh, store.label, 1, NULL));
	OK(daos_pool_disconnect(store.poh, NULL));
	OK(daos_fini());
}

int
main(int argc, char **argv)
{
	struct store  store = store_open(argv[argc - 1], "events");
	daos_handle_t eq;

	OK(daos_eq_create(&eq));
	many(&store, eq);
	family(&store, eq);
	OK(daos_eq_destroy(eq, 0));
	GIVES(-DER_NONEXIST, daos_eq_destroy(eq, 0));
	store_close(&store);
	fini_in_callback(argv[argc - 1]);
	init_in_callback_during_fini(argv[argc - 1]);
	return 0;
}
