/* SPDX-License-Identifier: Apache-2.0 */

/* Objects: dkeys, akeys, single values and arrays, listings, punches, queries. */

#include "check.h"

static void
set(daos_key_t *key, const char *text)
{
	d_iov_set(key, (void *)(uintptr_t)text, strlen(text));
}

static void
put(daos_handle_t oh, const char *dkey, const char *akey, const char *value)
{
	daos_key_t  dkey_iov;
	daos_iod_t  iod = {{NULL, 0, 0}, DAOS_IOD_SINGLE, strlen(value), 0, 1, NULL};
	d_iov_t     iov;
	d_sg_list_t sgl = {1, 0, &iov};

	set(&dkey_iov, dkey);
	set(&iod.iod_name, akey);
	set(&iov, value);
	OK(daos_obj_update(oh, NO_TX, 0, &dkey_iov, 1, &iod, &sgl, NULL));
}

/** The size of a value; copies its bytes to buf. */
static daos_size_t
get(daos_handle_t oh, const char *dkey, const char *akey, char *buf, size_t len)
{
	daos_key_t  dkey_iov;
	daos_iod_t  iod = {{NULL, 0, 0}, DAOS_IOD_SINGLE, DAOS_REC_ANY, 0, 1, NULL};
	d_iov_t     iov;
	d_sg_list_t sgl = {1, 0, &iov};

	set(&dkey_iov, dkey);
	set(&iod.iod_name, akey);
	d_iov_set(&iov, buf, len);
	OK(daos_obj_fetch(oh, NO_TX, 0, &dkey_iov, 1, &iod, &sgl, NULL, NULL));
	CHECK(sgl.sg_nr_out == (iod.iod_size > 0));
	return iod.iod_size;
}

static int
count_akeys(daos_handle_t oh, const char *dkey)
{
	daos_key_desc_t kds[4];
	char            buf[64];
	daos_anchor_t   anchor = DAOS_ANCHOR_INIT;
	daos_key_t      dkey_iov;
	int             count = 0;

	set(&dkey_iov, dkey);
	while (!daos_anchor_is_eof(&anchor)) {
		d_iov_t     iov;
		d_sg_list_t sgl = {1, 0, &iov};
		uint32_t    nr  = 4;

		d_iov_set(&iov, buf, sizeof(buf));
		OK(daos_obj_list_akey(oh, NO_TX, &dkey_iov, &nr, kds, &sgl, &anchor, NULL));
		count += (int)nr;
	}
	return count;
}

static void
values(struct store *store)
{
	daos_handle_t oh;
	daos_key_t    keys[2];
	char          akey[16], buf[16];
	int           i;

	OK(daos_obj_open(store->coh, new_oid(store, DAOS_OT_MULTI_HASHED, OC_SX), DAOS_OO_RW, &oh,
			 NULL));
	for (i = 0; i < 20; i++) {
		snprintf(akey, sizeof(akey), "akey %d", i);
		put(oh, "dkey", akey, akey);
	}
	CHECK(get(oh, "dkey", "akey 7", buf, sizeof(buf)) == 6 && memcmp(buf, "akey 7", 6) == 0);
	CHECK(get(oh, "dkey", "none", buf, sizeof(buf)) == 0);
	CHECK(count_akeys(oh, "dkey") == 20);
	set(&keys[0], "akey 7");
	set(&keys[1], "akey 8");
	{
		daos_key_t dkey;

		set(&dkey, "dkey");
		OK(daos_obj_punch_akeys(oh, NO_TX, 0, &dkey, 2, keys, NULL));
		CHECK(count_akeys(oh, "dkey") == 18);
		GIVES(-DER_INVAL, daos_obj_punch_dkeys(oh, NO_TX, 0, 2, keys, NULL));
		OK(daos_obj_punch_dkeys(oh, NO_TX, DAOS_COND_PUNCH, 1, &dkey, NULL));
		GIVES(-DER_NONEXIST, daos_obj_punch_dkeys(oh, NO_TX, DAOS_COND_PUNCH, 1, &dkey, NULL));
	}
	OK(daos_obj_close(oh, NULL));
}

static void
records(struct store *store)
{
	uint64_t    key = 42, last = 0;
	daos_key_t  dkey, found;
	daos_recx_t recxs[2] = {{10, 4}, {20, 2}}, all = {8, 16}, recx;
	daos_iod_t  iod      = {{NULL, 0, 0}, DAOS_IOD_ARRAY, 1, 0, 2, recxs};
	d_iov_t     iovs[2];
	d_sg_list_t sgl = {2, 0, iovs};
	daos_iom_t  iom = {0};
	char        buf[17] = "................";
	daos_handle_t oh;

	OK(daos_obj_open(store->coh, new_oid(store, DAOS_OT_DKEY_UINT64, OC_S2), DAOS_OO_RW, &oh,
			 NULL));
	d_iov_set(&dkey, &key, sizeof(key));
	set(&iod.iod_name, "akey");
	set(&iovs[0], "abcd");
	set(&iovs[1], "ef");
	OK(daos_obj_update(oh, NO_TX, 0, &dkey, 1, &iod, &sgl, NULL));

	iod.iod_nr    = 1;
	iod.iod_recxs = &all;
	iod.iod_size  = DAOS_REC_ANY;
	iom.iom_flags = DAOS_IOMF_DETAIL;
	d_iov_set(&iovs[0], buf, 7);
	d_iov_set(&iovs[1], buf + 7, 9);
	OK(daos_obj_fetch(oh, NO_TX, 0, &dkey, 1, &iod, &sgl, &iom, NULL));
	CHECK(memcmp(buf, "..abcd......ef..", 16) == 0 && iod.iod_size == 1);
	CHECK(iom.iom_nr_out == 2 && iom.iom_recxs[1].rx_idx == 20);
	free(iom.iom_recxs);

	d_iov_set(&found, &last, sizeof(last));
	OK(daos_obj_query_key(oh, NO_TX, DAOS_GET_MAX | DAOS_GET_DKEY | DAOS_GET_RECX, &found,
			      &iod.iod_name, &recx, NULL));
	CHECK(last == 42 && recx.rx_idx + recx.rx_nr == 22);
	OK(daos_obj_punch(oh, NO_TX, 0, NULL));
	OK(daos_obj_close(oh, NULL));
}

int
main(int argc, char **argv)
{
	struct store store = store_open(argv[argc - 1], "object");

	values(&store);
	records(&store);
	store_close(&store);
	return 0;
}
