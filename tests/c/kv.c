/* SPDX-License-Identifier: Apache-2.0 */

/* KV objects: values, sizes, conditions, listing. */

#include "check.h"

enum { KEYS = 500 };

static void
values(daos_handle_t kv)
{
	char        buf[8] = "........";
	daos_size_t size   = 0xdeadbeef;

	OK(daos_kv_put(kv, NO_TX, 0, "key", 5, "value", NULL));
	OK(daos_kv_get(kv, NO_TX, 0, "key", &size, NULL, NULL));
	CHECK(size == 5);
	size = sizeof(buf);
	OK(daos_kv_get(kv, NO_TX, 0, "key", &size, buf, NULL));
	CHECK(size == 5 && memcmp(buf, "value...", 8) == 0);
	size = 2;
	GIVES(-DER_REC2BIG, daos_kv_get(kv, NO_TX, 0, "key", &size, buf, NULL));
	CHECK(size == 5);
	size = sizeof(buf);
	OK(daos_kv_get(kv, NO_TX, 0, "none", &size, buf, NULL));
	CHECK(size == 0);
}

static void
conditions(daos_handle_t kv)
{
	daos_size_t size = 0;

	GIVES(-DER_EXIST, daos_kv_put(kv, NO_TX, DAOS_COND_KEY_INSERT, "key", 1, "x", NULL));
	GIVES(-DER_NONEXIST, daos_kv_put(kv, NO_TX, DAOS_COND_KEY_UPDATE, "none", 1, "x", NULL));
	GIVES(-DER_NONEXIST, daos_kv_get(kv, NO_TX, DAOS_COND_KEY_GET, "none", &size, NULL, NULL));
	GIVES(-DER_NONEXIST, daos_kv_remove(kv, NO_TX, DAOS_COND_KEY_REMOVE, "none", NULL));
	OK(daos_kv_remove(kv, NO_TX, 0, "none", NULL));
	OK(daos_kv_remove(kv, NO_TX, 0, "key", NULL));
	GIVES(-DER_INVAL, daos_kv_put(kv, NO_TX, 0, NULL, 1, "x", NULL));
}

/** Lists like FDB: more entries than fit in the buffer. */
static int
count_keys(daos_handle_t kv)
{
	static daos_key_desc_t kds[1024];
	static char            buf[1024];
	daos_anchor_t          anchor = DAOS_ANCHOR_INIT;
	int                    count  = 0;

	while (!daos_anchor_is_eof(&anchor)) {
		d_iov_t     iov;
		d_sg_list_t sgl = {1, 0, &iov};
		uint32_t    nr  = 1024;

		d_iov_set(&iov, buf, sizeof(buf));
		OK(daos_kv_list(kv, NO_TX, &nr, kds, &sgl, &anchor, NULL));
		count += (int)nr;
	}
	return count;
}

static void
listing(daos_handle_t kv)
{
	char key[32];
	int  i;

	for (i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "a key of the list %d", i);
		OK(daos_kv_put(kv, NO_TX, 0, key, sizeof(i), &i, NULL));
	}
	CHECK(count_keys(kv) == KEYS);
	OK(daos_kv_destroy(kv, NO_TX, NULL));
	CHECK(count_keys(kv) == 0);
}

int
main(int argc, char **argv)
{
	struct store  store = store_open(argv[argc - 1], "kv");
	daos_handle_t kv    = new_kv(&store);

	values(kv);
	conditions(kv);
	listing(kv);
	OK(daos_obj_close(kv, NULL));
	GIVES(-DER_NO_HDL, daos_kv_close(kv, NULL));
	store_close(&store);
	return 0;
}
