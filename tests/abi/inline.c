/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs the inline functions of the headers. They are compiled into programs, so they must work with
 * any library. No library is needed.
 */

#include <stdio.h>

#include <daos.h>
#include <daos/common.h>
#include <gurt/common.h>
#include <gurt/debug.h>
#include <gurt/list.h>

static int failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("line %d: %s\n", __LINE__, #condition);                             \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

/* Called by daos_array_generate_oid; replaces the library's function. */
int
daos_obj_generate_oid2(daos_handle_t coh, daos_obj_id_t *oid, enum daos_otype_t type,
		       daos_oclass_id_t cid, daos_oclass_hints_t hints, uint32_t args)
{
	(void)coh;
	(void)hints;
	(void)args;
	oid->hi = (oid->hi & 0xffffffff) | (uint64_t)type << 56 | (uint64_t)(cid >> 24) << 48 |
		  (uint64_t)(cid & 0xffff) << 32;
	return 0;
}

static void
object_ids(void)
{
	daos_obj_id_t oid = {7, 0x0b01000400000005ULL};

	CHECK(daos_obj_id2type(oid) == DAOS_OT_ARRAY);
	CHECK(daos_obj_id2ord(oid) == OR_RP_1);
	CHECK(daos_obj_id2grp_nr(oid) == 4);
	CHECK(daos_obj_id2class(oid) == OC_S4);
	CHECK(daos_is_array(oid) && !daos_is_kv(oid));
	CHECK(daos_is_dkey_uint64(oid) && !daos_is_akey_uint64(oid));
	CHECK(!daos_is_dkey_lexical(oid) && !daos_is_akey_lexical(oid));
	CHECK(!daos_obj_id_is_nil(oid) && daos_obj_id_is_nil(DAOS_OBJ_NIL));

	oid.hi = 0xffffffffULL;
	daos_obj_oid_cycle(&oid);
	CHECK(oid.hi == 999999936);

	CHECK(daos_array_generate_oid(DAOS_HDL_INVAL, &oid, true, OC_RP_2G1, 0, 0) == 0);
	CHECK(oid.hi == (0x0b08000100000000ULL | 999999936));
	CHECK(daos_array_generate_oid(DAOS_HDL_INVAL, &oid, false, OC_SX, 0, 0) == 0);
	CHECK(oid.hi == (0x0c01ffff00000000ULL | 999999936));
}

static void
object_types(void)
{
	/* One letter per type, starting at 0: whether the type has the property. */
	static const char dkey_lexical[] = ".....#.#..#....";
	static const char akey_lexical[] = "......##.......";
	static const char dkey_integer[] = "..#.#....#.###.";
	static const char akey_integer[] = "...##..........";
	static const char kv[]           = "........###....";
	static const char array[]        = "...........###.";
	int               i;

	for (i = 0; i <= DAOS_OT_MAX; i++) {
		enum daos_otype_t type = (enum daos_otype_t)i;

		CHECK(daos_otype_t_is_valid(type));
		CHECK(daos_is_dkey_lexical_type(type) == (dkey_lexical[i] == '#'));
		CHECK(daos_is_akey_lexical_type(type) == (akey_lexical[i] == '#'));
		CHECK(daos_is_dkey_uint64_type(type) == (dkey_integer[i] == '#'));
		CHECK(daos_is_akey_uint64_type(type) == (akey_integer[i] == '#'));
		CHECK(daos_is_kv_type(type) == (kv[i] == '#'));
		CHECK(daos_is_array_type(type) == (array[i] == '#'));
	}
	CHECK(!daos_otype_t_is_valid((enum daos_otype_t)(DAOS_OT_MAX + 1)));
}

static void
handles_keys_anchors(void)
{
	daos_anchor_t anchor;
	daos_handle_t handle = {1};
	d_iov_t       iov;
	char          byte = 0;

	CHECK(daos_handle_is_valid(handle) && !daos_handle_is_inval(handle));
	CHECK(daos_handle_is_inval(DAOS_HDL_INVAL) && !daos_handle_is_valid(DAOS_TX_NONE));

	d_iov_set(&iov, &byte, 1);
	CHECK(iov.iov_buf == &byte && iov.iov_buf_len == 1 && iov.iov_len == 1);
	CHECK(!daos_key_is_null(iov));
	d_iov_set(&iov, &byte, 0);
	CHECK(daos_key_is_null(iov));
	d_iov_set(&iov, NULL, 1);
	CHECK(daos_key_is_null(iov));

	memset(&anchor, 0xff, sizeof(anchor));
	CHECK(daos_anchor_init(&anchor, 0) == 0);
	CHECK(anchor.da_type == DAOS_ANCHOR_TYPE_ZERO && anchor.da_sub_anchors == 0);
	CHECK(anchor.da_buf[DAOS_ANCHOR_BUF_MAX - 1] == 0);
	CHECK(!daos_anchor_is_eof(&anchor));
	anchor.da_type = DAOS_ANCHOR_TYPE_EOF;
	CHECK(daos_anchor_is_eof(&anchor));
	daos_anchor_fini(&anchor);
}

static void
labels_and_uuids(void)
{
	static const char uuid[] = "0123abcd-0000-4000-8000-00000000cafe";
	char              label[DAOS_PROP_MAX_LABEL_BUF_LEN + 1];

	CHECK(daos_is_valid_uuid_string(uuid, UUID_SST_NONE));
	CHECK(daos_is_valid_uuid_string(uuid, UUID_SST_LOWER));
	CHECK(!daos_is_valid_uuid_string(uuid, UUID_SST_UPPER));
	CHECK(!daos_is_valid_uuid_string("0123abcd", UUID_SST_NONE));
	CHECK(!daos_is_valid_uuid_string("0123abcd-0000-4000-8000-00000000cafg", UUID_SST_NONE));

	CHECK(daos_label_is_valid("a.b_c:d-1"));
	CHECK(!daos_label_is_valid(NULL) && !daos_label_is_valid(""));
	CHECK(!daos_label_is_valid("a b") && !daos_label_is_valid("a/b"));
	CHECK(!daos_label_is_valid(uuid));
	memset(label, 'x', sizeof(label));
	label[DAOS_PROP_LABEL_MAX_LEN] = '\0';
	CHECK(daos_label_is_valid(label));
	label[DAOS_PROP_LABEL_MAX_LEN]     = 'x';
	label[DAOS_PROP_LABEL_MAX_LEN + 1] = '\0';
	CHECK(!daos_label_is_valid(label));
}

static void
properties(void)
{
	struct daos_co_status  status = {DAOS_PROP_CO_UNCLEAN, DAOS_PROP_CO_CLEAR, 0x89abcdef};
	struct daos_prop_entry entry  = {0, 0, 0, {0}};
	struct daos_co_status  back;

	CHECK(daos_prop_co_status_2_val(&status) == 0x0001000189abcdefULL);
	daos_prop_val_2_co_status(0x0001000289abcdefULL, &back);
	CHECK(back.dcs_flags == 1 && back.dcs_status == 2 && back.dcs_pm_ver == 0x89abcdef);

	CHECK(daos_prop_is_set(&entry));
	entry.dpe_flags = DAOS_PROP_ENTRY_NOT_SET;
	CHECK(!daos_prop_is_set(&entry));

	CHECK(daos_rf_is_valid(4) && !daos_rf_is_valid(5));
	CHECK(daos_svc_rf_is_valid(4) && !daos_svc_rf_is_valid(5));
	CHECK(daos_pa_domain_is_valid(DAOS_PROP_CO_REDUN_RANK) && !daos_pa_domain_is_valid(3));
	CHECK(strcmp(daos_pool_cont_filter_func_str(PCF_FUNC_GE), ">=") == 0);
	CHECK(strcmp(daos_pool_cont_filter_func_str(PCF_FUNC_MAX), "UNKNOWN") == 0);
	CHECK(strcmp(daos_pool_cont_filter_key_str(PCF_KEY_NUM_HANDLES), "num_handles") == 0);
}

static void
buffer_lists(void)
{
	d_sg_list_t sgl;
	uint32_t    i;

	CHECK(d_sgl_init(&sgl, 3) == 0);
	CHECK(sgl.sg_nr == 3 && sgl.sg_nr_out == 0 && sgl.sg_iovs != NULL);
	for (i = 0; i < 3; i++)
		d_iov_set(&sgl.sg_iovs[i], malloc(i + 1), i + 1);
	CHECK(d_sgl_buf_size(&sgl) == 6);
	d_sgl_fini(&sgl, true);
	CHECK(sgl.sg_nr == 0 && sgl.sg_iovs == NULL);
	CHECK(d_errno2der(ENOENT) == -DER_NONEXIST && d_errno2der(EPIPE) == -DER_MISC);
}

struct item {
	int      value;
	d_list_t link;
};

static void
lists(void)
{
	struct item  items[3] = {{1, {NULL, NULL}}, {2, {NULL, NULL}}, {3, {NULL, NULL}}};
	struct item *item;
	struct item *next;
	int          sum = 0;

	D_LIST_HEAD(list);
	D_LIST_HEAD(other);

	CHECK(d_list_empty(&list));
	d_list_add(&items[1].link, &list);
	d_list_add(&items[0].link, &list);
	d_list_add_tail(&items[2].link, &list);
	d_list_for_each_entry(item, &list, link)
		sum = sum * 10 + item->value;
	CHECK(sum == 123);

	d_list_move_tail(&items[0].link, &list);
	d_list_move(&items[0].link, &other);
	d_list_splice(&list, &other);
	sum = 0;
	d_list_for_each_entry_reverse(item, &other, link)
		sum = sum * 10 + item->value;
	CHECK(sum == 132);

	d_list_for_each_entry_safe(item, next, &other, link)
		d_list_del_init(&item->link);
	CHECK(d_list_empty(&other) && d_list_empty(&items[0].link));
}

static void
larger_memory(void)
{
	char *old, *larger;

	D_ALLOC(old, 2);
	old[0] = 'a';
	D_REALLOC(larger, old, 2, 4);
	CHECK(old == NULL && larger[0] == 'a' && larger[2] == 0 && larger[3] == 0);
	D_REALLOC_NZ(old, larger, 1);
	CHECK(larger == NULL && old[0] == 'a');
	D_FREE(old);
	D_STRNDUP(old, "text", 2);
	CHECK(strcmp(old, "te") == 0);
	D_FREE(old);
}

static void
errno_values(void)
{
	CHECK(daos_der2errno(0) == 0 && daos_der2errno(1) == EINVAL);
	CHECK(daos_der2errno(-DER_NONEXIST) == ENOENT && daos_der2errno(-DER_BUSY) == EBUSY);
	CHECK(daos_der2errno(-DER_KEY2BIG) == E2BIG && daos_der2errno(-DER_CSUM) == EIO);
}

static void
messages(void)
{
	int evaluated = 0;

	D_ERROR("a message with %d\n", 1);
	D_DEBUG(DB_ANY, "a message that is never written: %d\n", 3);
	D_ASSERT(++evaluated == 1);
	D_ASSERTF(evaluated == 1, "%d\n", evaluated);
}

int
main(void)
{
	object_ids();
	object_types();
	handles_keys_anchors();
	labels_and_uuids();
	properties();
	buffer_lists();
	lists();
	larger_memory();
	errno_values();
	messages();
	return failures == 0 ? 0 : 1;
}
