/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_FS_H
#define ESKER_DAOS_FS_H

/**
 * @file
 * DFS: a POSIX file system in a container.
 *
 * All functions return 0 or a positive errno; with an event, ev_error holds it on
 * completion. A NULL or unknown mount or object returns EINVAL. As a parent directory,
 * NULL means the root. A name is one component: at most DFS_MAX_NAME bytes and no slash, else
 * EINVAL. Changes through a read-only mount return EPERM.
 */

#include <daos/fs_mount.h>
#include <daos/fs_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Open the object at a path.
 *
 * @param path   absolute; see dfs_set_prefix.
 * @param flags  O_RDONLY, O_WRONLY or O_RDWR; O_NOFOLLOW opens a final symlink itself.
 * @param mode   its mode with its type, or NULL.
 * @param stbuf  its attributes, or NULL.
 * @return ENOENT, ENOTDIR, ELOOP.
 */
int
dfs_lookup(dfs_t *dfs, const char *path, int flags, dfs_obj_t **obj, mode_t *mode,
	   struct stat *stbuf);

/** Open an entry of a directory. Parameters as for dfs_lookup. */
int
dfs_lookup_rel(dfs_t *dfs, dfs_obj_t *parent, const char *name, int flags, dfs_obj_t **obj,
	       mode_t *mode, struct stat *stbuf);

/**
 * Open or create a file, directory or symlink.
 *
 * @param mode        its type, and permissions for a new one.
 * @param flags       O_RDONLY, O_WRONLY, O_RDWR, with O_CREAT, O_EXCL, O_TRUNC.
 * @param cid         class of a new object, or 0 for the directory's default.
 * @param chunk_size  bytes of a new file's chunks, or 0 for the directory's default.
 * @param value       target of a new symlink, else NULL.
 * @return ENOENT, EEXIST, ENOTDIR; EINVAL if the type differs; ENOTSUP for O_APPEND and
 *         for the name ".".
 */
int
dfs_open(dfs_t *dfs, dfs_obj_t *parent, const char *name, mode_t mode, int flags,
	 daos_oclass_id_t cid, daos_size_t chunk_size, const char *value, dfs_obj_t **obj);

/** Open the same object again. @param flags as for dfs_open, without O_CREAT. */
int
dfs_dup(dfs_t *dfs, dfs_obj_t *obj, int flags, dfs_obj_t **new_obj);

/**
 * Close an object.
 *
 * @return 0, or an error of storing its modification time or of freeing the content of a removed
 *         file: the object is closed nevertheless.
 */
int
dfs_release(dfs_obj_t *obj);

/** Serialize an open object for other processes, like daos_cont_local2global. */
int
dfs_obj_local2global(dfs_t *dfs, dfs_obj_t *obj, d_iov_t *glob);

/** Open an object that another process serialized. @param flags 0 for the mode it used. */
int
dfs_obj_global2local(dfs_t *dfs, int flags, d_iov_t glob, dfs_obj_t **obj);

/** The identifier of an object. */
int
dfs_obj2id(dfs_obj_t *obj, daos_obj_id_t *oid);

/** A class for a hint such as "max", "single" or "file:max"; 0 is the default. */
int
dfs_suggest_oclass(dfs_t *dfs, const char *hint, daos_oclass_id_t *cid);

/**
 * Read a file from an offset into buffers, as many bytes as their iov_len add up to.
 *
 * @param read_size  bytes read: fewer at the end of the file, 0 past it.
 * @return EPERM for a file open write-only, EINVAL for anything but a file.
 */
int
dfs_read(dfs_t *dfs, dfs_obj_t *obj, d_sg_list_t *sgl, daos_off_t off, daos_size_t *read_size,
	 daos_event_t *ev);

/** Read several ranges of a file consecutively into buffers; their total sizes must be equal. */
int
dfs_readx(dfs_t *dfs, dfs_obj_t *obj, dfs_iod_t *iod, d_sg_list_t *sgl, daos_size_t *read_size,
	  daos_event_t *ev);

/**
 * Write buffers to a file, all of them or nothing.
 * @return EPERM for a file open read-only, EINVAL for anything but a file, ENOSPC.
 */
int
dfs_write(dfs_t *dfs, dfs_obj_t *obj, d_sg_list_t *sgl, daos_off_t off, daos_event_t *ev);

/** Write buffers to several ranges of a file; their total sizes must be equal. */
int
dfs_writex(dfs_t *dfs, dfs_obj_t *obj, dfs_iod_t *iod, d_sg_list_t *sgl, daos_event_t *ev);

/** The size of a file in bytes. */
int
dfs_get_size(dfs_t *dfs, dfs_obj_t *obj, daos_size_t *size);

/** Like dfs_get_size, for a file given by its object id. @param chunk_size 0 for the default. */
int
dfs_get_size_by_oid(dfs_t *dfs, daos_obj_id_t oid, daos_size_t chunk_size, daos_size_t *size);

/** Make len bytes a hole. With DFS_MAX_FSIZE, truncate or extend the file to offset bytes. */
int
dfs_punch(dfs_t *dfs, dfs_obj_t *obj, daos_off_t offset, daos_size_t len);

/**
 * List a directory.
 *
 * @param anchor  zeroed before the first call; daos_anchor_is_eof after the last. An entry that
 *                exists throughout is listed once.
 * @param nr      in: entries in dirs; out: entries listed. 0 does not mean the end.
 * @param dirs    the names, in d_name.
 */
int
dfs_readdir(dfs_t *dfs, dfs_obj_t *obj, daos_anchor_t *anchor, uint32_t *nr,
	    struct dirent *dirs);

/** Like dfs_readdir, with the attributes of each entry. */
int
dfs_readdirplus(dfs_t *dfs, dfs_obj_t *obj, daos_anchor_t *anchor, uint32_t *nr,
		struct dirent *dirs, struct stat *stbufs);

/**
 * Call a function for the entries of a directory.
 *
 * @param nr    in: maximum number of entries; out: entries passed.
 * @param size  maximum bytes of names, each with its NUL.
 * @param op    or NULL to count only; a non-zero return value is returned here.
 * @return E2BIG if the next name alone is larger than size.
 */
int
dfs_iterate(dfs_t *dfs, dfs_obj_t *obj, daos_anchor_t *anchor, uint32_t *nr, size_t size,
	    dfs_filler_cb_t op, void *arg);

/** An anchor from which a listing continues at an entry. @return ENOENT. */
int
dfs_dir_anchor_set(dfs_obj_t *obj, const char name[], daos_anchor_t *anchor);

/** The number of parts in which a directory can be listed: always one. @param anchors or NULL. */
int
dfs_obj_anchor_split(dfs_obj_t *obj, uint32_t *nr, daos_anchor_t *anchors);

/** Set an anchor to the beginning of a part. @return EINVAL for any index but 0. */
int
dfs_obj_anchor_set(dfs_obj_t *obj, uint32_t index, daos_anchor_t *anchor);

/** Create a directory. @return EEXIST. */
int
dfs_mkdir(dfs_t *dfs, dfs_obj_t *parent, const char *name, mode_t mode, daos_oclass_id_t cid);

/**
 * Remove an entry of any type.
 *
 * @param force  also remove the contents of a directory; otherwise ENOTEMPTY.
 * @param oid    set to the id of the removed object; may be NULL.
 */
int
dfs_remove(dfs_t *dfs, dfs_obj_t *parent, const char *name, bool force, daos_obj_id_t *oid);

/** Move an entry, replacing an existing one. @param oid of the replaced object, or NULL. */
int
dfs_move(dfs_t *dfs, dfs_obj_t *parent, const char *name, dfs_obj_t *new_parent,
	 const char *new_name, daos_obj_id_t *oid);

/** Swap two entries. */
int
dfs_exchange(dfs_t *dfs, dfs_obj_t *parent1, const char *name1, dfs_obj_t *parent2,
	     const char *name2);

/** Mode of an object, with its type, as of when it was opened. */
int
dfs_get_mode(dfs_obj_t *obj, mode_t *mode);

/** Class, chunk size and identifier of an object, and defaults of a directory. */
int
dfs_obj_get_info(dfs_t *dfs, dfs_obj_t *obj, dfs_obj_info_t *info);

/** Set the default class of new entries of a directory. @param flags unused. @return ENOTDIR. */
int
dfs_obj_set_oclass(dfs_t *dfs, dfs_obj_t *obj, int flags, daos_oclass_id_t cid);

/** Set the default chunk size of new files of a directory. @param flags unused. @return ENOTDIR. */
int
dfs_obj_set_chunk_size(dfs_t *dfs, dfs_obj_t *obj, int flags, daos_size_t csize);

/** The array that stores a file. It is closed with the object, not by the caller. */
int
dfs_get_file_oh(dfs_obj_t *obj, daos_handle_t *oh);

/** The chunk size of a file in bytes. */
int
dfs_get_chunk_size(dfs_obj_t *obj, daos_size_t *chunk_size);

/** The target of a symlink. @param size in: bytes of buf; out: bytes of the target with its NUL. */
int
dfs_get_symlink_value(dfs_obj_t *obj, char *buf, daos_size_t *size);

/**
 * Record in an open object that it was moved to another's directory. Nothing is stored.
 * @param name  its new name, or NULL if unchanged.
 */
int
dfs_update_parent(dfs_obj_t *obj, dfs_obj_t *src_obj, const char *name);

/** Attributes of an entry; for a symlink, its own. @param name NULL for the root itself. */
int
dfs_stat(dfs_t *dfs, dfs_obj_t *parent, const char *name, struct stat *stbuf);

/** Attributes of an open object. */
int
dfs_ostat(dfs_t *dfs, dfs_obj_t *obj, struct stat *stbuf);

/** Set attributes of an object. @param stbuf in: the new values; out: all of them. */
int
dfs_osetattr(dfs_t *dfs, dfs_obj_t *obj, struct stat *stbuf, int flags);

/** Like access(2) for the calling user; follows symlinks. @return EACCES. */
int
dfs_access(dfs_t *dfs, dfs_obj_t *parent, const char *name, int mask);

/** Change permissions; follows symlinks. */
int
dfs_chmod(dfs_t *dfs, dfs_obj_t *parent, const char *name, mode_t mode);

/** Change owners; (uid_t)-1 and (gid_t)-1 keep them. Follows symlinks unless O_NOFOLLOW. */
int
dfs_chown(dfs_t *dfs, dfs_obj_t *parent, const char *name, uid_t uid, gid_t gid, int flags);

/** Set an extended attribute. @param flags 0, XATTR_CREATE or XATTR_REPLACE. */
int
dfs_setxattr(dfs_t *dfs, dfs_obj_t *obj, const char *name, const void *value, daos_size_t size,
	     int flags);

/**
 * Read an extended attribute.
 *
 * @param size  in: bytes of value; out: bytes of the attribute. 0 queries only the size.
 * @return ENODATA if there is none, E2BIG if the buffer is too small.
 */
int
dfs_getxattr(dfs_t *dfs, dfs_obj_t *obj, const char *name, void *value, daos_size_t *size);

/** Remove an extended attribute. @return ENODATA. */
int
dfs_removexattr(dfs_t *dfs, dfs_obj_t *obj, const char *name);

/**
 * List the names of extended attributes, each with its NUL, as far as they fit.
 * @param size  in: bytes of list; out: bytes of all names.
 */
int
dfs_listxattr(dfs_t *dfs, dfs_obj_t *obj, char *list, daos_size_t *size);

/**
 * Create a filter of directory entries, of a pattern of names (% for any bytes, _ for one), a time in seconds that they must
 * have changed after, or both. Directories are always listed, unless flags has DFS_FILTER_INCLUDE_DIRS.
 * @param flags  DFS_FILTER_NAME, DFS_FILTER_NEWER or both, else EINVAL.
 */
int
dfs_pipeline_create(dfs_t *dfs, dfs_predicate_t pred, uint64_t flags, dfs_pipeline_t **dpipe);

/** Destroy a filter; NULL is none. */
int
dfs_pipeline_destroy(dfs_pipeline_t *dpipe);

/**
 * Like dfs_readdir, of the entries that a filter selects, with their d_type.
 * @param oids        receives object ids, or NULL.
 * @param csizes      receives chunk sizes, or NULL.
 * @param nr_scanned  receives the number of entries that were read.
 */
int
dfs_readdir_with_filter(dfs_t *dfs, dfs_obj_t *obj, dfs_pipeline_t *dpipe, daos_anchor_t *anchor,
			uint32_t *nr, struct dirent *dirs, daos_obj_id_t *oids,
			daos_size_t *csizes, uint64_t *nr_scanned);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_FS_H */
