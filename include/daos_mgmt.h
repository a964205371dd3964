/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_MGMT_H
#define ESKER_DAOS_MGMT_H

/**
 * @file
 * The system as a whole: its description and its pools.
 */

#include <uuid/uuid.h>

#include <daos_cont.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A pool of the system. */
typedef struct {
	uuid_t         mgpi_uuid;
	d_string_t     mgpi_label;
	/** Ranks that run its service. */
	d_rank_list_t *mgpi_svc;
	/** The rank that leads it. */
	d_rank_t       mgpi_ldr;
} daos_mgmt_pool_info_t;

/** Keys of daos_debug_set_params. */
enum {
	DMG_KEY_FAIL_LOC   = 0,
	DMG_KEY_FAIL_VALUE = 1,
	DMG_KEY_FAIL_NUM   = 2,
	DMG_KEY_NUM        = 3
};

/** Query a system; NULL for the default one. Free with daos_mgmt_put_sys_info. */
int
daos_mgmt_get_sys_info(const char *sys, struct daos_sys_info **info);

/** Free the result of daos_mgmt_get_sys_info. */
void
daos_mgmt_put_sys_info(struct daos_sys_info *info);

/** Stop the service of a pool, for tests. */
int
daos_pool_stop_svc(daos_handle_t poh, daos_event_t *ev);

/**
 * List the pools of a system.
 *
 * @param group   the system, or NULL for the default one.
 * @param npools  in: entries in pools; out: number of pools.
 * @param pools   set; NULL to count only. The caller frees labels and rank lists.
 * @return 0, or -DER_OVERFLOW if there are more pools than entries.
 */
int
daos_mgmt_list_pools(const char *group, daos_size_t *npools, daos_mgmt_pool_info_t *pools,
		     daos_event_t *ev);

/** Set a parameter of one rank, or of all for -1, for tests. @param key_id DMG_KEY_*. */
int
daos_debug_set_params(const char *grp, d_rank_t rank, unsigned int key_id, uint64_t value,
		      uint64_t value_extra, daos_event_t *ev);

/** Write a mark into the log. */
int
daos_debug_add_mark(const char *mark);

/** The state of a block store, for tests. */
int
daos_mgmt_get_bs_state(const char *group, uuid_t blobstore_uuid, int *blobstore_state,
		       daos_event_t *ev);

/** The version of the servers. @param tag set to a string to free, or to NULL. */
int
dc_mgmt_srv_version(uint32_t *major, uint32_t *minor, uint32_t *patch, char **tag);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_MGMT_H */
