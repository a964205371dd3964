/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Takes the address of every function that the headers declare. Linking it shows that the library
 * has all of them; check_symbols.py verifies that the table is complete.
 */

#include <stdio.h>

#include <daos.h>
#include <daos_fs.h>
#include <daos_fs_sys.h>
#include <daos_pipeline.h>
#include <daos_task.h>
#include <daos_uns.h>
#include <esker.h>
#include <daos/object.h>
#include <gurt/common.h>
#include <gurt/hash.h>

/* Programs built before these functions changed use their names without the 2. */
#undef daos_cont_create
#undef daos_cont_destroy
#undef daos_cont_open
#undef daos_obj_generate_oid
#undef daos_pool_connect

#ifdef __cplusplus
extern "C" {
#endif
extern __typeof__(daos_cont_create2)      daos_cont_create;
extern __typeof__(daos_cont_destroy2)     daos_cont_destroy;
extern __typeof__(daos_cont_open2)        daos_cont_open;
extern __typeof__(daos_obj_generate_oid2) daos_obj_generate_oid;
extern __typeof__(daos_pool_connect2)     daos_pool_connect;
#ifdef __cplusplus
}
#endif

typedef void (*function_t)(void);

struct symbol {
	const char *name;
	function_t  address;
};

#define NAME(function)  {#function, (function_t)(function)}
#define ALIAS(function) {#function, (function_t)(function)}

/* Not static, so that the compiler does not remove it. */
extern const struct symbol symbols[];

const struct symbol symbols[] = {
	/* libdaos */
	NAME(daos_ace_create),
	NAME(daos_ace_dump),
	NAME(daos_ace_free),
	NAME(daos_ace_from_str),
	NAME(daos_ace_get_principal_str),
	NAME(daos_ace_get_size),
	NAME(daos_ace_is_valid),
	NAME(daos_ace_str_get_verbose),
	NAME(daos_ace_to_str),
	NAME(daos_acl_add_ace),
	NAME(daos_acl_create),
	NAME(daos_acl_dump),
	NAME(daos_acl_dup),
	NAME(daos_acl_free),
	NAME(daos_acl_from_strs),
	NAME(daos_acl_get_ace_for_principal),
	NAME(daos_acl_get_next_ace),
	NAME(daos_acl_get_size),
	NAME(daos_acl_gid_to_principal),
	NAME(daos_acl_principal_from_str),
	NAME(daos_acl_principal_is_valid),
	NAME(daos_acl_principal_to_gid),
	NAME(daos_acl_principal_to_uid),
	NAME(daos_acl_remove_ace),
	NAME(daos_acl_to_stream),
	NAME(daos_acl_to_strs),
	NAME(daos_acl_uid_to_principal),
	NAME(daos_acl_validate),
	NAME(daos_array_close),
	NAME(daos_array_create),
	NAME(daos_array_destroy),
	NAME(daos_array_get_attr),
	NAME(daos_array_get_size),
	NAME(daos_array_global2local),
	NAME(daos_array_local2global),
	NAME(daos_array_open),
	NAME(daos_array_open_with_attr),
	NAME(daos_array_punch),
	NAME(daos_array_read),
	NAME(daos_array_set_size),
	NAME(daos_array_stat),
	NAME(daos_array_update_chunk_size),
	NAME(daos_array_write),
	NAME(daos_cont_aggregate),
	NAME(daos_cont_alloc_oids),
	NAME(daos_cont_close),
	NAME(daos_cont_create2),
	NAME(daos_cont_create_snap),
	NAME(daos_cont_create_snap_opt),
	NAME(daos_cont_create_with_label),
	NAME(daos_cont_del_attr),
	NAME(daos_cont_delete_acl),
	NAME(daos_cont_destroy2),
	NAME(daos_cont_destroy_snap),
	NAME(daos_cont_get_acl),
	NAME(daos_cont_get_attr),
	NAME(daos_cont_get_perms),
	NAME(daos_cont_global2local),
	NAME(daos_cont_list_attr),
	NAME(daos_cont_list_snap),
	NAME(daos_cont_local2global),
	NAME(daos_cont_open2),
	NAME(daos_cont_overwrite_acl),
	NAME(daos_cont_query),
	NAME(daos_cont_rollback),
	NAME(daos_cont_set_attr),
	NAME(daos_cont_set_owner),
	NAME(daos_cont_set_owner_no_check),
	NAME(daos_cont_set_prop),
	NAME(daos_cont_snap_oit_create),
	NAME(daos_cont_snap_oit_destroy),
	NAME(daos_cont_status_clear),
	NAME(daos_cont_subscribe),
	NAME(daos_cont_update_acl),
	NAME(daos_debug_add_mark),
	NAME(daos_debug_set_params),
	NAME(daos_eq_create),
	NAME(daos_eq_destroy),
	NAME(daos_eq_poll),
	NAME(daos_eq_query),
	NAME(daos_event_abort),
	NAME(daos_event_fini),
	NAME(daos_event_init),
	NAME(daos_event_next),
	NAME(daos_event_parent_barrier),
	NAME(daos_event_register_comp_cb),
	NAME(daos_event_test),
	NAME(daos_filter_add),
	NAME(daos_filter_init),
	NAME(daos_fini),
	NAME(daos_hlc2timespec),
	NAME(daos_hlc2timestamp),
	NAME(daos_init),
	NAME(daos_kv_close),
	NAME(daos_kv_destroy),
	NAME(daos_kv_get),
	NAME(daos_kv_list),
	NAME(daos_kv_open),
	NAME(daos_kv_put),
	NAME(daos_kv_remove),
	NAME(daos_mgmt_get_bs_state),
	NAME(daos_mgmt_get_sys_info),
	NAME(daos_mgmt_list_pools),
	NAME(daos_mgmt_put_sys_info),
	NAME(daos_obj_anchor_set),
	NAME(daos_obj_anchor_split),
	NAME(daos_obj_close),
	NAME(daos_obj_fetch),
	NAME(daos_obj_generate_oid2),
	NAME(daos_obj_key2anchor),
	NAME(daos_obj_layout_get),
	NAME(daos_obj_list_akey),
	NAME(daos_obj_list_class),
	NAME(daos_obj_list_dkey),
	NAME(daos_obj_list_recx),
	NAME(daos_obj_open),
	NAME(daos_obj_punch),
	NAME(daos_obj_punch_akeys),
	NAME(daos_obj_punch_dkeys),
	NAME(daos_obj_query),
	NAME(daos_obj_query_class),
	NAME(daos_obj_query_key),
	NAME(daos_obj_query_max_epoch),
	NAME(daos_obj_register_class),
	NAME(daos_obj_update),
	NAME(daos_obj_verify),
	NAME(daos_oclass_id2name),
	NAME(daos_oclass_name2id),
	NAME(daos_oclass_names_list),
	NAME(daos_oclass_nr),
	NAME(daos_oit_close),
	NAME(daos_oit_list),
	NAME(daos_oit_list_filter),
	NAME(daos_oit_list_unmarked),
	NAME(daos_oit_mark),
	NAME(daos_oit_open),
	NAME(daos_pipeline_add),
	NAME(daos_pipeline_check),
	NAME(daos_pipeline_free),
	NAME(daos_pipeline_init),
	NAME(daos_pipeline_run),
	NAME(daos_pool_connect2),
	NAME(daos_pool_cont_filter_add),
	NAME(daos_pool_cont_filter_fini),
	NAME(daos_pool_cont_filter_init),
	NAME(daos_pool_del_attr),
	NAME(daos_pool_disconnect),
	NAME(daos_pool_filter_cont),
	NAME(daos_pool_get_attr),
	NAME(daos_pool_get_perms),
	NAME(daos_pool_global2local),
	NAME(daos_pool_list_attr),
	NAME(daos_pool_list_cont),
	NAME(daos_pool_local2global),
	NAME(daos_pool_query),
	NAME(daos_pool_query_target),
	NAME(daos_pool_set_attr),
	NAME(daos_pool_stop_svc),
	NAME(daos_progress),
	NAME(daos_prop_alloc),
	NAME(daos_prop_entry_cmp_acl),
	NAME(daos_prop_entry_dup_byteval),
	NAME(daos_prop_entry_dup_co_roots),
	NAME(daos_prop_entry_dup_ptr),
	NAME(daos_prop_entry_get),
	NAME(daos_prop_entry_set_byteval),
	NAME(daos_prop_entry_set_ptr),
	NAME(daos_prop_entry_set_str),
	NAME(daos_prop_fini),
	NAME(daos_prop_free),
	NAME(daos_prop_from_str),
	NAME(daos_prop_has_byteval),
	NAME(daos_prop_has_ptr),
	NAME(daos_prop_has_str),
	NAME(daos_prop_merge),
	NAME(daos_prop_merge2),
	NAME(daos_prop_set_byteval),
	NAME(daos_prop_set_ptr),
	NAME(daos_prop_set_str),
	NAME(daos_rank_list_parse),
	NAME(daos_reinit),
	NAME(daos_task_create),
	NAME(daos_task_get_args),
	NAME(daos_task_get_priv),
	NAME(daos_task_reset),
	NAME(daos_task_set_priv),
	NAME(daos_tx_abort),
	NAME(daos_tx_close),
	NAME(daos_tx_commit),
	NAME(daos_tx_hdl2epoch),
	NAME(daos_tx_open),
	NAME(daos_tx_open_snap),
	NAME(daos_tx_restart),
	NAME(dc_mgmt_srv_version),

	/* libdaos, former names */
	ALIAS(daos_cont_create),
	ALIAS(daos_cont_destroy),
	ALIAS(daos_cont_open),
	ALIAS(daos_obj_generate_oid),
	ALIAS(daos_pool_connect),

	/* scheduler */
	NAME(tse_disable_propagate),
	NAME(tse_sched_addref),
	NAME(tse_sched_check_complete),
	NAME(tse_sched_complete),
	NAME(tse_sched_decref),
	NAME(tse_sched_fini),
	NAME(tse_sched_init),
	NAME(tse_sched_progress),
	NAME(tse_sched_register_comp_cb),
	NAME(tse_task2arg),
	NAME(tse_task2sched),
	NAME(tse_task_addref),
	NAME(tse_task_buf_embedded),
	NAME(tse_task_complete),
	NAME(tse_task_create),
	NAME(tse_task_decref),
	NAME(tse_task_depend_list),
	NAME(tse_task_get_priv),
	NAME(tse_task_list_abort),
	NAME(tse_task_list_add),
	NAME(tse_task_list_del),
	NAME(tse_task_list_depend),
	NAME(tse_task_list_first),
	NAME(tse_task_list_sched),
	NAME(tse_task_list_traverse),
	NAME(tse_task_list_traverse_adv),
	NAME(tse_task_register_cbs),
	NAME(tse_task_register_comp_cb),
	NAME(tse_task_register_comp_cb_and_reinit),
	NAME(tse_task_register_deps),
	NAME(tse_task_reinit),
	NAME(tse_task_reinit_with_delay),
	NAME(tse_task_reset),
	NAME(tse_task_schedule),
	NAME(tse_task_schedule_with_delay),
	NAME(tse_task_set_priv),

	/* helpers */
	NAME(d_agetenv_str),
	NAME(d_errdesc),
	NAME(d_errstr),
	NAME(d_freeenv_str),
	NAME(d_getenv_bool),
	NAME(d_getenv_char),
	NAME(d_getenv_int),
	NAME(d_getenv_str),
	NAME(d_getenv_uint),
	NAME(d_getenv_uint32_t),
	NAME(d_getenv_uint64_t),
	NAME(d_hash_murmur64),
	NAME(d_hash_rec_addref),
	NAME(d_hash_rec_decref),
	NAME(d_hash_rec_delete),
	NAME(d_hash_rec_delete_at),
	NAME(d_hash_rec_evict),
	NAME(d_hash_rec_evict_at),
	NAME(d_hash_rec_find),
	NAME(d_hash_rec_find_insert),
	NAME(d_hash_rec_first),
	NAME(d_hash_rec_insert),
	NAME(d_hash_rec_insert_anonym),
	NAME(d_hash_rec_ndecref),
	NAME(d_hash_rec_unlinked),
	NAME(d_hash_string_u32),
	NAME(d_hash_table_create),
	NAME(d_hash_table_create_inplace),
	NAME(d_hash_table_destroy),
	NAME(d_hash_table_destroy_inplace),
	NAME(d_hash_table_traverse),
	NAME(d_rank_list_alloc),
	NAME(d_rank_list_dup),
	NAME(d_rank_list_free),
	NAME(d_setenv),
	NAME(d_unsetenv),

	/* stores of Esker */
	NAME(esker_error_text),
	NAME(esker_event_error_text),
	NAME(esker_field_adopt),
	NAME(esker_field_archive),
	NAME(esker_field_axes),
	NAME(esker_field_axes_close),
	NAME(esker_field_axis),
	NAME(esker_field_axis_value),
	NAME(esker_field_entry),
	NAME(esker_field_flush),
	NAME(esker_field_list),
	NAME(esker_field_location),
	NAME(esker_field_pending),
	NAME(esker_field_purge),
	NAME(esker_field_read),
	NAME(esker_field_read_at),
	NAME(esker_field_retrieve),
	NAME(esker_field_schema),
	NAME(esker_field_select),
	NAME(esker_field_select_close),
	NAME(esker_field_store_close),
	NAME(esker_field_store_open),
	NAME(esker_field_view),
	NAME(esker_field_view_close),
	NAME(esker_field_watch),
	NAME(esker_field_watch_close),
	NAME(esker_field_watch_next),
	NAME(esker_field_wipe),
	NAME(esker_libdaos_version),
	NAME(esker_tensor_abort),
	NAME(esker_tensor_attribute),
	NAME(esker_tensor_attribute_name),
	NAME(esker_tensor_begin),
	NAME(esker_tensor_close),
	NAME(esker_tensor_collect),
	NAME(esker_tensor_commit),
	NAME(esker_tensor_entry),
	NAME(esker_tensor_get),
	NAME(esker_tensor_join),
	NAME(esker_tensor_list),
	NAME(esker_tensor_list_close),
	NAME(esker_tensor_open),
	NAME(esker_tensor_put),
	NAME(esker_tensor_put_close),
	NAME(esker_tensor_put_query),
	NAME(esker_tensor_query),
	NAME(esker_tensor_remove),
	NAME(esker_tensor_rename),
	NAME(esker_tensor_store_at),
	NAME(esker_tensor_store_close),
	NAME(esker_tensor_store_open),
	NAME(esker_tensor_token),
	NAME(esker_tensor_write),

#include "symbols_fs.h"
};

int
main(void)
{
	size_t count = sizeof(symbols) / sizeof(symbols[0]);
	size_t i;

	for (i = 0; i < count; i++) {
		if (symbols[i].address == NULL) {
			printf("missing: %s\n", symbols[i].name);
			return 1;
		}
	}
	printf("%zu symbols\n", count);
	return 0;
}
