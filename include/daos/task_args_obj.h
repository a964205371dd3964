/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_TASK_ARGS_OBJ_H
#define ESKER_DAOS_TASK_ARGS_OBJ_H

/**
 * @file
 * Arguments of the tasks on objects, arrays and KV objects.
 *
 * The fields are the parameters of the function of that name.
 */

#include <daos_array.h>
#include <daos_kv.h>
#include <daos_obj.h>
#include <daos_pipeline.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** daos_obj_register_class. */
struct daos_obj_register_class_t {
	daos_handle_t           coh;
	daos_oclass_id_t        cid;
	struct daos_oclass_attr *cattr;
};

/** daos_obj_query_class. */
typedef struct {
	daos_handle_t           coh;
	daos_oclass_id_t        cid;
	struct daos_oclass_attr *cattr;
} daos_obj_query_class_t;

/** daos_obj_list_class. */
typedef struct {
	daos_handle_t           coh;
	struct daos_oclass_list *clist;
	daos_anchor_t           *anchor;
} daos_obj_list_class_t;

/** daos_obj_open. */
typedef struct {
	daos_handle_t coh;
	daos_obj_id_t oid;
	unsigned int  mode;
	daos_handle_t *oh;
} daos_obj_open_t;

/** daos_obj_close. */
typedef struct {
	daos_handle_t oh;
} daos_obj_close_t;

/** daos_obj_punch, daos_obj_punch_dkeys and daos_obj_punch_akeys. */
typedef struct {
	daos_handle_t th;
	daos_handle_t oh;
	/** NULL to punch the object. */
	daos_key_t    *dkey;
	/** NULL to punch the dkey. */
	daos_key_t    *akeys;
	uint64_t      flags;
	unsigned int  akey_nr;
} daos_obj_punch_t;

/** daos_obj_query. */
typedef struct {
	daos_handle_t        oh;
	daos_handle_t        th;
	struct daos_obj_attr *oa;
	d_rank_list_t        *ranks;
} daos_obj_query_t;

/** daos_obj_query_key. */
typedef struct {
	daos_handle_t oh;
	daos_handle_t th;
	daos_key_t    *dkey;
	daos_key_t    *akey;
	daos_recx_t   *recx;
	uint64_t      flags;
	/** Set to the epoch of the latest change; may be NULL. */
	daos_epoch_t  *max_epoch;
} daos_obj_query_key_t;

/** daos_obj_fetch and daos_obj_update. */
typedef struct {
	daos_handle_t th;
	daos_handle_t oh;
	uint64_t      flags;
	daos_key_t    *dkey;
	uint32_t      nr;
	/** Zero. */
	uint32_t      extra_flags;
	daos_iod_t    *iods;
	d_sg_list_t   *sgls;
	/** For a fetch. */
	daos_iom_t    *ioms;
	/** NULL. */
	void          *extra_arg;
	/** NULL. */
	d_iov_t       *csum_iov;
} daos_obj_rw_t;

typedef daos_obj_rw_t daos_obj_fetch_t;
typedef daos_obj_rw_t daos_obj_update_t;

/** Synchronisation of an object. */
struct daos_obj_sync_args {
	daos_handle_t oh;
	daos_epoch_t  epoch;
	daos_epoch_t  **epochs_p;
	int           *nr;
};

/** daos_obj_list_dkey, daos_obj_list_akey, daos_obj_list_recx and daos_obj_key2anchor. */
typedef struct {
	daos_handle_t      oh;
	daos_handle_t      th;
	daos_key_t         *dkey;
	daos_key_t         *akey;
	uint32_t           *nr;
	daos_key_desc_t    *kds;
	d_sg_list_t        *sgl;
	daos_size_t        *size;
	daos_iod_type_t    type;
	daos_recx_t        *recxs;
	daos_epoch_range_t *eprs;
	daos_anchor_t      *anchor;
	daos_anchor_t      *dkey_anchor;
	daos_anchor_t      *akey_anchor;
	uint32_t           *versions;
	d_iov_t            *csum;
	bool               incr_order;
} daos_obj_list_t;

typedef daos_obj_list_t daos_obj_list_dkey_t;
typedef daos_obj_list_t daos_obj_list_akey_t;
typedef daos_obj_list_t daos_obj_list_recx_t;
typedef daos_obj_list_t daos_obj_list_obj_t;
typedef daos_obj_list_t daos_obj_key2anchor_t;

/** daos_array_create. */
typedef struct {
	daos_handle_t coh;
	daos_obj_id_t oid;
	daos_handle_t th;
	daos_size_t   cell_size;
	daos_size_t   chunk_size;
	daos_handle_t *oh;
} daos_array_create_t;

/** daos_array_open and daos_array_open_with_attr. */
typedef struct {
	daos_handle_t coh;
	daos_obj_id_t oid;
	daos_handle_t th;
	unsigned int  mode;
	/** Non-zero: the caller supplies the sizes; they are not read. */
	unsigned int  open_with_attr;
	daos_size_t   *cell_size;
	daos_size_t   *chunk_size;
	daos_handle_t *oh;
} daos_array_open_t;

/** daos_array_close. */
typedef struct {
	daos_handle_t oh;
} daos_array_close_t;

/** daos_array_read, daos_array_write and daos_array_punch. */
typedef struct {
	daos_handle_t    oh;
	daos_handle_t    th;
	daos_array_iod_t *iod;
	d_sg_list_t      *sgl;
} daos_array_io_t;

/** daos_array_get_size. */
typedef struct {
	daos_handle_t oh;
	daos_handle_t th;
	daos_size_t   *size;
} daos_array_get_size_t;

/** daos_array_stat. */
typedef struct {
	daos_handle_t      oh;
	daos_handle_t      th;
	daos_array_stbuf_t *stbuf;
} daos_array_stat_t;

/** daos_array_set_size. */
typedef struct {
	daos_handle_t oh;
	daos_handle_t th;
	daos_size_t   size;
} daos_array_set_size_t;

/** daos_array_destroy. */
typedef struct {
	daos_handle_t oh;
	daos_handle_t th;
} daos_array_destroy_t;

/** daos_kv_open. */
typedef struct {
	daos_handle_t coh;
	daos_obj_id_t oid;
	unsigned int  mode;
	daos_handle_t *oh;
} daos_kv_open_t;

/** daos_kv_close. */
typedef struct {
	daos_handle_t oh;
} daos_kv_close_t;

/** daos_kv_destroy. */
typedef struct {
	daos_handle_t oh;
	daos_handle_t th;
} daos_kv_destroy_t;

/** daos_kv_get. */
typedef struct {
	daos_handle_t oh;
	daos_handle_t th;
	uint64_t      flags;
	const char    *key;
	daos_size_t   *buf_size;
	void          *buf;
} daos_kv_get_t;

/** daos_kv_put. */
typedef struct {
	daos_handle_t oh;
	daos_handle_t th;
	uint64_t      flags;
	const char    *key;
	daos_size_t   buf_size;
	const void    *buf;
} daos_kv_put_t;

/** daos_kv_remove. */
typedef struct {
	daos_handle_t oh;
	daos_handle_t th;
	uint64_t      flags;
	const char    *key;
} daos_kv_remove_t;

/** daos_kv_list. */
typedef struct {
	daos_handle_t   oh;
	daos_handle_t   th;
	uint32_t        *nr;
	daos_key_desc_t *kds;
	d_sg_list_t     *sgl;
	daos_anchor_t   *anchor;
} daos_kv_list_t;

/** The call that runs a pipeline. */
typedef struct {
	daos_handle_t         oh;
	daos_handle_t         th;
	daos_pipeline_t       *pipeline;
	uint64_t              flags;
	daos_key_t            *dkey;
	uint32_t              *nr_iods;
	daos_iod_t            *iods;
	daos_anchor_t         *anchor;
	uint32_t              *nr_kds;
	daos_key_desc_t       *kds;
	d_sg_list_t           *sgl_keys;
	d_sg_list_t           *sgl_recx;
	daos_size_t           *recx_size;
	d_sg_list_t           *sgl_agg;
	daos_pipeline_stats_t *stats;
} daos_pipeline_run_t;

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_TASK_ARGS_OBJ_H */
