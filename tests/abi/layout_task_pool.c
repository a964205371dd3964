/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Size and fields of the arguments of other tasks, as in programs that were built against other
 * headers of this interface. Compiling this file is the test. x86-64 only.
 */

#include "layout.h"

#include <daos_task.h>

SIZE(daos_cont_aggregate_t, 16);
	FIELD(daos_cont_aggregate_t, coh, 0, 8);
	FIELD(daos_cont_aggregate_t, epoch, 8, 8);

SIZE(daos_cont_alloc_oids_t, 24);
	FIELD(daos_cont_alloc_oids_t, coh, 0, 8);
	FIELD(daos_cont_alloc_oids_t, num_oids, 8, 8);
	FIELD(daos_cont_alloc_oids_t, oid, 16, 8);

SIZE(daos_cont_close_t, 8);
	FIELD(daos_cont_close_t, coh, 0, 8);

SIZE(daos_cont_create_snap_t, 32);
	FIELD(daos_cont_create_snap_t, coh, 0, 8);
	FIELD(daos_cont_create_snap_t, opts, 8, 4);
	FIELD(daos_cont_create_snap_t, epoch, 16, 8);
	FIELD(daos_cont_create_snap_t, name, 24, 8);

SIZE(daos_cont_create_t, 40);
	FIELD(daos_cont_create_t, poh, 0, 8);
	FIELD(daos_cont_create_t, uuid, 8, 16);
	FIELD(daos_cont_create_t, prop, 24, 8);
	FIELD(daos_cont_create_t, cuuid, 32, 8);

SIZE(daos_cont_del_attr_t, 24);
	FIELD(daos_cont_del_attr_t, coh, 0, 8);
	FIELD(daos_cont_del_attr_t, n, 8, 4);
	FIELD(daos_cont_del_attr_t, names, 16, 8);

SIZE(daos_cont_delete_acl_t, 24);
	FIELD(daos_cont_delete_acl_t, coh, 0, 8);
	FIELD(daos_cont_delete_acl_t, type, 8, 1);
	FIELD(daos_cont_delete_acl_t, name, 16, 8);

SIZE(daos_cont_destroy_snap_t, 24);
	FIELD(daos_cont_destroy_snap_t, coh, 0, 8);
	FIELD(daos_cont_destroy_snap_t, epr, 8, 16);

SIZE(daos_cont_destroy_t, 40);
	FIELD(daos_cont_destroy_t, poh, 0, 8);
	FIELD(daos_cont_destroy_t, uuid, 8, 16);
	FIELD(daos_cont_destroy_t, force, 24, 4);
	FIELD(daos_cont_destroy_t, cont, 32, 8);

SIZE(daos_cont_get_attr_t, 40);
	FIELD(daos_cont_get_attr_t, coh, 0, 8);
	FIELD(daos_cont_get_attr_t, n, 8, 4);
	FIELD(daos_cont_get_attr_t, names, 16, 8);
	FIELD(daos_cont_get_attr_t, values, 24, 8);
	FIELD(daos_cont_get_attr_t, sizes, 32, 8);

SIZE(daos_cont_list_attr_t, 24);
	FIELD(daos_cont_list_attr_t, coh, 0, 8);
	FIELD(daos_cont_list_attr_t, buf, 8, 8);
	FIELD(daos_cont_list_attr_t, size, 16, 8);

SIZE(daos_cont_list_snap_t, 40);
	FIELD(daos_cont_list_snap_t, coh, 0, 8);
	FIELD(daos_cont_list_snap_t, nr, 8, 8);
	FIELD(daos_cont_list_snap_t, epochs, 16, 8);
	FIELD(daos_cont_list_snap_t, names, 24, 8);
	FIELD(daos_cont_list_snap_t, anchor, 32, 8);

SIZE(daos_cont_open_t, 56);
	FIELD(daos_cont_open_t, poh, 0, 8);
	FIELD(daos_cont_open_t, uuid, 8, 16);
	FIELD(daos_cont_open_t, flags, 24, 4);
	FIELD(daos_cont_open_t, coh, 32, 8);
	FIELD(daos_cont_open_t, info, 40, 8);
	FIELD(daos_cont_open_t, cont, 48, 8);

SIZE(daos_cont_query_t, 24);
	FIELD(daos_cont_query_t, coh, 0, 8);
	FIELD(daos_cont_query_t, info, 8, 8);
	FIELD(daos_cont_query_t, prop, 16, 8);

SIZE(daos_cont_rollback_t, 16);
	FIELD(daos_cont_rollback_t, coh, 0, 8);
	FIELD(daos_cont_rollback_t, epoch, 8, 8);

SIZE(daos_cont_set_attr_t, 40);
	FIELD(daos_cont_set_attr_t, coh, 0, 8);
	FIELD(daos_cont_set_attr_t, n, 8, 4);
	FIELD(daos_cont_set_attr_t, names, 16, 8);
	FIELD(daos_cont_set_attr_t, values, 24, 8);
	FIELD(daos_cont_set_attr_t, sizes, 32, 8);

SIZE(daos_cont_set_prop_t, 16);
	FIELD(daos_cont_set_prop_t, coh, 0, 8);
	FIELD(daos_cont_set_prop_t, prop, 8, 8);

SIZE(daos_cont_snap_oit_create_t, 24);
	FIELD(daos_cont_snap_oit_create_t, coh, 0, 8);
	FIELD(daos_cont_snap_oit_create_t, epoch, 8, 8);
	FIELD(daos_cont_snap_oit_create_t, name, 16, 8);

SIZE(daos_cont_snap_oit_destroy_t, 16);
	FIELD(daos_cont_snap_oit_destroy_t, coh, 0, 8);
	FIELD(daos_cont_snap_oit_destroy_t, epoch, 8, 8);

SIZE(daos_cont_snap_oit_oid_get_t, 24);
	FIELD(daos_cont_snap_oit_oid_get_t, coh, 0, 8);
	FIELD(daos_cont_snap_oit_oid_get_t, epoch, 8, 8);
	FIELD(daos_cont_snap_oit_oid_get_t, oid, 16, 8);

SIZE(daos_cont_subscribe_t, 16);
	FIELD(daos_cont_subscribe_t, coh, 0, 8);
	FIELD(daos_cont_subscribe_t, epoch, 8, 8);

SIZE(daos_cont_update_acl_t, 16);
	FIELD(daos_cont_update_acl_t, coh, 0, 8);
	FIELD(daos_cont_update_acl_t, acl, 8, 8);

SIZE(daos_mgmt_get_bs_state_t, 32);
	FIELD(daos_mgmt_get_bs_state_t, grp, 0, 8);
	FIELD(daos_mgmt_get_bs_state_t, uuid, 8, 16);
	FIELD(daos_mgmt_get_bs_state_t, state, 24, 8);

SIZE(daos_mgmt_pool_list_t, 24);
	FIELD(daos_mgmt_pool_list_t, grp, 0, 8);
	FIELD(daos_mgmt_pool_list_t, pools, 8, 8);
	FIELD(daos_mgmt_pool_list_t, npools, 16, 8);

SIZE(daos_opc_t, 4);

SIZE(daos_pool_connect_t, 56);
	FIELD(daos_pool_connect_t, uuid, 0, 16);
	FIELD(daos_pool_connect_t, grp, 16, 8);
	FIELD(daos_pool_connect_t, flags, 24, 4);
	FIELD(daos_pool_connect_t, poh, 32, 8);
	FIELD(daos_pool_connect_t, info, 40, 8);
	FIELD(daos_pool_connect_t, pool, 48, 8);

SIZE(daos_pool_del_attr_t, 24);
	FIELD(daos_pool_del_attr_t, poh, 0, 8);
	FIELD(daos_pool_del_attr_t, n, 8, 4);
	FIELD(daos_pool_del_attr_t, names, 16, 8);

SIZE(daos_pool_disconnect_t, 8);
	FIELD(daos_pool_disconnect_t, poh, 0, 8);

SIZE(daos_pool_filter_cont_t, 32);
	FIELD(daos_pool_filter_cont_t, poh, 0, 8);
	FIELD(daos_pool_filter_cont_t, filt, 8, 8);
	FIELD(daos_pool_filter_cont_t, ncont, 16, 8);
	FIELD(daos_pool_filter_cont_t, cont_buf, 24, 8);

SIZE(daos_pool_get_attr_t, 40);
	FIELD(daos_pool_get_attr_t, poh, 0, 8);
	FIELD(daos_pool_get_attr_t, n, 8, 4);
	FIELD(daos_pool_get_attr_t, names, 16, 8);
	FIELD(daos_pool_get_attr_t, values, 24, 8);
	FIELD(daos_pool_get_attr_t, sizes, 32, 8);

SIZE(daos_pool_list_attr_t, 24);
	FIELD(daos_pool_list_attr_t, poh, 0, 8);
	FIELD(daos_pool_list_attr_t, buf, 8, 8);
	FIELD(daos_pool_list_attr_t, size, 16, 8);

SIZE(daos_pool_list_cont_t, 24);
	FIELD(daos_pool_list_cont_t, poh, 0, 8);
	FIELD(daos_pool_list_cont_t, ncont, 8, 8);
	FIELD(daos_pool_list_cont_t, cont_buf, 16, 8);

SIZE(daos_pool_query_t, 32);
	FIELD(daos_pool_query_t, poh, 0, 8);
	FIELD(daos_pool_query_t, ranks, 8, 8);
	FIELD(daos_pool_query_t, info, 16, 8);
	FIELD(daos_pool_query_t, prop, 24, 8);

SIZE(daos_pool_query_target_t, 24);
	FIELD(daos_pool_query_target_t, poh, 0, 8);
	FIELD(daos_pool_query_target_t, tgt_idx, 8, 4);
	FIELD(daos_pool_query_target_t, rank, 12, 4);
	FIELD(daos_pool_query_target_t, info, 16, 8);

SIZE(daos_pool_replicas_t, 40);
	FIELD(daos_pool_replicas_t, uuid, 0, 16);
	FIELD(daos_pool_replicas_t, group, 16, 8);
	FIELD(daos_pool_replicas_t, targets, 24, 8);
	FIELD(daos_pool_replicas_t, failed, 32, 8);

SIZE(daos_pool_set_attr_t, 40);
	FIELD(daos_pool_set_attr_t, poh, 0, 8);
	FIELD(daos_pool_set_attr_t, n, 8, 4);
	FIELD(daos_pool_set_attr_t, names, 16, 8);
	FIELD(daos_pool_set_attr_t, values, 24, 8);
	FIELD(daos_pool_set_attr_t, sizes, 32, 8);

SIZE(daos_pool_stop_svc_t, 8);
	FIELD(daos_pool_stop_svc_t, poh, 0, 8);

SIZE(daos_pool_update_t, 40);
	FIELD(daos_pool_update_t, uuid, 0, 16);
	FIELD(daos_pool_update_t, grp, 16, 8);
	FIELD(daos_pool_update_t, svc, 24, 8);
	FIELD(daos_pool_update_t, tgts, 32, 8);

SIZE(daos_set_params_t, 32);
	FIELD(daos_set_params_t, grp, 0, 8);
	FIELD(daos_set_params_t, rank, 8, 4);
	FIELD(daos_set_params_t, key_id, 12, 4);
	FIELD(daos_set_params_t, value, 16, 8);
	FIELD(daos_set_params_t, value_extra, 24, 8);

SIZE(daos_tx_abort_t, 8);
	FIELD(daos_tx_abort_t, th, 0, 8);

SIZE(daos_tx_close_t, 8);
	FIELD(daos_tx_close_t, th, 0, 8);

SIZE(daos_tx_commit_t, 16);
	FIELD(daos_tx_commit_t, th, 0, 8);
	FIELD(daos_tx_commit_t, flags, 8, 4);

SIZE(daos_tx_open_snap_t, 24);
	FIELD(daos_tx_open_snap_t, coh, 0, 8);
	FIELD(daos_tx_open_snap_t, epoch, 8, 8);
	FIELD(daos_tx_open_snap_t, th, 16, 8);

SIZE(daos_tx_open_t, 24);
	FIELD(daos_tx_open_t, coh, 0, 8);
	FIELD(daos_tx_open_t, th, 8, 8);
	FIELD(daos_tx_open_t, flags, 16, 8);

SIZE(daos_tx_restart_t, 8);
	FIELD(daos_tx_restart_t, th, 0, 8);
