/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ESKER_TESTS_MOUNTED_H
#define ESKER_TESTS_MOUNTED_H

/*
 * Shared code of the programs in this directory: a container with a file system. Each program takes
 * a pool and a directory for files.
 */

#include <fcntl.h>
#include <sys/stat.h>

#include <daos_fs.h>
#include <daos_fs_sys.h>
#include <daos_uns.h>

#include "check.h"

struct mounted {
	daos_handle_t poh;
	daos_handle_t coh;
	dfs_t        *dfs;
	char          label[64];
};

static inline struct mounted
mount_new(const char *pool, const char *name)
{
	struct mounted m;

	snprintf(m.label, sizeof(m.label), "%s-%d", name, (int)getpid());
	OK(daos_init());
	OK(daos_pool_connect(pool, NULL, DAOS_PC_RW, &m.poh, NULL, NULL));
	OK(dfs_cont_create_with_label(m.poh, m.label, NULL, NULL, &m.coh, &m.dfs));
	return m;
}

static inline void
mount_end(struct mounted *m)
{
	OK(dfs_umount(m->dfs));
	OK(daos_cont_close(m->coh, NULL));
	OK(daos_cont_destroy(m->poh, m->label, 0, NULL));
	OK(daos_pool_disconnect(m->poh, NULL));
	OK(daos_fini());
}

static inline dfs_obj_t *
open_file(dfs_t *dfs, dfs_obj_t *parent, const char *name, int flags)
{
	dfs_obj_t *obj;

	OK(dfs_open(dfs, parent, name, S_IFREG | 0644, flags, 0, 0, NULL, &obj));
	return obj;
}

static inline void
write_at(dfs_t *dfs, dfs_obj_t *obj, const void *data, size_t size, daos_off_t offset)
{
	d_iov_t     iov;
	d_sg_list_t sgl = {1, 0, &iov};

	d_iov_set(&iov, (void *)data, size);
	OK(dfs_write(dfs, obj, &sgl, offset, NULL));
}

static inline daos_size_t
read_at(dfs_t *dfs, dfs_obj_t *obj, void *place, size_t size, daos_off_t offset)
{
	daos_size_t got = 0;
	d_iov_t     iov;
	d_sg_list_t sgl = {1, 0, &iov};

	d_iov_set(&iov, place, size);
	OK(dfs_read(dfs, obj, &sgl, offset, &got, NULL));
	return got;
}

#endif /* ESKER_TESTS_MOUNTED_H */
