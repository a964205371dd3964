/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_POOL_H
#define ESKER_DAOS_POOL_H

/**
 * @file
 * Pools: storage reserved on some targets, in which containers are created.
 *
 * A handle that is not open returns -DER_NO_HDL.
 */

#include <inttypes.h>
#include <sys/types.h>
#include <uuid/uuid.h>

#include <daos/pool_info.h>
#include <daos_prop.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Connect to a pool.
 *
 * @param pool   its label, or its UUID as text.
 * @param sys    the system, or NULL for the default one.
 * @param flags  one of DAOS_PC_*.
 * @param info   set; may be NULL. pi_bits selects what to return.
 * @return 0; -DER_NONEXIST; -DER_NO_PERM; -DER_BUSY if exclusive use is not possible.
 */
int
daos_pool_connect2(const char *pool, const char *sys, unsigned int flags, daos_handle_t *poh,
		   daos_pool_info_t *info, daos_event_t *ev);
#define daos_pool_connect daos_pool_connect2

/** Disconnect from a pool; close the containers in it first. */
int
daos_pool_disconnect(daos_handle_t poh, daos_event_t *ev);

/**
 * Serialize a connection so that other processes can use it.
 *
 * @param glob  if iov_buf is NULL, iov_buf_len is set to the bytes needed; otherwise filled.
 * @return 0, or -DER_TRUNC if the buffer is too small; iov_buf_len is then the bytes needed.
 */
int
daos_pool_local2global(daos_handle_t poh, d_iov_t *glob);

/** Connect to a pool from the bytes of daos_pool_local2global. @return 0 or -DER_INVAL. */
int
daos_pool_global2local(d_iov_t glob, daos_handle_t *poh);

/**
 * Query a pool. Unwanted results may be NULL.
 *
 * @param ranks      set to a list, chosen by info->pi_bits, to free with d_rank_list_free.
 * @param info       set.
 * @param pool_prop  properties to fill in; if it has no entries, all.
 */
int
daos_pool_query(daos_handle_t poh, d_rank_list_t **ranks, daos_pool_info_t *info,
		daos_prop_t *pool_prop, daos_event_t *ev);

/** Query target tgt of a rank. @return 0 or -DER_NONEXIST. */
int
daos_pool_query_target(daos_handle_t poh, uint32_t tgt, d_rank_t rank,
		       daos_target_info_t *info, daos_event_t *ev);

/** List the names of the attributes of a pool, like daos_cont_list_attr. */
int
daos_pool_list_attr(daos_handle_t poh, char *buffer, size_t *size, daos_event_t *ev);

/** Read attributes, like daos_cont_get_attr. */
int
daos_pool_get_attr(daos_handle_t poh, int n, char const *const names[], void *const buffers[],
		   size_t sizes[], daos_event_t *ev);

/** Set attributes, like daos_cont_set_attr. */
int
daos_pool_set_attr(daos_handle_t poh, int n, char const *const names[],
		   void const *const values[], size_t const sizes[], daos_event_t *ev);

/** Delete attributes. */
int
daos_pool_del_attr(daos_handle_t poh, int n, char const *const names[], daos_event_t *ev);

/**
 * List the containers of a pool, in no particular order.
 *
 * @param ncont  in: entries in cbuf; out: number of containers. NULL returns -DER_INVAL.
 * @param cbuf   set; NULL to count only.
 * @return 0, or -DER_TRUNC if there are more containers than entries.
 */
int
daos_pool_list_cont(daos_handle_t poh, daos_size_t *ncont, struct daos_pool_cont_info *cbuf,
		    daos_event_t *ev);

/** Comparison operators of a filter. */
enum daos_pool_cont_filter_func {
	PCF_FUNC_EQ  = 0,
	PCF_FUNC_NE  = 1,
	PCF_FUNC_LT  = 2,
	PCF_FUNC_LE  = 3,
	PCF_FUNC_GT  = 4,
	PCF_FUNC_GE  = 5,
	PCF_FUNC_MAX = 6
};

/** Field that a filter compares. */
enum daos_pool_cont_filter_key {
	/** ci_md_otime. */
	PCF_KEY_MD_OTIME      = 0,
	/** ci_md_mtime. */
	PCF_KEY_MD_MTIME      = 1,
	/** ci_nsnapshots. */
	PCF_KEY_NUM_SNAPSHOTS = 2,
	/** ci_nhandles. */
	PCF_KEY_NUM_HANDLES   = 3,
	PCF_KEY_MAX           = 4
};

/** Combination of the parts of a filter. */
enum daos_pool_cont_filter_combine {
	PCF_COMBINE_LOGICAL_AND = 0,
	PCF_COMBINE_LOGICAL_OR  = 1
};

/** One comparison. */
typedef struct daos_pool_cont_filter_part {
	/** daos_pool_cont_filter_func. */
	uint32_t pcfp_func;
	/** daos_pool_cont_filter_key. */
	uint32_t pcfp_key;
	/** The value to compare with. */
	__extension__ union {
		uint64_t   pcfp_val64;
		d_string_t pcfp_valstr;
	};
} daos_pool_cont_filter_part_t;

/** A filter of containers. Without parts, it accepts all. */
typedef struct daos_pool_cont_filter {
	/** daos_pool_cont_filter_combine. */
	uint32_t                            pcf_combine_func;
	/** Entries in pcf_parts. */
	uint32_t                            pcf_nparts;
	struct daos_pool_cont_filter_part **pcf_parts;
} daos_pool_cont_filter_t;

/** Maximum number of parts of a filter. */
#define DAOS_POOL_CONT_FILTER_MAX_NPARTS (8)

/** The symbol of a comparison operator. */
static inline const char *
daos_pool_cont_filter_func_str(enum daos_pool_cont_filter_func func)
{
	static const char *const text[] = {"==", "!=", "<", "<=", ">", ">="};

	return (unsigned int)func < PCF_FUNC_MAX ? text[func] : "UNKNOWN";
}

/** The name of what is compared. */
static inline const char *
daos_pool_cont_filter_key_str(enum daos_pool_cont_filter_key key)
{
	static const char *const text[] = {"md_open_time", "md_modify_time", "num_snapshots",
					   "num_handles"};

	return (unsigned int)key < PCF_KEY_MAX ? text[key] : "UNKNOWN";
}

/** Create a filter without parts. @return 0 or -DER_INVAL. */
int
daos_pool_cont_filter_init(daos_pool_cont_filter_t *filt, uint32_t combine_func);

/** Add a copy of a part to a filter. @return 0, -DER_INVAL, -DER_NOMEM. */
int
daos_pool_cont_filter_add(daos_pool_cont_filter_t *filt, daos_pool_cont_filter_part_t *part);

/** Free the parts of a filter. */
void
daos_pool_cont_filter_fini(daos_pool_cont_filter_t *filt);

/** Like daos_pool_list_cont, for containers that a filter accepts; NULL for all. */
int
daos_pool_filter_cont(daos_handle_t poh, daos_pool_cont_filter_t *filter, daos_size_t *ncont,
		      struct daos_pool_cont_info2 *cbuf, daos_event_t *ev);

/**
 * Query what a user may do with a pool.
 *
 * @param pool_prop  its access control list, owner and group.
 * @param perms      set to DAOS_ACL_PERM_*.
 */
int
daos_pool_get_perms(daos_prop_t *pool_prop, uid_t uid, gid_t *gids, size_t nr_gids,
		    uint64_t *perms);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_POOL_H */
