/* SPDX-License-Identifier: Apache-2.0 */

/* Transactions, snapshots, and the objects of a snapshot. */

#include "check.h"

static daos_size_t
size_of(daos_handle_t kv, daos_handle_t th)
{
	daos_size_t size = 0;

	OK(daos_kv_get(kv, th, 0, "key", &size, NULL, NULL));
	return size;
}

static void
transactions(struct store *store)
{
	daos_handle_t a = new_kv(store), b = new_kv(store), th;
	daos_epoch_t  epoch = 0;

	OK(daos_tx_open(store->coh, &th, 0, NULL));
	OK(daos_kv_put(a, th, 0, "key", 1, "x", NULL));
	OK(daos_kv_put(b, th, 0, "key", 2, "xx", NULL));
	CHECK(size_of(a, NO_TX) == 0 && size_of(a, th) == 0);
	OK(daos_tx_commit(th, NULL));
	CHECK(size_of(a, NO_TX) == 1 && size_of(b, NO_TX) == 2);
	OK(daos_tx_hdl2epoch(th, &epoch));
	CHECK(epoch != 0);
	GIVES(-DER_ALREADY, daos_tx_commit(th, NULL));
	GIVES(-DER_NO_PERM, daos_kv_put(a, th, 0, "key", 1, "x", NULL));
	OK(daos_tx_close(th, NULL));

	OK(daos_tx_open(store->coh, &th, 0, NULL));
	size_of(a, th);
	OK(daos_kv_put(b, th, 0, "key", 3, "xxx", NULL));
	OK(daos_kv_put(a, NO_TX, 0, "key", 4, "xxxx", NULL));
	GIVES(-DER_TX_RESTART, daos_tx_commit(th, NULL));
	OK(daos_tx_restart(th, NULL));
	size_of(a, th);
	OK(daos_kv_put(b, th, 0, "key", 3, "xxx", NULL));
	OK(daos_tx_commit(th, NULL));
	CHECK(size_of(b, NO_TX) == 3);
	OK(daos_tx_close(th, NULL));
	OK(daos_kv_close(a, NULL));
	OK(daos_kv_close(b, NULL));
}

static void
snapshots(struct store *store)
{
	daos_handle_t      kv = new_kv(store), th, oit;
	daos_epoch_t       epoch, listed = 0;
	daos_epoch_range_t epr;
	daos_anchor_t      anchor = DAOS_ANCHOR_INIT;
	daos_obj_id_t      oids[16];
	uint32_t           nr = 16;
	int                count = 1;

	OK(daos_kv_put(kv, NO_TX, 0, "key", 1, "x", NULL));
	OK(daos_cont_create_snap_opt(store->coh, &epoch, NULL, DAOS_SNAP_OPT_CR | DAOS_SNAP_OPT_OIT,
				     NULL));
	OK(daos_kv_put(kv, NO_TX, 0, "key", 5, "later", NULL));
	OK(daos_tx_open_snap(store->coh, epoch, &th, NULL));
	CHECK(size_of(kv, th) == 1 && size_of(kv, NO_TX) == 5);
	OK(daos_tx_close(th, NULL));

	OK(daos_cont_list_snap(store->coh, &count, &listed, NULL, &anchor, NULL));
	CHECK(count == 1 && listed == epoch && daos_anchor_is_eof(&anchor));
	OK(daos_oit_open(store->coh, epoch, &oit, NULL));
	memset(&anchor, 0, sizeof(anchor));
	OK(daos_oit_list(oit, oids, &nr, &anchor, NULL));
	CHECK(nr >= 1);
	OK(daos_oit_close(oit, NULL));
	epr.epr_lo = epr.epr_hi = epoch;
	OK(daos_cont_destroy_snap(store->coh, epr, NULL));
	GIVES(-DER_NONEXIST, daos_cont_destroy_snap(store->coh, epr, NULL));
	OK(daos_kv_close(kv, NULL));
}

/* Number of objects in a table, and whether it has an object. */
static int
objects_of(daos_handle_t oit, daos_obj_id_t wanted, int *found)
{
	daos_anchor_t anchor = DAOS_ANCHOR_INIT;
	daos_obj_id_t oids[2];
	int           count = 0;

	*found = 0;
	while (!daos_anchor_is_eof(&anchor)) {
		uint32_t nr = 2;

		OK(daos_oit_list(oit, oids, &nr, &anchor, NULL));
		count += nr;
		for (uint32_t i = 0; i < nr; i++)
			*found |= oids[i].lo == wanted.lo && oids[i].hi == wanted.hi;
	}
	return count;
}

/* In a pool without snapshots, a table of objects is stored when it is created. */
static void
stored_tables(struct store *store)
{
	daos_epoch_t       epoch, second, listed[3] = {0};
	daos_epoch_range_t epr;
	daos_anchor_t      anchor = DAOS_ANCHOR_INIT;
	daos_obj_id_t      oid;
	daos_handle_t      kv, oit, th;
	d_iov_t            mark;
	int                opts = DAOS_SNAP_OPT_CR | DAOS_SNAP_OPT_OIT, nr = 3, count, found;

	OK(daos_cont_create_snap_opt(store->coh, &epoch, NULL, opts, NULL));
	oid = new_oid(store, DAOS_OT_KV_HASHED, OC_SX);
	OK(daos_kv_open(store->coh, oid, DAOS_OO_RW, &kv, NULL));
	OK(daos_kv_put(kv, NO_TX, 0, "key", 5, "later", NULL));
	OK(daos_cont_create_snap_opt(store->coh, &second, NULL, opts, NULL));
	OK(daos_cont_list_snap(store->coh, &nr, listed, NULL, &anchor, NULL));
	CHECK(nr == 2 && listed[0] == epoch && listed[1] == second && second > epoch);
	GIVES(-DER_NOTSUPPORTED, daos_tx_open_snap(store->coh, epoch, &th, NULL));
	GIVES(-DER_NONEXIST, daos_tx_open_snap(store->coh, epoch + 1, &th, NULL));

	OK(daos_oit_open(store->coh, epoch, &oit, NULL));
	count = objects_of(oit, oid, &found);
	CHECK(count > 0 && !found);
	d_iov_set(&mark, "seen", 4);
	GIVES(-DER_NONEXIST, daos_oit_mark(oit, oid, &mark, NULL));
	OK(daos_oit_close(oit, NULL));
	OK(daos_oit_open(store->coh, second, &oit, NULL));
	CHECK(objects_of(oit, oid, &found) == count + 1 && found);
	OK(daos_oit_mark(oit, oid, &mark, NULL));
	OK(daos_oit_close(oit, NULL));

	for (int i = 0; i < 2; i++) {
		epr.epr_lo = epr.epr_hi = listed[i];
		OK(daos_cont_destroy_snap(store->coh, epr, NULL));
		GIVES(-DER_NONEXIST, daos_cont_destroy_snap(store->coh, epr, NULL));
		GIVES(-DER_NONEXIST, daos_oit_open(store->coh, listed[i], &oit, NULL));
	}
	OK(daos_kv_close(kv, NULL));
}

/* Whether the pool supports snapshots. */
static int
has_snapshots(struct store *store)
{
	daos_epoch_t       epoch;
	daos_epoch_range_t epr;
	int                rc = daos_cont_create_snap(store->coh, &epoch, NULL, NULL);

	if (rc == -DER_NOTSUPPORTED)
		return 0;
	OK(rc);
	epr.epr_lo = epr.epr_hi = epoch;
	OK(daos_cont_destroy_snap(store->coh, epr, NULL));
	return 1;
}

int
main(int argc, char **argv)
{
	struct store store = store_open(argv[argc - 1], "tx");

	transactions(&store);
	if (has_snapshots(&store))
		snapshots(&store);
	else
		stored_tables(&store);
	store_close(&store);
	return 0;
}
