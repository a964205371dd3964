/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_TASK_ARGS_POOL_H
#define ESKER_DAOS_TASK_ARGS_POOL_H

/**
 * @file
 * Arguments of the tasks on the system, pools, containers and transactions.
 *
 * The fields are the parameters of the function of that name.
 */

#include <daos_api.h>
#include <daos_cont.h>
#include <daos_mgmt.h>
#include <daos_pool.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** daos_debug_set_params. */
typedef struct {
	const char *grp;
	d_rank_t   rank;
	uint32_t   key_id;
	uint64_t   value;
	uint64_t   value_extra;
} daos_set_params_t;

/** daos_mgmt_get_bs_state. */
typedef struct {
	const char *grp;
	uuid_t     uuid;
	int        *state;
} daos_mgmt_get_bs_state_t;

/** daos_mgmt_list_pools. */
typedef struct {
	const char            *grp;
	daos_mgmt_pool_info_t *pools;
	daos_size_t           *npools;
} daos_mgmt_pool_list_t;

/** daos_pool_connect. */
typedef struct {
	/** The pool, if the field pool is NULL. */
	uuid_t           uuid;
	const char       *grp;
	unsigned int     flags;
	daos_handle_t    *poh;
	daos_pool_info_t *info;
	/** Its label or its UUID as text. */
	const char       *pool;
} daos_pool_connect_t;

/** daos_pool_disconnect. */
typedef struct {
	daos_handle_t poh;
} daos_pool_disconnect_t;

/** Opcodes that add and exclude targets. */
typedef struct {
	uuid_t            uuid;
	const char        *grp;
	d_rank_list_t     *svc;
	struct d_tgt_list *tgts;
} daos_pool_update_t;

/** daos_pool_query. */
typedef struct {
	daos_handle_t    poh;
	d_rank_list_t    **ranks;
	daos_pool_info_t *info;
	daos_prop_t      *prop;
} daos_pool_query_t;

/** daos_pool_query_target. */
typedef struct {
	daos_handle_t      poh;
	uint32_t           tgt_idx;
	d_rank_t           rank;
	daos_target_info_t *info;
} daos_pool_query_target_t;

/** daos_pool_list_cont. */
typedef struct {
	daos_handle_t              poh;
	daos_size_t                *ncont;
	struct daos_pool_cont_info *cont_buf;
} daos_pool_list_cont_t;

/** daos_pool_filter_cont. */
typedef struct {
	daos_handle_t               poh;
	daos_pool_cont_filter_t     *filt;
	daos_size_t                 *ncont;
	struct daos_pool_cont_info2 *cont_buf;
} daos_pool_filter_cont_t;

/** daos_pool_list_attr. */
typedef struct {
	daos_handle_t poh;
	char          *buf;
	size_t        *size;
} daos_pool_list_attr_t;

/** daos_pool_get_attr. */
typedef struct {
	daos_handle_t     poh;
	int               n;
	char const *const *names;
	void *const       *values;
	size_t            *sizes;
} daos_pool_get_attr_t;

/** daos_pool_set_attr. */
typedef struct {
	daos_handle_t     poh;
	int               n;
	char const *const *names;
	void const *const *values;
	size_t const      *sizes;
} daos_pool_set_attr_t;

/** daos_pool_del_attr. */
typedef struct {
	daos_handle_t     poh;
	int               n;
	char const *const *names;
} daos_pool_del_attr_t;

/** Changes of the replicas of a pool service. */
typedef struct {
	uuid_t        uuid;
	const char    *group;
	d_rank_list_t *targets;
	d_rank_list_t *failed;
} daos_pool_replicas_t;

/** daos_pool_stop_svc. */
typedef struct {
	daos_handle_t poh;
} daos_pool_stop_svc_t;

/** daos_cont_create. */
typedef struct {
	daos_handle_t poh;
	/** Unused. */
	uuid_t        uuid;
	daos_prop_t   *prop;
	/** Set to its UUID; may be NULL. */
	uuid_t        *cuuid;
} daos_cont_create_t;

/** daos_cont_open. */
typedef struct {
	daos_handle_t    poh;
	/** The container, if the field cont is NULL. */
	uuid_t           uuid;
	unsigned int     flags;
	daos_handle_t    *coh;
	daos_cont_info_t *info;
	/** Its label or its UUID as text. */
	const char       *cont;
} daos_cont_open_t;

/** daos_cont_close. */
typedef struct {
	daos_handle_t coh;
} daos_cont_close_t;

/** daos_cont_destroy. */
typedef struct {
	daos_handle_t poh;
	/** The container, if the field cont is NULL. */
	uuid_t        uuid;
	int           force;
	/** Its label or its UUID as text. */
	const char    *cont;
} daos_cont_destroy_t;

/** daos_cont_query. */
typedef struct {
	daos_handle_t    coh;
	daos_cont_info_t *info;
	daos_prop_t      *prop;
} daos_cont_query_t;

/** daos_cont_set_prop. */
typedef struct {
	daos_handle_t coh;
	daos_prop_t   *prop;
} daos_cont_set_prop_t;

/** daos_cont_update_acl. */
typedef struct {
	daos_handle_t   coh;
	struct daos_acl *acl;
} daos_cont_update_acl_t;

/** daos_cont_delete_acl. */
typedef struct {
	daos_handle_t coh;
	uint8_t       type;
	d_string_t    name;
} daos_cont_delete_acl_t;

/** daos_cont_aggregate. */
typedef struct {
	daos_handle_t coh;
	daos_epoch_t  epoch;
} daos_cont_aggregate_t;

/** daos_cont_rollback. */
typedef struct {
	daos_handle_t coh;
	daos_epoch_t  epoch;
} daos_cont_rollback_t;

/** daos_cont_subscribe. */
typedef struct {
	daos_handle_t coh;
	daos_epoch_t  *epoch;
} daos_cont_subscribe_t;

/** daos_cont_list_attr. */
typedef struct {
	daos_handle_t coh;
	char          *buf;
	size_t        *size;
} daos_cont_list_attr_t;

/** daos_cont_get_attr. */
typedef struct {
	daos_handle_t     coh;
	int               n;
	char const *const *names;
	void *const       *values;
	size_t            *sizes;
} daos_cont_get_attr_t;

/** daos_cont_set_attr. */
typedef struct {
	daos_handle_t     coh;
	int               n;
	char const *const *names;
	void const *const *values;
	size_t const      *sizes;
} daos_cont_set_attr_t;

/** daos_cont_del_attr. */
typedef struct {
	daos_handle_t     coh;
	int               n;
	char const *const *names;
} daos_cont_del_attr_t;

/** daos_cont_alloc_oids. */
typedef struct {
	daos_handle_t coh;
	daos_size_t   num_oids;
	uint64_t      *oid;
} daos_cont_alloc_oids_t;

/** daos_cont_list_snap. */
typedef struct {
	daos_handle_t coh;
	int           *nr;
	daos_epoch_t  *epochs;
	char          **names;
	daos_anchor_t *anchor;
} daos_cont_list_snap_t;

/** daos_cont_create_snap_opt. */
typedef struct {
	daos_handle_t coh;
	unsigned int  opts;
	daos_epoch_t  *epoch;
	char          *name;
} daos_cont_create_snap_t;

/** daos_cont_destroy_snap. */
typedef struct {
	daos_handle_t      coh;
	daos_epoch_range_t epr;
} daos_cont_destroy_snap_t;

/** The identifier of the table of a snapshot. */
typedef struct {
	daos_handle_t coh;
	daos_epoch_t  epoch;
	daos_obj_id_t *oid;
} daos_cont_snap_oit_oid_get_t;

/** daos_cont_snap_oit_create. */
typedef struct {
	daos_handle_t coh;
	daos_epoch_t  epoch;
	char          *name;
} daos_cont_snap_oit_create_t;

/** daos_cont_snap_oit_destroy. */
typedef struct {
	daos_handle_t coh;
	daos_epoch_t  epoch;
} daos_cont_snap_oit_destroy_t;

/** daos_tx_open. */
typedef struct {
	daos_handle_t coh;
	daos_handle_t *th;
	uint64_t      flags;
} daos_tx_open_t;

/** daos_tx_commit. */
typedef struct {
	daos_handle_t th;
	/** Reserved, 0. */
	uint32_t      flags;
} daos_tx_commit_t;

/** daos_tx_abort. */
typedef struct {
	daos_handle_t th;
} daos_tx_abort_t;

/** daos_tx_open_snap. */
typedef struct {
	daos_handle_t coh;
	daos_epoch_t  epoch;
	daos_handle_t *th;
} daos_tx_open_snap_t;

/** daos_tx_close. */
typedef struct {
	daos_handle_t th;
} daos_tx_close_t;

/** daos_tx_restart. */
typedef struct {
	daos_handle_t th;
} daos_tx_restart_t;

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_TASK_ARGS_POOL_H */
