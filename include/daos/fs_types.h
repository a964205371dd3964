/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_FS_TYPES_H
#define ESKER_DAOS_FS_TYPES_H

/**
 * @file
 * Types, limits and flags of the file system of daos_fs.h.
 */

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <daos_array.h>
#include <daos_cont.h>
#include <daos_obj.h>
#include <daos_obj_class.h>
#include <daos_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Maximum bytes of a name, without its NUL. */
#define DFS_MAX_NAME           255
/** Maximum bytes of a path, with its NUL. */
#define DFS_MAX_PATH           4096
/** Largest size of a file, and the length that means "to the end" to dfs_punch. */
#define DFS_MAX_FSIZE          (~0ULL)
/** Default chunk size of a file in bytes. */
#define DFS_DEFAULT_CHUNK_SIZE 1048576
/** Maximum bytes of the name of an extended attribute, without its NUL. */
#define DFS_MAX_XATTR_NAME     255
/** Maximum bytes of the value of an extended attribute. */
#define DFS_MAX_XATTR_LEN      65536
/** The type that statfs reports for this file system. */
#define DAOS_SUPER_MAGIC       0xDA05AD10

/** Changes to several entries at once are transactions. */
#define DFS_BALANCED           4
/** The default. In Esker it equals DFS_BALANCED: changes are atomic. */
#define DFS_RELAXED            0

/** Mount read-only. */
#define DFS_RDONLY             O_RDONLY
/** Mount read-write. */
#define DFS_RDWR               O_RDWR

/** Fields of the struct stat that dfs_osetattr is to set. */
#define DFS_SET_ATTR_MODE      (1 << 0)
#define DFS_SET_ATTR_ATIME     (1 << 1)
#define DFS_SET_ATTR_MTIME     (1 << 2)
#define DFS_SET_ATTR_SIZE      (1 << 3)
#define DFS_SET_ATTR_UID       (1 << 4)
#define DFS_SET_ATTR_GID       (1 << 5)

/** A mounted file system. */
typedef struct dfs          dfs_t;
/** An open file, directory or symlink. */
typedef struct dfs_obj      dfs_obj_t;
/** A filter of dfs_readdir_with_filter. */
typedef struct dfs_pipeline dfs_pipeline_t;

/** Attributes of a new container for a file system; 0 selects a default. */
typedef struct {
	/** A user-defined number. */
	uint64_t         da_id;
	/** Bytes of a file's chunk. */
	daos_size_t      da_chunk_size;
	/** Class of all objects for which none is given below. */
	daos_oclass_id_t da_oclass_id;
	/** More properties of the container, or NULL. */
	daos_prop_t     *da_props;
	/** DFS_RELAXED or DFS_BALANCED. */
	uint32_t         da_mode;
	/** Class of directories. */
	daos_oclass_id_t da_dir_oclass_id;
	/** Class of files. */
	daos_oclass_id_t da_file_oclass_id;
	/** Hints for choosing classes, such as "file:max,dir:single". */
	char             da_hints[DAOS_CONT_HINT_MAX_LEN];
} dfs_attr_t;

/** Several ranges of a file, in bytes. */
typedef struct {
	/** Entries in iod_rgs. */
	daos_size_t   iod_nr;
	daos_range_t *iod_rgs;
} dfs_iod_t;

/** Information that dfs_obj_get_info returns. */
typedef struct {
	/** Class of the object. */
	daos_oclass_id_t doi_oclass_id;
	/** Bytes of the chunks of a file, or of new files in a directory. */
	daos_size_t      doi_chunk_size;
	/** Class of new directories in a directory. */
	daos_oclass_id_t doi_dir_oclass_id;
	/** Class of new files in a directory. */
	daos_oclass_id_t doi_file_oclass_id;
	/** The object's identifier. */
	daos_obj_id_t    doi_oid;
} dfs_obj_info_t;

/** Called by dfs_iterate for an entry; a non-zero return value ends the iteration. */
typedef int (*dfs_filler_cb_t)(dfs_t *dfs, dfs_obj_t *obj, const char name[], void *arg);

/** Actions of dfs_cont_check on objects that no directory entry refers to. */
enum {
	/** Print their identifiers. */
	DFS_CHECK_PRINT     = 1 << 0,
	/** Remove them. */
	DFS_CHECK_REMOVE    = 1 << 1,
	/** Link them below /lost+found. */
	DFS_CHECK_RELINK    = 1 << 2,
	/** Read and compare all data as well. */
	DFS_CHECK_VERIFY    = 1 << 3,
	/** Evict those who have the container open. */
	DFS_CHECK_EVICT_ALL = 1 << 4
};

/** Conditions of a filter. */
enum {
	DFS_FILTER_NAME         = 1 << 1,
	DFS_FILTER_NEWER        = 1 << 2,
	DFS_FILTER_INCLUDE_DIRS = 1 << 3
};

/** Values of the conditions of a filter. */
typedef struct {
	/** A pattern of names. */
	char   dp_name[DFS_MAX_NAME];
	/** Modified later than this. */
	time_t dp_newer;
	/** Not used. */
	size_t dp_size;
} dfs_predicate_t;

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_FS_TYPES_H */
