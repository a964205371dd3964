/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_DAOS_UNS_H
#define ESKER_DAOS_UNS_H

/**
 * @file
 * Paths in other file systems that refer to containers.
 *
 * A directory (for a file system) or a file (for HDF5) refers to a container if it has the
 * extended attribute DUNS_XATTR_NAME. The path daos://POOL/CONTAINER/REST needs no attribute.
 * All functions return 0 or a positive errno.
 */

#include <daos_cont.h>
#include <daos_obj_class.h>
#include <daos_prop.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of da_flags. */
enum {
	/** The path is /POOL/CONTAINER/REST, without daos:// before it. */
	DUNS_NO_PREFIX         = 1 << 0,
	/** Examine only the path itself, not the directories above it. */
	DUNS_NO_REVERSE_LOOKUP = 1 << 1,
	/** Do not read extended attributes: the path is daos://POOL/CONTAINER/REST. */
	DUNS_NO_CHECK_PATH     = 1 << 2
};

/** Attributes of a path that refers to a container. */
struct duns_attr_t {
	/** DAOS_PROP_CO_LAYOUT_*; input for duns_create_path. */
	daos_cont_layout_t da_type;
	/** In: class of all objects of a file system, or 0. */
	daos_oclass_id_t   da_oclass_id;
	/** In: bytes of the chunks of its files, or 0. */
	daos_size_t        da_chunk_size;
	/** In: more properties of the container, or NULL. */
	daos_prop_t       *da_props;
	/** In: DUNS_*. */
	uint32_t           da_flags;
	/** Out: label or UUID of the pool. */
	char               da_pool[DAOS_PROP_LABEL_MAX_LEN + 1];
	/** Out: label or UUID of the container. */
	char               da_cont[DAOS_PROP_LABEL_MAX_LEN + 1];
	/** Out: name of the system, or NULL. Freed by duns_destroy_attr. */
	char              *da_sys;
	/** Out: the rest of the path, from its slash on, or NULL. Freed by duns_destroy_attr. */
	char              *da_rel_path;
	/** Out: the path is on Lustre. Always false here. */
	bool               da_on_lustre;
	/** In: older equivalent of DUNS_NO_PREFIX. */
	bool               da_no_prefix;
	/** Out: UUID of the pool, if known. */
	uuid_t             da_puuid;
	/** Out: UUID of the container, if known. */
	uuid_t             da_cuuid;
	/** In: class of directories, or 0. */
	daos_oclass_id_t   da_dir_oclass_id;
	/** In: class of files, or 0. */
	daos_oclass_id_t   da_file_oclass_id;
	/** In: hints for choosing classes, see dfs_attr_t. */
	char               da_hints[DAOS_CONT_HINT_MAX_LEN];
};

/** Name of the extended attribute that makes a path refer to a container. */
#define DUNS_XATTR_NAME       "user.daos"
/** Maximum bytes of its value. */
#define DUNS_MAX_XATTR_LEN    170
/** Its value: the layout, the pool's UUID, the container's UUID. */
#define DUNS_XATTR_FMT        "DAOS.%s://%36s/%36s"
/** The name used on Lustre. */
#define DUNS_LUSTRE_XATTR_FMT "%36s/%36s"

/**
 * Create a container, and a directory or file that refers to it.
 *
 * @param poh    open for writing.
 * @param path   must not exist; its parent directory must.
 * @param attrp  in: what to create, da_type POSIX or HDF5; out: da_pool and da_cont.
 * @return EEXIST; EINVAL; ENOTSUP if the file system has no extended attributes.
 */
int
duns_create_path(daos_handle_t poh, const char *path, struct duns_attr_t *attrp);

/**
 * Resolve a path. Free the contents of attr with duns_destroy_attr afterwards.
 * @return ENODATA if neither the path nor a directory above it refers to a container.
 */
int
duns_resolve_path(const char *path, struct duns_attr_t *attr);

/** Remove a path and destroy the container it refers to. */
int
duns_destroy_path(daos_handle_t poh, const char *path);

/** Parse the value of the extended attribute. @return EINVAL if it is invalid. */
int
duns_parse_attr(char *str, daos_size_t len, struct duns_attr_t *attr);

/** Set da_sys to a copy of sys. */
int
duns_set_sys_name(struct duns_attr_t *attrp, const char *sys);

/** Free what the library allocated in attrp. */
void
duns_destroy_attr(struct duns_attr_t *attrp);

/** Create a directory or file that refers to an existing container. */
int
duns_link_cont(daos_handle_t poh, const char *cont, const char *path);

#ifdef __cplusplus
}
#endif

#endif /* ESKER_DAOS_UNS_H */
