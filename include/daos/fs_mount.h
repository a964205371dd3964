/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_FS_MOUNT_H
#define ESKER_DAOS_FS_MOUNT_H

/**
 * @file
 * Making, mounting and checking the file systems of daos_fs.h. All functions return 0 or a
 * positive errno.
 */

#include <daos/fs_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Start using dfs_connect; starts the library as daos_init does. Calls are counted. */
int
dfs_init(void);

/** Undo one dfs_init; the last one closes what is left. */
int
dfs_fini(void);

/**
 * Connect to a pool, open a container and mount its file system, all at once.
 *
 * @param sys    not used.
 * @param flags  O_RDONLY or O_RDWR; with O_CREAT the container is made where there is none.
 * @param attr   for making it, or NULL.
 * @return EACCES without dfs_init; ENOENT; EINVAL where it holds no file system.
 */
int
dfs_connect(const char *pool, const char *sys, const char *cont, int flags, dfs_attr_t *attr,
	    dfs_t **dfs);

/** As dfs_connect, of a snapshot and for reading only. @param name must be NULL. */
int
dfs_connect_snap(const char *pool, const char *sys, const char *cont, int flags,
		 daos_epoch_t epoch, const char *name, dfs_t **dfs);

/** End what dfs_connect, dfs_connect_snap or dfs_global2local_all began. */
int
dfs_disconnect(dfs_t *dfs);

/** Destroy a container. @return EBUSY while it is open somewhere, unless forced; ENOENT. */
int
dfs_destroy(const char *pool, const char *sys, const char *cont, int force, daos_event_t *ev);

/**
 * Make a container with an empty file system in it.
 *
 * @param uuid  where its UUID goes; EINVAL where that is NULL.
 * @param attr  or NULL for defaults. Without a label among the properties it has none.
 * @param coh   where not NULL, left open here.
 * @param dfs   where not NULL, mounted here.
 */
int
dfs_cont_create(daos_handle_t poh, uuid_t *uuid, dfs_attr_t *attr, daos_handle_t *coh,
		dfs_t **dfs);

/** As dfs_cont_create, with a label. @return EEXIST where another has it. */
int
dfs_cont_create_with_label(daos_handle_t poh, const char *label, dfs_attr_t *attr, uuid_t *uuid,
			   daos_handle_t *coh, dfs_t **dfs);

/**
 * Mount the file system of an open container. Both handles stay open until dfs_umount.
 *
 * @param flags  O_RDONLY or O_RDWR.
 * @return EINVAL where the container holds no file system, EPERM where it is open for reading
 *         only and flags are not.
 */
int
dfs_mount(daos_handle_t poh, daos_handle_t coh, int flags, dfs_t **dfs);

/** Mount a snapshot, for reading only. @param name must be NULL. */
int
dfs_mount_snap(daos_handle_t poh, daos_handle_t coh, int flags, daos_epoch_t epoch,
	       const char *name, dfs_t **dfs);

/** End a mount. Objects of it that are still open keep what they hold until dfs_release. */
int
dfs_umount(dfs_t *dfs);

/** The handle of the pool; give it back with dfs_pool_put. */
int
dfs_pool_get(dfs_t *dfs, daos_handle_t *poh);

int
dfs_pool_put(dfs_t *dfs, daos_handle_t poh);

/** The handle of the container; give it back with dfs_cont_put. */
int
dfs_cont_get(dfs_t *dfs, daos_handle_t *coh);

int
dfs_cont_put(dfs_t *dfs, daos_handle_t coh);

/** What the file system was made with. */
int
dfs_query(dfs_t *dfs, dfs_attr_t *attr);

/** Make a mount known to other processes, in the way of daos_cont_local2global. */
int
dfs_local2global(dfs_t *dfs, d_iov_t *glob);

/** Mount as another process did. @param flags 0 for the mode it used. */
int
dfs_global2local(daos_handle_t poh, daos_handle_t coh, int flags, d_iov_t glob, dfs_t **dfs);

/** Make a mount known with its pool and container. */
int
dfs_local2global_all(dfs_t *dfs, d_iov_t *glob);

/** Connect, open and mount as another process did; end it with dfs_disconnect. */
int
dfs_global2local_all(int flags, d_iov_t glob, dfs_t **dfs);

/**
 * Have dfs_lookup take this prefix off the paths it is given.
 * @param prefix  an absolute path, or NULL for none.
 */
int
dfs_set_prefix(dfs_t *dfs, const char *prefix);

/** Bring to storage what is kept back: times of files and directories, and nothing else. */
int
dfs_sync(dfs_t *dfs);

/**
 * Look for objects that no name leads to.
 *
 * @param cont   label or UUID.
 * @param flags  DFS_CHECK_*.
 * @param name   directory below /lost+found, or NULL.
 * @return ENOTSUP for flags that are not offered, see docs/semantics.md.
 */
int
dfs_cont_check(daos_handle_t poh, const char *cont, uint64_t flags, const char *name);

/** Print how many files, directories and bytes there are. @param name where to begin, or NULL. */
int
dfs_cont_scan(daos_handle_t poh, const char *cont, uint64_t flags, const char *name);

/**
 * daos_cont_set_owner, and the same of the root directory.
 *
 * @param user   or NULL to leave it.
 * @param uid    for the root directory; (uid_t)-1 for that of the user's name.
 * @param group  or NULL to leave it.
 * @param gid    for the root directory; (gid_t)-1 for that of the group's name.
 */
int
dfs_cont_set_owner(daos_handle_t coh, d_string_t user, uid_t uid, d_string_t group, gid_t gid);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_FS_MOUNT_H */
