/* SPDX-License-Identifier: Apache-2.0 */

/* Calls with paths, and paths in another file system that refer to containers. */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "mounted.h"

static void
by_paths(struct mounted *m)
{
	struct dirent *entry;
	struct stat    st;
	dfs_sys_t     *sys;
	dfs_obj_t     *file;
	daos_size_t    size = 5;
	char           place[8];
	int            count = 0;
	DIR           *dir;

	OK(dfs_sys_mount(m->poh, m->coh, O_RDWR, DFS_SYS_NO_LOCK, &sys));
	OK(dfs_sys_mkdir_p(sys, "/a/b/c", 0755, 0));
	OK(dfs_sys_open(sys, "/a/b/f", S_IFREG | 0600, O_RDWR | O_CREAT, 0, 0, NULL, &file));
	OK(dfs_sys_write(sys, file, "hello", 0, &size, NULL));
	size = sizeof(place);
	OK(dfs_sys_read(sys, file, place, 1, &size, NULL));
	CHECK(size == 4 && memcmp(place, "ello", 4) == 0);
	OK(dfs_sys_close(file));
	OK(dfs_sys_symlink(sys, "b/f", "/a/l"));
	OK(dfs_sys_stat(sys, "/a/l", 0, &st));
	CHECK(S_ISREG(st.st_mode) && st.st_size == 5);
	OK(dfs_sys_stat(sys, "/a/l", O_NOFOLLOW, &st));
	CHECK(S_ISLNK(st.st_mode));
	OK(dfs_sys_opendir(sys, "/a", 0, &dir));
	do {
		OK(dfs_sys_readdir(sys, dir, &entry));
		count += entry != NULL;
	} while (entry != NULL);
	CHECK(count == 2);
	OK(dfs_sys_closedir(dir));
	GIVES(ENOTEMPTY, dfs_sys_remove(sys, "/a", false, NULL));
	OK(dfs_sys_remove_type(sys, "/a/l", false, S_IFLNK, NULL));
	OK(dfs_sys_umount(sys));
}

/** Connects by the path daos://POOL/CONTAINER, like programs that only know paths. */
static void
by_names(const char *pool, struct mounted *m)
{
	struct duns_attr_t attr = {0};
	dfs_t             *dfs;
	dfs_obj_t         *file;
	char               path[256];

	snprintf(path, sizeof(path), "daos://test/%s/a/b/f", m->label);
	OK(duns_resolve_path(path, &attr));
	CHECK(strcmp(attr.da_cont, m->label) == 0 && strcmp(attr.da_rel_path, "/a/b/f") == 0);
	OK(dfs_init());
	OK(dfs_connect(pool, NULL, attr.da_cont, O_RDONLY, NULL, &dfs));
	OK(dfs_lookup(dfs, attr.da_rel_path, O_RDONLY, &file, NULL, NULL));
	OK(dfs_release(file));
	OK(dfs_disconnect(dfs));
	OK(dfs_fini());
	duns_destroy_attr(&attr);
}

static void
stands_for(struct mounted *m, const char *folder)
{
	struct duns_attr_t attr = {0}, found = {0};
	char               path[512];
	int                rc;

	snprintf(path, sizeof(path), "%s/home", folder);
	attr.da_type = DAOS_PROP_CO_LAYOUT_POSIX;
	rc = duns_create_path(m->poh, path, &attr);
	if (rc == ENOTSUP) {
		printf("skipped: %s does not support extended attributes\n", folder);
		return;
	}
	OK(rc);
	OK(duns_resolve_path(path, &found));
	CHECK(found.da_type == DAOS_PROP_CO_LAYOUT_POSIX);
	CHECK(strcmp(found.da_cont, attr.da_cont) == 0);
	duns_destroy_attr(&found);
	OK(duns_destroy_path(m->poh, path));
	GIVES(ENOENT, duns_resolve_path(path, &found));
}

struct replacing {
	dfs_t      *dfs;
	atomic_bool done;
};

static void *
replace_often(void *argument)
{
	struct replacing *it = argument;
	dfs_obj_t        *file;

	for (int i = 0; i < 300; i++) {
		file = open_file(it->dfs, NULL, "fresh", O_RDWR | O_CREAT);
		write_at(it->dfs, file, "whole", 5, 0);
		OK(dfs_release(file));
		OK(dfs_move(it->dfs, NULL, "fresh", NULL, "settings", NULL));
	}
	atomic_store(&it->done, true);
	return NULL;
}

static void
expect_whole(dfs_t *dfs, dfs_obj_t *file)
{
	char place[8];

	CHECK(read_at(dfs, file, place, sizeof(place), 0) == 5 && memcmp(place, "whole", 5) == 0);
	OK(dfs_release(file));
}

/** A name that is replaced by renames can always be opened, by each call. */
static void
renamed_over(struct mounted *m)
{
	struct replacing it = {m->dfs, false};
	dfs_sys_t       *sys;
	dfs_obj_t       *file;
	pthread_t        thread;

	OK(dfs_sys_mount(m->poh, m->coh, O_RDWR, DFS_SYS_NO_LOCK, &sys));
	file = open_file(m->dfs, NULL, "settings", O_RDWR | O_CREAT);
	write_at(m->dfs, file, "whole", 5, 0);
	OK(dfs_release(file));
	CHECK(pthread_create(&thread, NULL, replace_often, &it) == 0);
	while (!atomic_load(&it.done)) {
		expect_whole(m->dfs, open_file(m->dfs, NULL, "settings", O_RDONLY));
		OK(dfs_lookup(m->dfs, "/settings", O_RDONLY, &file, NULL, NULL));
		expect_whole(m->dfs, file);
		OK(dfs_sys_open(sys, "/settings", S_IFREG | 0600, O_RDONLY, 0, 0, NULL, &file));
		expect_whole(m->dfs, file);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	OK(dfs_sys_umount(sys));
}

int
main(int argc, char **argv)
{
	struct mounted m = mount_new(argv[1], "paths");

	CHECK(argc == 3);
	by_paths(&m);
	by_names(argv[1], &m);
	stands_for(&m, argv[2]);
	renamed_over(&m);
	mount_end(&m);
	return 0;
}
