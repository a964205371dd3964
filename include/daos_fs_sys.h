/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_FS_SYS_H
#define ESKER_DAOS_FS_SYS_H

/**
 * @file
 * Path-based access to the file system of daos_fs.h, similar to the C library.
 *
 * All functions return 0 or a positive errno. Paths are absolute. If a function takes flags
 * without further comment, it follows a final symlink unless O_NOFOLLOW is set.
 */

#include <dirent.h>

#include <daos.h>
#include <daos_fs.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Do not cache the directories on a path. */
#define DFS_SYS_NO_CACHE 1
/** The caller ensures that only one thread at a time uses the mount. */
#define DFS_SYS_NO_LOCK  2

/** A mounted file system. */
typedef struct dfs_sys dfs_sys_t;

/** dfs_connect. @param mflags its flags; sflags: DFS_SYS_*. */
int
dfs_sys_connect(const char *pool, const char *sys, const char *cont, int mflags, int sflags,
		dfs_attr_t *attr, dfs_sys_t **dfs_sys);

/** Close a mount of dfs_sys_connect or dfs_sys_global2local_all. */
int
dfs_sys_disconnect(dfs_sys_t *dfs_sys);

int
dfs_sys_local2global_all(dfs_sys_t *dfs_sys, d_iov_t *glob);

int
dfs_sys_global2local_all(int mflags, int sflags, d_iov_t glob, dfs_sys_t **dfs_sys);

/** dfs_mount. */
int
dfs_sys_mount(daos_handle_t poh, daos_handle_t coh, int mflags, int sflags, dfs_sys_t **dfs_sys);

/** Close a mount of dfs_sys_mount or dfs_sys_global2local. */
int
dfs_sys_umount(dfs_sys_t *dfs_sys);

/** dfs_set_prefix. */
int
dfs_sys_set_prefix(dfs_sys_t *dfs_sys, const char *prefix);

int
dfs_sys_local2global(dfs_sys_t *dfs_sys, d_iov_t *glob);

int
dfs_sys_global2local(daos_handle_t poh, daos_handle_t coh, int mflags, int sflags, d_iov_t glob,
		     dfs_sys_t **dfs_sys);

/** The mount for the functions of daos_fs.h; it is closed with this one. */
int
dfs_sys2base(dfs_sys_t *dfs_sys, dfs_t **dfs);

/** Like access(2). */
int
dfs_sys_access(dfs_sys_t *dfs_sys, const char *path, int mask, int flags);

/** Like chmod(2). */
int
dfs_sys_chmod(dfs_sys_t *dfs_sys, const char *path, mode_t mode);

/** Like chown(2). */
int
dfs_sys_chown(dfs_sys_t *dfs_sys, const char *path, uid_t uid, gid_t gid, int flags);

/** dfs_osetattr. @param flags DFS_SET_ATTR_*; sflags: 0 or O_NOFOLLOW. */
int
dfs_sys_setattr(dfs_sys_t *dfs_sys, const char *path, struct stat *stbuf, int flags, int sflags);

/** Set the modification time. times[0], the access time, is ignored. */
int
dfs_sys_utimens(dfs_sys_t *dfs_sys, const char *path, const struct timespec times[2], int flags);

/** Like stat(2). */
int
dfs_sys_stat(dfs_sys_t *dfs_sys, const char *path, int flags, struct stat *stbuf);

/** Create an empty file or a directory, according to the type in mode. */
int
dfs_sys_mknod(dfs_sys_t *dfs_sys, const char *path, mode_t mode, daos_oclass_id_t cid,
	      daos_size_t chunk_size);

/** Like dfs_listxattr, but returns ERANGE if the buffer is too small. */
int
dfs_sys_listxattr(dfs_sys_t *dfs_sys, const char *path, char *list, daos_size_t *size, int flags);

/** Like dfs_getxattr, but returns ERANGE if the buffer is too small. */
int
dfs_sys_getxattr(dfs_sys_t *dfs_sys, const char *path, const char *name, void *value,
		 daos_size_t *size, int flags);

/** dfs_setxattr. @param flags 0, XATTR_CREATE or XATTR_REPLACE; sflags: 0 or O_NOFOLLOW. */
int
dfs_sys_setxattr(dfs_sys_t *dfs_sys, const char *path, const char *name, const void *value,
		 daos_size_t size, int flags, int sflags);

/** dfs_removexattr. */
int
dfs_sys_removexattr(dfs_sys_t *dfs_sys, const char *path, const char *name, int flags);

/** dfs_get_symlink_value. @return EINVAL for anything but a symlink. */
int
dfs_sys_readlink(dfs_sys_t *dfs_sys, const char *path, char *buf, daos_size_t *size);

/** Like symlink(2). */
int
dfs_sys_symlink(dfs_sys_t *dfs_sys, const char *target, const char *path);

/** dfs_open by a path; O_NOFOLLOW opens a symlink itself. */
int
dfs_sys_open(dfs_sys_t *dfs_sys, const char *path, mode_t mode, int flags, daos_oclass_id_t cid,
	     daos_size_t chunk_size, const char *value, dfs_obj_t **obj);

/** dfs_release. */
int
dfs_sys_close(dfs_obj_t *obj);

/** Read at an offset. @param size in: bytes requested; out: bytes read. */
int
dfs_sys_read(dfs_sys_t *dfs_sys, dfs_obj_t *obj, void *buf, daos_off_t off, daos_size_t *size,
	     daos_event_t *ev);

/** Write at an offset. @param size in: bytes in buf; out: bytes written, all or none. */
int
dfs_sys_write(dfs_sys_t *dfs_sys, dfs_obj_t *obj, const void *buf, daos_off_t off,
	      daos_size_t *size, daos_event_t *ev);

/** dfs_punch. */
int
dfs_sys_punch(dfs_sys_t *dfs_sys, const char *path, daos_off_t offset, daos_off_t len);

/** dfs_remove. */
int
dfs_sys_remove(dfs_sys_t *dfs_sys, const char *path, bool force, daos_obj_id_t *oid);

/**
 * Like dfs_remove, but only for entries of this type.
 * @param mode  S_IFREG, S_IFDIR, S_IFLNK, or 0 for any. Another type returns ENOTDIR if
 *              S_IFDIR was requested, EISDIR if it is a directory, else EINVAL.
 */
int
dfs_sys_remove_type(dfs_sys_t *dfs_sys, const char *path, bool force, mode_t mode,
		    daos_obj_id_t *oid);

/** Create a directory. */
int
dfs_sys_mkdir(dfs_sys_t *dfs_sys, const char *dir, mode_t mode, daos_oclass_id_t cid);

/** Create a directory and its parents; existing ones are not an error. */
int
dfs_sys_mkdir_p(dfs_sys_t *dfs_sys, const char *dir_path, mode_t mode, daos_oclass_id_t cid);

/** Open a directory for dfs_sys_readdir. *dirp is not valid for readdir(3). */
int
dfs_sys_opendir(dfs_sys_t *dfs_sys, const char *dir, int flags, DIR **dirp);

int
dfs_sys_closedir(DIR *dirp);

/** The next entry, or NULL at the end. It stays valid until the next call on this directory. */
int
dfs_sys_readdir(dfs_sys_t *dfs_sys, DIR *dirp, struct dirent **dirent);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_FS_SYS_H */
