/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Size and fields of the arguments of object tasks, as in programs that were built against other
 * headers of this interface. Compiling this file is the test. x86-64 only.
 */

#include "layout.h"

#include <daos_task.h>

SIZE(daos_array_close_t, 8);
	FIELD(daos_array_close_t, oh, 0, 8);

SIZE(daos_array_create_t, 56);
	FIELD(daos_array_create_t, coh, 0, 8);
	FIELD(daos_array_create_t, oid, 8, 16);
	FIELD(daos_array_create_t, th, 24, 8);
	FIELD(daos_array_create_t, cell_size, 32, 8);
	FIELD(daos_array_create_t, chunk_size, 40, 8);
	FIELD(daos_array_create_t, oh, 48, 8);

SIZE(daos_array_destroy_t, 16);
	FIELD(daos_array_destroy_t, oh, 0, 8);
	FIELD(daos_array_destroy_t, th, 8, 8);

SIZE(daos_array_get_size_t, 24);
	FIELD(daos_array_get_size_t, oh, 0, 8);
	FIELD(daos_array_get_size_t, th, 8, 8);
	FIELD(daos_array_get_size_t, size, 16, 8);

SIZE(daos_array_io_t, 32);
	FIELD(daos_array_io_t, oh, 0, 8);
	FIELD(daos_array_io_t, th, 8, 8);
	FIELD(daos_array_io_t, iod, 16, 8);
	FIELD(daos_array_io_t, sgl, 24, 8);

SIZE(daos_array_open_t, 64);
	FIELD(daos_array_open_t, coh, 0, 8);
	FIELD(daos_array_open_t, oid, 8, 16);
	FIELD(daos_array_open_t, th, 24, 8);
	FIELD(daos_array_open_t, mode, 32, 4);
	FIELD(daos_array_open_t, open_with_attr, 36, 4);
	FIELD(daos_array_open_t, cell_size, 40, 8);
	FIELD(daos_array_open_t, chunk_size, 48, 8);
	FIELD(daos_array_open_t, oh, 56, 8);

SIZE(daos_array_set_size_t, 24);
	FIELD(daos_array_set_size_t, oh, 0, 8);
	FIELD(daos_array_set_size_t, th, 8, 8);
	FIELD(daos_array_set_size_t, size, 16, 8);

SIZE(daos_array_stat_t, 24);
	FIELD(daos_array_stat_t, oh, 0, 8);
	FIELD(daos_array_stat_t, th, 8, 8);
	FIELD(daos_array_stat_t, stbuf, 16, 8);

SIZE(daos_kv_close_t, 8);
	FIELD(daos_kv_close_t, oh, 0, 8);

SIZE(daos_kv_destroy_t, 16);
	FIELD(daos_kv_destroy_t, oh, 0, 8);
	FIELD(daos_kv_destroy_t, th, 8, 8);

SIZE(daos_kv_get_t, 48);
	FIELD(daos_kv_get_t, oh, 0, 8);
	FIELD(daos_kv_get_t, th, 8, 8);
	FIELD(daos_kv_get_t, flags, 16, 8);
	FIELD(daos_kv_get_t, key, 24, 8);
	FIELD(daos_kv_get_t, buf_size, 32, 8);
	FIELD(daos_kv_get_t, buf, 40, 8);

SIZE(daos_kv_list_t, 48);
	FIELD(daos_kv_list_t, oh, 0, 8);
	FIELD(daos_kv_list_t, th, 8, 8);
	FIELD(daos_kv_list_t, nr, 16, 8);
	FIELD(daos_kv_list_t, kds, 24, 8);
	FIELD(daos_kv_list_t, sgl, 32, 8);
	FIELD(daos_kv_list_t, anchor, 40, 8);

SIZE(daos_kv_open_t, 40);
	FIELD(daos_kv_open_t, coh, 0, 8);
	FIELD(daos_kv_open_t, oid, 8, 16);
	FIELD(daos_kv_open_t, mode, 24, 4);
	FIELD(daos_kv_open_t, oh, 32, 8);

SIZE(daos_kv_put_t, 48);
	FIELD(daos_kv_put_t, oh, 0, 8);
	FIELD(daos_kv_put_t, th, 8, 8);
	FIELD(daos_kv_put_t, flags, 16, 8);
	FIELD(daos_kv_put_t, key, 24, 8);
	FIELD(daos_kv_put_t, buf_size, 32, 8);
	FIELD(daos_kv_put_t, buf, 40, 8);

SIZE(daos_kv_remove_t, 32);
	FIELD(daos_kv_remove_t, oh, 0, 8);
	FIELD(daos_kv_remove_t, th, 8, 8);
	FIELD(daos_kv_remove_t, flags, 16, 8);
	FIELD(daos_kv_remove_t, key, 24, 8);

SIZE(daos_obj_close_t, 8);
	FIELD(daos_obj_close_t, oh, 0, 8);

SIZE(daos_obj_list_class_t, 24);
	FIELD(daos_obj_list_class_t, coh, 0, 8);
	FIELD(daos_obj_list_class_t, clist, 8, 8);
	FIELD(daos_obj_list_class_t, anchor, 16, 8);

SIZE(daos_obj_list_t, 136);
	FIELD(daos_obj_list_t, oh, 0, 8);
	FIELD(daos_obj_list_t, th, 8, 8);
	FIELD(daos_obj_list_t, dkey, 16, 8);
	FIELD(daos_obj_list_t, akey, 24, 8);
	FIELD(daos_obj_list_t, nr, 32, 8);
	FIELD(daos_obj_list_t, kds, 40, 8);
	FIELD(daos_obj_list_t, sgl, 48, 8);
	FIELD(daos_obj_list_t, size, 56, 8);
	FIELD(daos_obj_list_t, type, 64, 4);
	FIELD(daos_obj_list_t, recxs, 72, 8);
	FIELD(daos_obj_list_t, eprs, 80, 8);
	FIELD(daos_obj_list_t, anchor, 88, 8);
	FIELD(daos_obj_list_t, dkey_anchor, 96, 8);
	FIELD(daos_obj_list_t, akey_anchor, 104, 8);
	FIELD(daos_obj_list_t, versions, 112, 8);
	FIELD(daos_obj_list_t, csum, 120, 8);
	FIELD(daos_obj_list_t, incr_order, 128, 1);

SIZE(daos_obj_open_t, 40);
	FIELD(daos_obj_open_t, coh, 0, 8);
	FIELD(daos_obj_open_t, oid, 8, 16);
	FIELD(daos_obj_open_t, mode, 24, 4);
	FIELD(daos_obj_open_t, oh, 32, 8);

SIZE(daos_obj_punch_t, 48);
	FIELD(daos_obj_punch_t, th, 0, 8);
	FIELD(daos_obj_punch_t, oh, 8, 8);
	FIELD(daos_obj_punch_t, dkey, 16, 8);
	FIELD(daos_obj_punch_t, akeys, 24, 8);
	FIELD(daos_obj_punch_t, flags, 32, 8);
	FIELD(daos_obj_punch_t, akey_nr, 40, 4);

SIZE(daos_obj_query_class_t, 24);
	FIELD(daos_obj_query_class_t, coh, 0, 8);
	FIELD(daos_obj_query_class_t, cid, 8, 4);
	FIELD(daos_obj_query_class_t, cattr, 16, 8);

SIZE(daos_obj_query_key_t, 56);
	FIELD(daos_obj_query_key_t, oh, 0, 8);
	FIELD(daos_obj_query_key_t, th, 8, 8);
	FIELD(daos_obj_query_key_t, dkey, 16, 8);
	FIELD(daos_obj_query_key_t, akey, 24, 8);
	FIELD(daos_obj_query_key_t, recx, 32, 8);
	FIELD(daos_obj_query_key_t, flags, 40, 8);
	FIELD(daos_obj_query_key_t, max_epoch, 48, 8);

SIZE(daos_obj_query_t, 32);
	FIELD(daos_obj_query_t, oh, 0, 8);
	FIELD(daos_obj_query_t, th, 8, 8);
	FIELD(daos_obj_query_t, oa, 16, 8);
	FIELD(daos_obj_query_t, ranks, 24, 8);

SIZE(daos_obj_rw_t, 80);
	FIELD(daos_obj_rw_t, th, 0, 8);
	FIELD(daos_obj_rw_t, oh, 8, 8);
	FIELD(daos_obj_rw_t, flags, 16, 8);
	FIELD(daos_obj_rw_t, dkey, 24, 8);
	FIELD(daos_obj_rw_t, nr, 32, 4);
	FIELD(daos_obj_rw_t, extra_flags, 36, 4);
	FIELD(daos_obj_rw_t, iods, 40, 8);
	FIELD(daos_obj_rw_t, sgls, 48, 8);
	FIELD(daos_obj_rw_t, ioms, 56, 8);
	FIELD(daos_obj_rw_t, extra_arg, 64, 8);
	FIELD(daos_obj_rw_t, csum_iov, 72, 8);

SIZE(daos_pipeline_run_t, 120);
	FIELD(daos_pipeline_run_t, oh, 0, 8);
	FIELD(daos_pipeline_run_t, th, 8, 8);
	FIELD(daos_pipeline_run_t, pipeline, 16, 8);
	FIELD(daos_pipeline_run_t, flags, 24, 8);
	FIELD(daos_pipeline_run_t, dkey, 32, 8);
	FIELD(daos_pipeline_run_t, nr_iods, 40, 8);
	FIELD(daos_pipeline_run_t, iods, 48, 8);
	FIELD(daos_pipeline_run_t, anchor, 56, 8);
	FIELD(daos_pipeline_run_t, nr_kds, 64, 8);
	FIELD(daos_pipeline_run_t, kds, 72, 8);
	FIELD(daos_pipeline_run_t, sgl_keys, 80, 8);
	FIELD(daos_pipeline_run_t, sgl_recx, 88, 8);
	FIELD(daos_pipeline_run_t, recx_size, 96, 8);
	FIELD(daos_pipeline_run_t, sgl_agg, 104, 8);
	FIELD(daos_pipeline_run_t, stats, 112, 8);
