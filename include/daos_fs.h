/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_FS_H
#define ESKER_DAOS_FS_H

/**
 * @file
 * DFS: a POSIX file system in a container.
 *
 * All functions return 0 or a positive errno; with an event that is what ev_error holds in the
 * end. A NULL or unknown mount or object gives EINVAL. Where a parent directory is asked for,
 * NULL is the root. A name is one component: at most DFS_MAX_NAME bytes and no slash, else
 * EINVAL. Changes through a mount for reading only give EPERM.
 */

#include <daos/fs_mount.h>
#include <daos/fs_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Open what a path leads to.
 *
 * @param path   absolute; see dfs_set_prefix.
 * @param flags  O_RDONLY, O_WRONLY or O_RDWR; O_NOFOLLOW opens a symlink at the end itself.
 * @param mode   its mode with its type, or NULL.
 * @param stbuf  its attributes, or NULL.
 * @return ENOENT, ENOTDIR, ELOOP.
 */
int
dfs_lookup(dfs_t *dfs, const char *path, int flags, dfs_obj_t **obj, mode_t *mode,
	   struct stat *stbuf);

/** Open an entry of a directory. Parameters as of dfs_lookup. */
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
 * @return ENOENT, EEXIST, ENOTDIR; EINVAL where the type is another; ENOTSUP for O_APPEND and
 *         for the name ".".
 */
int
dfs_open(dfs_t *dfs, dfs_obj_t *parent, const char *name, mode_t mode, int flags,
	 daos_oclass_id_t cid, daos_size_t chunk_size, const char *value, dfs_obj_t **obj);

/** Open the same object once more. @param flags as of dfs_open, without O_CREAT. */
int
dfs_dup(dfs_t *dfs, dfs_obj_t *obj, int flags, dfs_obj_t **new_obj);

/** Close an object. */
int
dfs_release(dfs_obj_t *obj);

/** Make an open object known to other processes, in the way of daos_cont_local2global. */
int
dfs_obj_local2global(dfs_t *dfs, dfs_obj_t *obj, d_iov_t *glob);

/** Open an object as another process did. @param flags 0 for the mode it used. */
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
 * @param read_size  bytes read: fewer at the end of the file, 0 behind it.
 * @return EPERM for a file open for writing only, EINVAL for what is no file.
 */
int
dfs_read(dfs_t *dfs, dfs_obj_t *obj, d_sg_list_t *sgl, daos_off_t off, daos_size_t *read_size,
	 daos_event_t *ev);

/** Read several ranges of a file, one after the other, into buffers of the same bytes in all. */
int
dfs_readx(dfs_t *dfs, dfs_obj_t *obj, dfs_iod_t *iod, d_sg_list_t *sgl, daos_size_t *read_size,
	  daos_event_t *ev);

/**
 * Write buffers to a file, all of them or nothing.
 * @return EPERM for a file open for reading only, EINVAL for what is no file, ENOSPC.
 */
int
dfs_write(dfs_t *dfs, dfs_obj_t *obj, d_sg_list_t *sgl, daos_off_t off, daos_event_t *ev);

/** Write buffers to several ranges of a file of the same bytes in all. */
int
dfs_writex(dfs_t *dfs, dfs_obj_t *obj, dfs_iod_t *iod, d_sg_list_t *sgl, daos_event_t *ev);

/** Bytes of a file. */
int
dfs_get_size(dfs_t *dfs, dfs_obj_t *obj, daos_size_t *size);

/** As dfs_get_size, of a file known by its identifier. @param chunk_size 0 for the default. */
int
dfs_get_size_by_oid(dfs_t *dfs, daos_obj_id_t oid, daos_size_t chunk_size, daos_size_t *size);

/** Make len bytes a hole. With DFS_MAX_FSIZE the file is cut or grown to offset bytes. */
int
dfs_punch(dfs_t *dfs, dfs_obj_t *obj, daos_off_t offset, daos_size_t len);

/**
 * List a directory.
 *
 * @param anchor  zeroed before the first call; daos_anchor_is_eof after the last. An entry that
 *                is there all the while is listed once.
 * @param nr      in: room in dirs; out: entries listed. 0 is not the end.
 * @param dirs    the names, in d_name.
 */
int
dfs_readdir(dfs_t *dfs, dfs_obj_t *obj, daos_anchor_t *anchor, uint32_t *nr,
	    struct dirent *dirs);

/** dfs_readdir, with the attributes of each entry. */
int
dfs_readdirplus(dfs_t *dfs, dfs_obj_t *obj, daos_anchor_t *anchor, uint32_t *nr,
		struct dirent *dirs, struct stat *stbufs);

/**
 * Call a function for the entries of a directory.
 *
 * @param nr    in: most entries; out: entries passed.
 * @param size  most bytes of names, with a NUL each.
 * @param op    or NULL to count only; what it returns but 0 is returned here.
 * @return E2BIG where the next name alone is larger than size.
 */
int
dfs_iterate(dfs_t *dfs, dfs_obj_t *obj, daos_anchor_t *anchor, uint32_t *nr, size_t size,
	    dfs_filler_cb_t op, void *arg);

/** An anchor from which a listing goes on at an entry. @return ENOENT. */
int
dfs_dir_anchor_set(dfs_obj_t *obj, const char name[], daos_anchor_t *anchor);

/** In how many parts a directory can be listed: always one. @param anchors or NULL. */
int
dfs_obj_anchor_split(dfs_obj_t *obj, uint32_t *nr, daos_anchor_t *anchors);

/** The beginning of a part. @return EINVAL for any index but 0. */
int
dfs_obj_anchor_set(dfs_obj_t *obj, uint32_t index, daos_anchor_t *anchor);

/** Make a directory. @return EEXIST. */
int
dfs_mkdir(dfs_t *dfs, dfs_obj_t *parent, const char *name, mode_t mode, daos_oclass_id_t cid);

/**
 * Remove an entry of any type.
 *
 * @param force  remove what is in a directory too; without it that is ENOTEMPTY.
 * @param oid    identifier of what was removed, or NULL.
 */
int
dfs_remove(dfs_t *dfs, dfs_obj_t *parent, const char *name, bool force, daos_obj_id_t *oid);

/** Move an entry, replacing what has the new name. @param oid of what was replaced, or NULL. */
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

/** Default class of what is made in a directory. @param flags not used. @return ENOTDIR. */
int
dfs_obj_set_oclass(dfs_t *dfs, dfs_obj_t *obj, int flags, daos_oclass_id_t cid);

/** Default chunk size of files made in a directory. @param flags not used. @return ENOTDIR. */
int
dfs_obj_set_chunk_size(dfs_t *dfs, dfs_obj_t *obj, int flags, daos_size_t csize);

/** The array a file is. It is closed with the object, not by the caller. */
int
dfs_get_file_oh(dfs_obj_t *obj, daos_handle_t *oh);

/** Bytes of a file's chunks. */
int
dfs_get_chunk_size(dfs_obj_t *obj, daos_size_t *chunk_size);

/** Where a symlink leads. @param size in: room in buf; out: bytes of the target with its NUL. */
int
dfs_get_symlink_value(dfs_obj_t *obj, char *buf, daos_size_t *size);

/**
 * Tell an open object that it was moved to the directory of another. Nothing is stored.
 * @param name  its new name, or NULL where that stays.
 */
int
dfs_update_parent(dfs_obj_t *obj, dfs_obj_t *src_obj, const char *name);

/** Attributes of an entry; of a symlink its own. @param name NULL for the root itself. */
int
dfs_stat(dfs_t *dfs, dfs_obj_t *parent, const char *name, struct stat *stbuf);

/** Attributes of an open object. */
int
dfs_ostat(dfs_t *dfs, dfs_obj_t *obj, struct stat *stbuf);

/** Set attributes of an object. @param stbuf in: the new values; out: all of them. */
int
dfs_osetattr(dfs_t *dfs, dfs_obj_t *obj, struct stat *stbuf, int flags);

/** As access(2) by the calling user; follows symlinks. @return EACCES. */
int
dfs_access(dfs_t *dfs, dfs_obj_t *parent, const char *name, int mask);

/** Change permissions; follows symlinks. */
int
dfs_chmod(dfs_t *dfs, dfs_obj_t *parent, const char *name, mode_t mode);

/** Change owners; (uid_t)-1 and (gid_t)-1 stay. Follows symlinks unless flags is O_NOFOLLOW. */
int
dfs_chown(dfs_t *dfs, dfs_obj_t *parent, const char *name, uid_t uid, gid_t gid, int flags);

/** Set an extended attribute. @param flags 0, XATTR_CREATE or XATTR_REPLACE. */
int
dfs_setxattr(dfs_t *dfs, dfs_obj_t *obj, const char *name, const void *value, daos_size_t size,
	     int flags);

/**
 * Read an extended attribute.
 *
 * @param size  in: room in value; out: bytes of the value. Room of 0 only asks for the bytes.
 * @return ENODATA where there is none, E2BIG where the room is too small.
 */
int
dfs_getxattr(dfs_t *dfs, dfs_obj_t *obj, const char *name, void *value, daos_size_t *size);

/** Remove an extended attribute. @return ENODATA. */
int
dfs_removexattr(dfs_t *dfs, dfs_obj_t *obj, const char *name);

/**
 * The names of extended attributes, each with its NUL: those that fit.
 * @param size  in: room in list; out: bytes of all names.
 */
int
dfs_listxattr(dfs_t *dfs, dfs_obj_t *obj, char *list, daos_size_t *size);

/** Not offered: ENOTSUP. */
int
dfs_pipeline_create(dfs_t *dfs, dfs_predicate_t pred, uint64_t flags, dfs_pipeline_t **dpipe);

/** Not offered: ENOTSUP. */
int
dfs_pipeline_destroy(dfs_pipeline_t *dpipe);

/** Not offered: ENOTSUP. */
int
dfs_readdir_with_filter(dfs_t *dfs, dfs_obj_t *obj, dfs_pipeline_t *dpipe, daos_anchor_t *anchor,
			uint32_t *nr, struct dirent *dirs, daos_obj_id_t *oids,
			daos_size_t *csizes, uint64_t *nr_scanned);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_FS_H */
