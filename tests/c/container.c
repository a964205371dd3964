/* SPDX-License-Identifier: Apache-2.0 */

/* Pools and containers: names, properties, attributes, serialized handles. */

#include <gurt/common.h>

#include "check.h"

static void
names(struct store *store)
{
	daos_handle_t    coh;
	daos_cont_info_t info;
	uuid_t           uuid;
	char             text[DAOS_UUID_STR_SIZE];
	daos_size_t      count = 0;

	GIVES(-DER_EXIST, daos_cont_create_with_label(store->poh, store->label, NULL, NULL, NULL));
	GIVES(-DER_INVAL, daos_cont_create_with_label(store->poh, "a/b", NULL, NULL, NULL));
	GIVES(-DER_NONEXIST, daos_cont_open(store->poh, "none", DAOS_COO_RW, &coh, NULL, NULL));
	OK(daos_cont_create(store->poh, &uuid, NULL, NULL));
	uuid_unparse(uuid, text);
	OK(daos_cont_open(store->poh, text, DAOS_COO_RO, &coh, &info, NULL));
	CHECK(uuid_compare(info.ci_uuid, uuid) == 0);
	GIVES(-DER_BUSY, daos_cont_destroy(store->poh, text, 0, NULL));
	OK(daos_cont_destroy(store->poh, text, 1, NULL));
	OK(daos_cont_close(coh, NULL));
	OK(daos_pool_list_cont(store->poh, &count, NULL, NULL));
	CHECK(count >= 1);
}

static void
pool(struct store *store)
{
	daos_pool_info_t info;
	d_rank_list_t   *ranks = NULL;

	memset(&info, 0xff, sizeof(info));
	OK(daos_pool_query(store->poh, &ranks, &info, NULL, NULL));
	CHECK(info.pi_ntargets >= 2 && info.pi_nnodes == 1 && info.pi_ndisabled == 0);
	CHECK(info.pi_space.ps_ntargets == info.pi_ntargets);
	d_rank_list_free(ranks);
}

static void
properties(struct store *store)
{
	daos_prop_t   *prop = daos_prop_alloc(3);
	daos_handle_t  coh;
	char           label[80];

	snprintf(label, sizeof(label), "%s-props", store->label);
	prop->dpp_entries[0].dpe_type = DAOS_PROP_CO_LAYOUT_TYPE;
	prop->dpp_entries[0].dpe_val  = DAOS_PROP_CO_LAYOUT_HDF5;
	prop->dpp_entries[1].dpe_type = DAOS_PROP_CO_CSUM;
	prop->dpp_entries[1].dpe_val  = DAOS_PROP_CO_CSUM_CRC64;
	prop->dpp_entries[2].dpe_type = DAOS_PROP_CO_OWNER_GROUP;
	OK(daos_prop_set_str(prop, DAOS_PROP_CO_OWNER_GROUP, "us@", 3));
	OK(daos_cont_create_with_label(store->poh, label, prop, NULL, NULL));
	daos_prop_free(prop);

	OK(daos_cont_open(store->poh, label, DAOS_COO_RW, &coh, NULL, NULL));
	prop = daos_prop_alloc(0);
	OK(daos_cont_query(coh, NULL, prop, NULL));
	CHECK(prop->dpp_nr == DAOS_PROP_CO_NUM);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_CO_LAYOUT_TYPE)->dpe_val == 2);
	CHECK(daos_prop_entry_get(prop, DAOS_PROP_CO_CSUM)->dpe_val == 3);
	CHECK(strcmp(daos_prop_entry_get(prop, DAOS_PROP_CO_OWNER_GROUP)->dpe_str, "us@") == 0);
	CHECK(strcmp(daos_prop_entry_get(prop, DAOS_PROP_CO_LABEL)->dpe_str, label) == 0);
	daos_prop_free(prop);
	OK(daos_cont_close(coh, NULL));
	OK(daos_cont_destroy(store->poh, label, 0, NULL));
}

static void
attributes(struct store *store)
{
	const char *names[2]  = {"one", "two"};
	const void *values[2] = {"first", "2"};
	size_t      sizes[2]  = {5, 1};
	char        a[8], b[8];
	void       *places[2] = {a, b};

	OK(daos_cont_set_attr(store->coh, 2, names, values, sizes, NULL));
	sizes[0] = sizes[1] = 8;
	OK(daos_cont_get_attr(store->coh, 2, names, places, sizes, NULL));
	CHECK(sizes[0] == 5 && memcmp(a, "first", 5) == 0 && sizes[1] == 1);
	sizes[0] = 0;
	OK(daos_cont_list_attr(store->coh, NULL, sizes, NULL));
	CHECK(sizes[0] == 8);
	OK(daos_cont_del_attr(store->coh, 1, names, NULL));
	GIVES(-DER_NONEXIST, daos_cont_get_attr(store->coh, 1, names, NULL, sizes, NULL));
	CHECK(sizes[0] == 0);
	sizes[0] = sizes[1] = 8;
	OK(daos_cont_get_attr(store->coh, 2, names, places, sizes, NULL));
	CHECK(sizes[0] == 0 && sizes[1] == 1);
	sizes[0] = 0;
	GIVES(-DER_INVAL, daos_cont_set_attr(store->coh, 1, names, values, sizes, NULL));
}

static void
fill(int (*put)(daos_handle_t, d_iov_t *), daos_handle_t handle, d_iov_t *glob)
{
	*glob = (d_iov_t){NULL, 0, 0};
	OK(put(handle, glob));
	glob->iov_buf = malloc(glob->iov_buf_len);
	OK(put(handle, glob));
	CHECK(glob->iov_len == glob->iov_buf_len);
}

static void
global(struct store *store)
{
	daos_handle_t poh, coh;
	d_iov_t       pool, cont;

	fill(daos_pool_local2global, store->poh, &pool);
	fill(daos_cont_local2global, store->coh, &cont);
	OK(daos_pool_global2local(pool, &poh));
	OK(daos_cont_global2local(poh, cont, &coh));
	GIVES(-DER_BUSY, daos_pool_disconnect(poh, NULL));
	OK(daos_cont_close(coh, NULL));
	OK(daos_pool_disconnect(poh, NULL));
	((char *)pool.iov_buf)[0] ^= 1;
	GIVES(-DER_INVAL, daos_pool_global2local(pool, &poh));
	free(pool.iov_buf);
	free(cont.iov_buf);
}

/* The pool's directory is searched, unless the test was given an existing pool. */
static void
pools(void)
{
	daos_mgmt_pool_info_t room[1];
	daos_size_t           count = 0;

	OK(daos_mgmt_list_pools(NULL, &count, NULL, NULL));
	if (count == 0)
		return;
	count = 0;
	GIVES(-DER_OVERFLOW, daos_mgmt_list_pools(NULL, &count, room, NULL));
	CHECK(count > 0);
}

int
main(int argc, char **argv)
{
	struct store store = store_open(argv[argc - 1], "container");

	pools();
	names(&store);
	pool(&store);
	properties(&store);
	attributes(&store);
	global(&store);
	store_close(&store);
	return 0;
}
