/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_FS_MOUNT_H
#define ESKER_DAOS_FS_MOUNT_H

/**
 * @file
 * Creating, mounting and checking the file systems of daos_fs.h. All functions return 0 or a
 * positive errno.
 */

#include <daos/fs_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Required before dfs_connect; initializes the library like daos_init. Calls are counted. */
int
dfs_init(void);

/** Undo one dfs_init; the last call closes everything still open. */
int
dfs_fini(void);

/**
 * Connect to a pool, open a container and mount its file system, in one call.
 *
 * @param sys    unused.
 * @param flags  O_RDONLY or O_RDWR; with O_CREAT the container is created if it does not exist.
 * @param attr   for creating it, or NULL.
 * @return EACCES without dfs_init; ENOENT; EINVAL if it holds no file system.
 */
int
dfs_connect(const char *pool, const char *sys, const char *cont, int flags, dfs_attr_t *attr,
	    dfs_t **dfs);

/** Like dfs_connect, for a snapshot and read-only. @param name must be NULL. */
int
dfs_connect_snap(const char *pool, const char *sys, const char *cont, int flags,
		 daos_epoch_t epoch, const char *name, dfs_t **dfs);

/** Undo dfs_connect, dfs_connect_snap or dfs_global2local_all. */
int
dfs_disconnect(dfs_t *dfs);

/** Destroy a container. @return EBUSY if it is open, unless forced; ENOENT. */
int
dfs_destroy(const char *pool, const char *sys, const char *cont, int force, daos_event_t *ev);

/**
 * Create a container with an empty file system in it.
 *
 * @param uuid  set to its UUID; EINVAL if NULL.
 * @param attr  or NULL for defaults. Without a label in the properties, it has none.
 * @param coh   if not NULL, set to the open container.
 * @param dfs   if not NULL, set to the mount.
 */
int
dfs_cont_create(daos_handle_t poh, uuid_t *uuid, dfs_attr_t *attr, daos_handle_t *coh,
		dfs_t **dfs);

/** Like dfs_cont_create, with a label. @return EEXIST if the label is taken. */
int
dfs_cont_create_with_label(daos_handle_t poh, const char *label, dfs_attr_t *attr, uuid_t *uuid,
			   daos_handle_t *coh, dfs_t **dfs);

/**
 * Mount the file system of an open container. Keep both handles open until dfs_umount.
 *
 * @param flags  O_RDONLY or O_RDWR.
 * @return EINVAL if the container holds no file system, EPERM if it is open for reading
 *         only and flags are not.
 */
int
dfs_mount(daos_handle_t poh, daos_handle_t coh, int flags, dfs_t **dfs);

/** Mount a snapshot, read-only. @param name must be NULL. */
int
dfs_mount_snap(daos_handle_t poh, daos_handle_t coh, int flags, daos_epoch_t epoch,
	       const char *name, dfs_t **dfs);

/** Unmount. Objects that are still open keep their resources until dfs_release. */
int
dfs_umount(dfs_t *dfs);

/** The handle of the pool; return it with dfs_pool_put. */
int
dfs_pool_get(dfs_t *dfs, daos_handle_t *poh);

int
dfs_pool_put(dfs_t *dfs, daos_handle_t poh);

/** The handle of the container; return it with dfs_cont_put. */
int
dfs_cont_get(dfs_t *dfs, daos_handle_t *coh);

int
dfs_cont_put(dfs_t *dfs, daos_handle_t coh);

/** The attributes the file system was created with. */
int
dfs_query(dfs_t *dfs, dfs_attr_t *attr);

/** Serialize a mount for other processes, like daos_cont_local2global. */
int
dfs_local2global(dfs_t *dfs, d_iov_t *glob);

/** Open a mount that another process serialized. @param flags 0 for the mode it used. */
int
dfs_global2local(daos_handle_t poh, daos_handle_t coh, int flags, d_iov_t glob, dfs_t **dfs);

/** Serialize a mount with its pool and container. */
int
dfs_local2global_all(dfs_t *dfs, d_iov_t *glob);

/** Open what dfs_local2global_all serialized; undo it with dfs_disconnect. */
int
dfs_global2local_all(int flags, d_iov_t glob, dfs_t **dfs);

/**
 * Make dfs_lookup strip this prefix from its paths.
 * @param prefix  an absolute path, or NULL for none.
 */
int
dfs_set_prefix(dfs_t *dfs, const char *prefix);

/** Store delayed changes: the times of files and directories, and nothing else. */
int
dfs_sync(dfs_t *dfs);

/**
 * Look for objects that no directory entry refers to. Nobody else may have the container open.
 *
 * @param cont   label or UUID.
 * @param flags  DFS_CHECK_*.
 * @param name   new directory below /lost+found for DFS_CHECK_RELINK; NULL for one named after the local time.
 * @return EBUSY if the container is open elsewhere, EINVAL for unknown flags or to both remove and relink, ENOENT without a
 *         superblock or a root, EIO if data or entries are damaged.
 */
int
dfs_cont_check(daos_handle_t poh, const char *cont, uint64_t flags, const char *name);

/** Print the number of files, directories and bytes. @param name where to begin, or NULL. */
int
dfs_cont_scan(daos_handle_t poh, const char *cont, uint64_t flags, const char *name);

/**
 * Like daos_cont_set_owner, and also for the root directory.
 *
 * @param user   or NULL to keep it.
 * @param uid    for the root directory; (uid_t)-1 for that of the user's name.
 * @param group  or NULL to keep it.
 * @param gid    for the root directory; (gid_t)-1 for that of the group's name.
 */
int
dfs_cont_set_owner(daos_handle_t coh, d_string_t user, uid_t uid, d_string_t group, gid_t gid);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_FS_MOUNT_H */
