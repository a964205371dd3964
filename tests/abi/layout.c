/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Size and fields of every structure of the interface, as in programs that were built against other
 * headers of this interface. Compiling this file is the test. x86-64 only.
 */

#include "layout.h"

#include <daos.h>
#include <daos_pipeline.h>
#include <daos/tse.h>
#include <gurt/hash.h>

SIZE(daos_handle_t, 8);
	FIELD(daos_handle_t, cookie, 0, 8);

SIZE(daos_obj_id_t, 16);
	FIELD(daos_obj_id_t, lo, 0, 8);
	FIELD(daos_obj_id_t, hi, 8, 8);

SIZE(d_iov_t, 24);
	FIELD(d_iov_t, iov_buf, 0, 8);
	FIELD(d_iov_t, iov_buf_len, 8, 8);
	FIELD(d_iov_t, iov_len, 16, 8);

SIZE(d_sg_list_t, 16);
	FIELD(d_sg_list_t, sg_nr, 0, 4);
	FIELD(d_sg_list_t, sg_nr_out, 4, 4);
	FIELD(d_sg_list_t, sg_iovs, 8, 8);

SIZE(daos_range_t, 16);
	FIELD(daos_range_t, rg_idx, 0, 8);
	FIELD(daos_range_t, rg_len, 8, 8);

SIZE(daos_array_iod_t, 32);
	FIELD(daos_array_iod_t, arr_nr, 0, 8);
	FIELD(daos_array_iod_t, arr_rgs, 8, 8);
	FIELD(daos_array_iod_t, arr_nr_short_read, 16, 8);
	FIELD(daos_array_iod_t, arr_nr_read, 24, 8);

SIZE(daos_array_stbuf_t, 16);
	FIELD(daos_array_stbuf_t, st_size, 0, 8);
	FIELD(daos_array_stbuf_t, st_max_epoch, 8, 8);

SIZE(daos_recx_t, 16);
	FIELD(daos_recx_t, rx_idx, 0, 8);
	FIELD(daos_recx_t, rx_nr, 8, 8);

SIZE(daos_iod_t, 64);
	FIELD(daos_iod_t, iod_name, 0, 24);
	FIELD(daos_iod_t, iod_type, 24, 4);
	FIELD(daos_iod_t, iod_size, 32, 8);
	FIELD(daos_iod_t, iod_flags, 40, 8);
	FIELD(daos_iod_t, iod_nr, 48, 4);
	FIELD(daos_iod_t, iod_recxs, 56, 8);

SIZE(daos_iom_t, 64);
	FIELD(daos_iom_t, iom_type, 0, 4);
	FIELD(daos_iom_t, iom_nr, 4, 4);
	FIELD(daos_iom_t, iom_nr_out, 8, 4);
	FIELD(daos_iom_t, iom_flags, 12, 4);
	FIELD(daos_iom_t, iom_size, 16, 8);
	FIELD(daos_iom_t, iom_recx_lo, 24, 16);
	FIELD(daos_iom_t, iom_recx_hi, 40, 16);
	FIELD(daos_iom_t, iom_recxs, 56, 8);

SIZE(daos_key_desc_t, 16);
	FIELD(daos_key_desc_t, kd_key_len, 0, 8);
	FIELD(daos_key_desc_t, kd_val_type, 8, 4);

SIZE(daos_anchor_t, 120);
	FIELD(daos_anchor_t, da_type, 0, 2);
	FIELD(daos_anchor_t, da_shard, 2, 2);
	FIELD(daos_anchor_t, da_flags, 4, 4);
	FIELD(daos_anchor_t, da_sub_anchors, 8, 8);
	FIELD(daos_anchor_t, da_buf, 16, 104);

SIZE(daos_event_t, 176);
	FIELD(daos_event_t, ev_error, 0, 4);
	FIELD(daos_event_t, ev_private.space, 8, 160);
	FIELD(daos_event_t, ev_debug, 168, 8);

SIZE(daos_epoch_range_t, 16);
	FIELD(daos_epoch_range_t, epr_lo, 0, 8);
	FIELD(daos_epoch_range_t, epr_hi, 8, 8);

SIZE(d_rank_list_t, 16);
	FIELD(d_rank_list_t, rl_ranks, 0, 8);
	FIELD(d_rank_list_t, rl_nr, 8, 4);

SIZE(struct daos_pool_space, 88);
	FIELD(struct daos_pool_space, ps_space.s_total, 0, 16);
	FIELD(struct daos_pool_space, ps_space.s_free, 16, 16);
	FIELD(struct daos_pool_space, ps_free_min, 32, 16);
	FIELD(struct daos_pool_space, ps_free_max, 48, 16);
	FIELD(struct daos_pool_space, ps_free_mean, 64, 16);
	FIELD(struct daos_pool_space, ps_ntargets, 80, 4);
	FIELD(struct daos_pool_space, ps_padding, 84, 4);

SIZE(struct daos_rebuild_status, 56);
	FIELD(struct daos_rebuild_status, rs_version, 0, 4);
	FIELD(struct daos_rebuild_status, rs_seconds, 4, 4);
	FIELD(struct daos_rebuild_status, rs_errno, 8, 4);
	FIELD(struct daos_rebuild_status, rs_state, 12, 4);
	FIELD(struct daos_rebuild_status, rs_done, 12, 4);
	FIELD(struct daos_rebuild_status, rs_max_supported_layout_ver, 16, 2);
	FIELD(struct daos_rebuild_status, rs_flags, 18, 1);
	FIELD(struct daos_rebuild_status, rs_reserved_, 19, 1);
	FIELD(struct daos_rebuild_status, rs_fail_rank, 20, 4);
	FIELD(struct daos_rebuild_status, rs_toberb_obj_nr, 24, 8);
	FIELD(struct daos_rebuild_status, rs_obj_nr, 32, 8);
	FIELD(struct daos_rebuild_status, rs_rec_nr, 40, 8);
	FIELD(struct daos_rebuild_status, rs_size, 48, 8);

SIZE(daos_pool_info_t, 192);
	FIELD(daos_pool_info_t, pi_uuid, 0, 16);
	FIELD(daos_pool_info_t, pi_ntargets, 16, 4);
	FIELD(daos_pool_info_t, pi_nnodes, 20, 4);
	FIELD(daos_pool_info_t, pi_ndisabled, 24, 4);
	FIELD(daos_pool_info_t, pi_map_ver, 28, 4);
	FIELD(daos_pool_info_t, pi_leader, 32, 4);
	FIELD(daos_pool_info_t, pi_bits, 40, 8);
	FIELD(daos_pool_info_t, pi_space.ps_space.s_total, 48, 16);
	FIELD(daos_pool_info_t, pi_space.ps_space.s_free, 64, 16);
	FIELD(daos_pool_info_t, pi_space.ps_free_min, 80, 16);
	FIELD(daos_pool_info_t, pi_space.ps_free_max, 96, 16);
	FIELD(daos_pool_info_t, pi_space.ps_free_mean, 112, 16);
	FIELD(daos_pool_info_t, pi_space.ps_ntargets, 128, 4);
	FIELD(daos_pool_info_t, pi_space.ps_padding, 132, 4);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_version, 136, 4);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_seconds, 140, 4);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_errno, 144, 4);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_state, 148, 4);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_done, 148, 4);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_max_supported_layout_ver, 152, 2);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_flags, 154, 1);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_reserved_, 155, 1);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_fail_rank, 156, 4);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_toberb_obj_nr, 160, 8);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_obj_nr, 168, 8);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_rec_nr, 176, 8);
	FIELD(daos_pool_info_t, pi_rebuild_st.rs_size, 184, 8);

SIZE(daos_target_info_t, 48);
	FIELD(daos_target_info_t, ta_padding, 0, 4);
	FIELD(daos_target_info_t, ta_state, 4, 4);
	FIELD(daos_target_info_t, ta_perf, 8, 4);
	FIELD(daos_target_info_t, ta_space.s_total, 16, 16);
	FIELD(daos_target_info_t, ta_space.s_free, 32, 16);

SIZE(struct daos_pool_cont_info, 144);
	FIELD(struct daos_pool_cont_info, pci_uuid, 0, 16);
	FIELD(struct daos_pool_cont_info, pci_label, 16, 128);

SIZE(struct daos_pool_cont_info2, 208);
	FIELD(struct daos_pool_cont_info2, pci_id.pci_uuid, 0, 16);
	FIELD(struct daos_pool_cont_info2, pci_id.pci_label, 16, 128);
	FIELD(struct daos_pool_cont_info2, pci_cinfo, 144, 48);
	FIELD(struct daos_pool_cont_info2, pci_reserved, 192, 16);

SIZE(daos_cont_info_t, 48);
	FIELD(daos_cont_info_t, ci_uuid, 0, 16);
	FIELD(daos_cont_info_t, ci_lsnapshot, 16, 8);
	FIELD(daos_cont_info_t, ci_nhandles, 24, 4);
	FIELD(daos_cont_info_t, ci_nsnapshots, 28, 4);
	FIELD(daos_cont_info_t, ci_md_otime, 32, 8);
	FIELD(daos_cont_info_t, ci_md_mtime, 40, 8);

SIZE(struct daos_prop_entry, 16);
	FIELD(struct daos_prop_entry, dpe_type, 0, 4);
	FIELD(struct daos_prop_entry, dpe_flags, 4, 2);
	FIELD(struct daos_prop_entry, dpe_reserv, 6, 2);
	FIELD(struct daos_prop_entry, dpe_val, 8, 8);
	FIELD(struct daos_prop_entry, dpe_str, 8, 8);
	FIELD(struct daos_prop_entry, dpe_val_ptr, 8, 8);

SIZE(daos_prop_t, 16);
	FIELD(daos_prop_t, dpp_nr, 0, 4);
	FIELD(daos_prop_t, dpp_reserv, 4, 4);
	FIELD(daos_prop_t, dpp_entries, 8, 8);

SIZE(struct daos_prop_byteval, 16);
	FIELD(struct daos_prop_byteval, dpb_data, 0, 8);
	FIELD(struct daos_prop_byteval, dpb_len, 8, 8);

SIZE(struct daos_co_status, 8);
	FIELD(struct daos_co_status, dcs_status, 0, 2);
	FIELD(struct daos_co_status, dcs_flags, 2, 2);
	FIELD(struct daos_co_status, dcs_pm_ver, 4, 4);

SIZE(struct daos_prop_co_roots, 64);
	FIELD(struct daos_prop_co_roots, cr_oids, 0, 64);

SIZE(struct daos_oclass_attr, 24);
	FIELD(struct daos_oclass_attr, ca_schema, 0, 4);
	FIELD(struct daos_oclass_attr, ca_resil, 4, 4);
	FIELD(struct daos_oclass_attr, ca_resil_degree, 8, 4);
	FIELD(struct daos_oclass_attr, ca_grp_nr, 12, 4);
	FIELD(struct daos_oclass_attr, u.rp.r_proto, 16, 4);
	FIELD(struct daos_oclass_attr, u.rp.r_num, 20, 4);
	FIELD(struct daos_oclass_attr, u.ec.e_k, 16, 2);
	FIELD(struct daos_oclass_attr, u.ec.e_p, 18, 2);
	FIELD(struct daos_oclass_attr, u.ec.e_len, 20, 4);

SIZE(struct daos_obj_attr, 16);
	FIELD(struct daos_obj_attr, oa_rank, 0, 4);
	FIELD(struct daos_obj_attr, oa_oa, 8, 8);

SIZE(struct daos_sys_info, 4256);
	FIELD(struct daos_sys_info, dsi_system_name, 0, 64);
	FIELD(struct daos_sys_info, dsi_fabric_provider, 64, 64);
	FIELD(struct daos_sys_info, dsi_agent_path, 128, 4096);
	FIELD(struct daos_sys_info, dsi_nr_ranks, 4224, 4);
	FIELD(struct daos_sys_info, dsi_ranks, 4232, 8);
	FIELD(struct daos_sys_info, dsi_nr_ms_ranks, 4240, 4);
	FIELD(struct daos_sys_info, dsi_ms_ranks, 4248, 8);

SIZE(struct daos_ace, 32);
	FIELD(struct daos_ace, dae_access_types, 0, 1);
	FIELD(struct daos_ace, dae_principal_type, 1, 1);
	FIELD(struct daos_ace, dae_principal_len, 2, 2);
	FIELD(struct daos_ace, dae_access_flags, 4, 2);
	FIELD(struct daos_ace, dae_reserv, 6, 2);
	FIELD(struct daos_ace, dae_allow_perms, 8, 8);
	FIELD(struct daos_ace, dae_audit_perms, 16, 8);
	FIELD(struct daos_ace, dae_alarm_perms, 24, 8);
	TAIL(struct daos_ace, dae_principal, 32);

SIZE(struct daos_acl, 8);
	FIELD(struct daos_acl, dal_ver, 0, 2);
	FIELD(struct daos_acl, dal_reserv, 2, 2);
	FIELD(struct daos_acl, dal_len, 4, 4);
	TAIL(struct daos_acl, dal_ace, 8);

SIZE(tse_task_t, 1024);
	FIELD(tse_task_t, dt_result, 0, 4);
	FIELD(tse_task_t, dt_pad32, 4, 4);
	FIELD(tse_task_t, dt_private.dt_space, 8, 1016);

SIZE(tse_sched_t, 400);
	FIELD(tse_sched_t, ds_result, 0, 4);
	FIELD(tse_sched_t, ds_udata, 8, 8);
	FIELD(tse_sched_t, ds_private.ds_space, 16, 384);

SIZE(d_list_t, 16);
	FIELD(d_list_t, next, 0, 8);
	FIELD(d_list_t, prev, 8, 8);

SIZE(struct d_hash_table, 96);
	FIELD(struct d_hash_table, ht_lock.spin, 0, 4);
	FIELD(struct d_hash_table, ht_lock.mutex, 0, 40);
	FIELD(struct d_hash_table, ht_lock.rwlock, 0, 56);
	FIELD(struct d_hash_table, ht_bits, 56, 4);
	FIELD(struct d_hash_table, ht_feats, 60, 4);
	FIELD(struct d_hash_table, ht_priv, 64, 8);
	FIELD(struct d_hash_table, ht_ops, 72, 8);
	FIELD(struct d_hash_table, ht_buckets, 80, 8);
	FIELD(struct d_hash_table, ht_locks, 88, 8);

SIZE(d_hash_table_ops_t, 64);
	FIELD(d_hash_table_ops_t, hop_key_cmp, 0, 8);
	FIELD(d_hash_table_ops_t, hop_key_init, 8, 8);
	FIELD(d_hash_table_ops_t, hop_key_hash, 16, 8);
	FIELD(d_hash_table_ops_t, hop_rec_hash, 24, 8);
	FIELD(d_hash_table_ops_t, hop_rec_addref, 32, 8);
	FIELD(d_hash_table_ops_t, hop_rec_decref, 40, 8);
	FIELD(d_hash_table_ops_t, hop_rec_ndecref, 48, 8);
	FIELD(d_hash_table_ops_t, hop_rec_free, 56, 8);

SIZE(daos_pool_cont_filter_t, 16);
	FIELD(daos_pool_cont_filter_t, pcf_combine_func, 0, 4);
	FIELD(daos_pool_cont_filter_t, pcf_nparts, 4, 4);
	FIELD(daos_pool_cont_filter_t, pcf_parts, 8, 8);

SIZE(daos_pool_cont_filter_part_t, 16);
	FIELD(daos_pool_cont_filter_part_t, pcfp_func, 0, 4);
	FIELD(daos_pool_cont_filter_part_t, pcfp_key, 4, 4);
	FIELD(daos_pool_cont_filter_part_t, pcfp_val64, 8, 8);
	FIELD(daos_pool_cont_filter_part_t, pcfp_valstr, 8, 8);

SIZE(daos_mgmt_pool_info_t, 40);
	FIELD(daos_mgmt_pool_info_t, mgpi_uuid, 0, 16);
	FIELD(daos_mgmt_pool_info_t, mgpi_label, 16, 8);
	FIELD(daos_mgmt_pool_info_t, mgpi_svc, 24, 8);
	FIELD(daos_mgmt_pool_info_t, mgpi_ldr, 32, 4);

SIZE(struct daos_rank_uri, 16);
	FIELD(struct daos_rank_uri, dru_rank, 0, 4);
	FIELD(struct daos_rank_uri, dru_uri, 8, 8);

SIZE(struct daos_oclass_list, 24);
	FIELD(struct daos_oclass_list, cl_nr, 0, 4);
	FIELD(struct daos_oclass_list, cl_nr_out, 4, 4);
	FIELD(struct daos_oclass_list, cl_cids, 8, 8);
	FIELD(struct daos_oclass_list, cl_cattrs, 16, 8);

SIZE(daos_pipeline_t, 40);
	FIELD(daos_pipeline_t, version, 0, 8);
	FIELD(daos_pipeline_t, num_filters, 8, 4);
	FIELD(daos_pipeline_t, filters, 16, 8);
	FIELD(daos_pipeline_t, num_aggr_filters, 24, 4);
	FIELD(daos_pipeline_t, aggr_filters, 32, 8);

SIZE(daos_filter_t, 40);
	FIELD(daos_filter_t, filter_type, 0, 24);
	FIELD(daos_filter_t, num_parts, 24, 4);
	FIELD(daos_filter_t, parts, 32, 8);

SIZE(daos_filter_part_t, 112);
	FIELD(daos_filter_part_t, part_type, 0, 24);
	FIELD(daos_filter_part_t, data_type, 24, 24);
	FIELD(daos_filter_part_t, num_operands, 48, 4);
	FIELD(daos_filter_part_t, akey, 56, 24);
	FIELD(daos_filter_part_t, num_constants, 80, 8);
	FIELD(daos_filter_part_t, constant, 88, 8);
	FIELD(daos_filter_part_t, data_offset, 96, 8);
	FIELD(daos_filter_part_t, data_len, 104, 8);

SIZE(daos_pipeline_stats_t, 24);
	FIELD(daos_pipeline_stats_t, nr_objs, 0, 8);
	FIELD(daos_pipeline_stats_t, nr_dkeys, 8, 8);
	FIELD(daos_pipeline_stats_t, nr_akeys, 16, 8);
