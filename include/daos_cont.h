/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_CONT_H
#define ESKER_DAOS_CONT_H

/**
 * @file
 * Containers divide a pool. Each has its own objects, snapshots and properties.
 *
 * A container has a UUID and may have a label; functions that take a name accept either, the
 * UUID as text. A handle that is not open returns -DER_NO_HDL, a container that does not exist
 * -DER_NONEXIST, and an operation that the access control list forbids -DER_NO_PERM.
 */

#include <daos_prop.h>
#include <daos_security.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Modes and flags of daos_cont_open. */
/** Read only. */
#define DAOS_COO_RO            0x01U
/** Read and write. */
#define DAOS_COO_RW            0x02U
/** Read and write, with exclusive access. */
#define DAOS_COO_EX            0x04U
/** Open it even if it is unclean. */
#define DAOS_COO_FORCE         0x08U
/** Do not update its times; with DAOS_COO_RO. */
#define DAOS_COO_RO_MDSTATS    0x10U
/** Evict the handles of this process on it first. Not with DAOS_COO_EX. */
#define DAOS_COO_EVICT         0x20U
/** Like DAOS_COO_EVICT; only with DAOS_COO_EX. */
#define DAOS_COO_EVICT_ALL     0x40U
/** The caller supports the newer hashing of objects to targets. Set by the library. */
#define DAOS_COO_NEW_LAYOUT    0x80U
#define DAOS_COO_NBITS         (8)
#define DAOS_COO_MASK          0xffU
#define DAOS_COO_IO_BASE_MASK  0x07U

/** Bytes of a hint about a container, with its NUL. */
#define DAOS_CONT_HINT_MAX_LEN 128

/** Bytes of a snapshot's name, with its NUL. */
#define DAOS_SNAPSHOT_MAX_LEN  128

/** See daos_api.h. */
d_rank_list_t *
daos_rank_list_parse(const char *str, const char *sep);

/**
 * Serialize an open container so that other processes can open it.
 *
 * @param glob  with iov_buf NULL, iov_buf_len is set to the bytes needed; otherwise filled.
 * @return 0, or -DER_TRUNC when the buffer is too small; iov_buf_len is then the bytes needed.
 */
int
daos_cont_local2global(daos_handle_t coh, d_iov_t *glob);

/** Open a container from the bytes of daos_cont_local2global. @return 0 or -DER_INVAL. */
int
daos_cont_global2local(daos_handle_t poh, d_iov_t glob, daos_handle_t *coh);

/**
 * Create a container.
 *
 * @param uuid       set to its UUID, which the library chooses; may be NULL.
 * @param cont_prop  its properties; may be NULL.
 * @return 0; -DER_EXIST if the label in the properties is taken; -DER_INVAL.
 */
int
daos_cont_create2(daos_handle_t poh, uuid_t *uuid, daos_prop_t *cont_prop, daos_event_t *ev);
#define daos_cont_create daos_cont_create2

/**
 * Create a container with a label, see daos_label_is_valid.
 *
 * If several callers use the same label, exactly one gets 0.
 *
 * @param uuid  set to its UUID; may be NULL.
 * @return 0; -DER_EXIST if the label is taken; -DER_INVAL if it is invalid.
 */
int
daos_cont_create_with_label(daos_handle_t poh, const char *label, daos_prop_t *cont_prop,
			    uuid_t *uuid, daos_event_t *ev);

/**
 * Open a container.
 *
 * @param flags  DAOS_COO_*.
 * @param info   set; may be NULL.
 * @return 0; -DER_NONEXIST; -DER_NO_PERM; -DER_BUSY if exclusive use is not possible.
 */
int
daos_cont_open2(daos_handle_t poh, const char *cont, unsigned int flags, daos_handle_t *coh,
		daos_cont_info_t *info, daos_event_t *ev);
#define daos_cont_open daos_cont_open2

/** Close a container; close the objects in it first. */
int
daos_cont_close(daos_handle_t coh, daos_event_t *ev);

/**
 * Destroy a container and everything in it.
 *
 * @param force  non-zero: even if it is open; its handles can then only be closed.
 * @return 0; -DER_BUSY if it is open and not forced; -DER_NONEXIST.
 */
int
daos_cont_destroy2(daos_handle_t poh, const char *cont, int force, daos_event_t *ev);
#define daos_cont_destroy daos_cont_destroy2

/**
 * Query an open container.
 *
 * @param info       set; may be NULL.
 * @param cont_prop  properties to fill in; if it has no entries, all. May be NULL.
 */
int
daos_cont_query(daos_handle_t coh, daos_cont_info_t *info, daos_prop_t *cont_prop,
		daos_event_t *ev);

/** The access control list, owner and group as a new list to free with daos_prop_free. */
int
daos_cont_get_acl(daos_handle_t coh, daos_prop_t **acl_prop, daos_event_t *ev);

/** Change properties. @return 0; -DER_NO_PERM for a property fixed at creation. */
int
daos_cont_set_prop(daos_handle_t coh, daos_prop_t *prop, daos_event_t *ev);

/** Mark a container as healthy again. */
int
daos_cont_status_clear(daos_handle_t coh, daos_event_t *ev);

/** Replace the access control list. */
int
daos_cont_overwrite_acl(daos_handle_t coh, struct daos_acl *acl, daos_event_t *ev);

/** Add entries to the access control list; they replace existing entries of the same principal. */
int
daos_cont_update_acl(daos_handle_t coh, struct daos_acl *acl, daos_event_t *ev);

/** Remove a principal from the access control list. @return 0 or -DER_NONEXIST. */
int
daos_cont_delete_acl(daos_handle_t coh, enum daos_acl_principal_type type, d_string_t name,
		     daos_event_t *ev);

/** Set the owning user, group, or both. Either may be NULL. */
int
daos_cont_set_owner(daos_handle_t coh, d_string_t user, d_string_t group, daos_event_t *ev);

/** Like daos_cont_set_owner, for names that are unknown on this machine. */
int
daos_cont_set_owner_no_check(daos_handle_t coh, d_string_t user, d_string_t group,
			     daos_event_t *ev);

/**
 * List the names of a container's attributes, which users define.
 *
 * @param buffer  filled with names, each with its NUL; may be NULL.
 * @param size    in: bytes of buffer; out: bytes of all names.
 */
int
daos_cont_list_attr(daos_handle_t coh, char *buffer, size_t *size, daos_event_t *ev);

/**
 * Read attributes.
 *
 * @param n        entries in the three arrays.
 * @param buffers  filled, each with as much as fits; NULL to query only the sizes.
 * @param sizes    in: bytes of the buffers; out: bytes of the values, 0 if there is none.
 */
int
daos_cont_get_attr(daos_handle_t coh, int n, char const *const names[], void *const buffers[],
		   size_t sizes[], daos_event_t *ev);

/** Set attributes. Names have up to DAOS_ATTR_NAME_MAX bytes, else -DER_INVAL. */
int
daos_cont_set_attr(daos_handle_t coh, int n, char const *const names[],
		   void const *const values[], size_t const sizes[], daos_event_t *ev);

/** Delete attributes. */
int
daos_cont_del_attr(daos_handle_t coh, int n, char const *const names[], daos_event_t *ev);

/**
 * Allocate num_oids object id numbers starting at *oid; they are never handed out again.
 */
int
daos_cont_alloc_oids(daos_handle_t coh, daos_size_t num_oids, uint64_t *oid, daos_event_t *ev);

/** Reclaim the space of data overwritten before an epoch. */
int
daos_cont_aggregate(daos_handle_t coh, daos_epoch_t epoch, daos_event_t *ev);

/** Roll back to a snapshot. Not implemented: -DER_NOSYS. */
int
daos_cont_rollback(daos_handle_t coh, daos_epoch_t epoch, daos_event_t *ev);

/** Wait for a snapshot. Not implemented: -DER_NOSYS. */
int
daos_cont_subscribe(daos_handle_t coh, daos_epoch_t *epoch, daos_event_t *ev);

/** Create a snapshot. @param epoch set to its epoch. @param name must be NULL. */
int
daos_cont_create_snap(daos_handle_t coh, daos_epoch_t *epoch, char *name, daos_event_t *ev);

/** Options of daos_cont_create_snap_opt. */
enum daos_snapshot_opts {
	/** Create the snapshot. */
	DAOS_SNAP_OPT_CR  = 0x1,
	/** Create its object identifier table. */
	DAOS_SNAP_OPT_OIT = 0x2
};

/** Like daos_cont_create_snap, with options. */
int
daos_cont_create_snap_opt(daos_handle_t coh, daos_epoch_t *epoch, char *name,
			  enum daos_snapshot_opts opts, daos_event_t *ev);

/**
 * List snapshots.
 *
 * @param nr      in: entries in epochs; out: number of snapshots.
 * @param epochs  set; may be NULL.
 * @param names   reserved, NULL.
 * @param anchor  zeroed to begin; daos_anchor_is_eof at the end.
 */
int
daos_cont_list_snap(daos_handle_t coh, int *nr, daos_epoch_t *epochs, char **names,
		    daos_anchor_t *anchor, daos_event_t *ev);

/** Delete a snapshot: lo and hi of epr are its epoch. @return 0 or -DER_NONEXIST. */
int
daos_cont_destroy_snap(daos_handle_t coh, daos_epoch_range_t epr, daos_event_t *ev);

/**
 * Query what a user may do with a container.
 *
 * @param cont_prop  its access control list, owner and group.
 * @param perms      set to DAOS_ACL_PERM_*.
 */
int
daos_cont_get_perms(daos_prop_t *cont_prop, uid_t uid, gid_t *gids, size_t nr_gids,
		    uint64_t *perms);

/** Create the object identifier table of a snapshot. @param name must be NULL. */
int
daos_cont_snap_oit_create(daos_handle_t coh, daos_epoch_t epoch, char *name, daos_event_t *ev);

/** Delete an open object identifier table. */
int
daos_cont_snap_oit_destroy(daos_handle_t coh, daos_handle_t oh, daos_event_t *ev);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_CONT_H */
