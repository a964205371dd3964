/* SPDX-License-Identifier: Apache-2.0 */

/* A tree of files in one process: data, listings, moves, attributes, events. */

#include <errno.h>
#include <sys/xattr.h>

#include "mounted.h"

enum { FILES = 100, BYTES = 3 << 20 };

static void
data(dfs_t *dfs)
{
	uint32_t    *out = malloc(BYTES), *in = calloc(1, BYTES);
	dfs_obj_t   *file = open_file(dfs, NULL, "data", O_RDWR | O_CREAT | O_EXCL);
	dfs_obj_t   *again;
	daos_size_t  size;
	uint32_t     i;

	for (i = 0; i < BYTES / 4; i++)
		out[i] = i * 2654435761U;
	write_at(dfs, file, out, BYTES, 12345);
	CHECK(read_at(dfs, file, in, BYTES, 12345) == BYTES);
	CHECK(memcmp(in, out, BYTES) == 0);
	CHECK(read_at(dfs, file, in, BYTES, 0) == BYTES && in[0] == 0);
	OK(dfs_get_size(dfs, file, &size));
	CHECK(size == 12345 + BYTES);
	OK(dfs_punch(dfs, file, 10, DFS_MAX_FSIZE));
	OK(dfs_get_size(dfs, file, &size));
	CHECK(size == 10);
	GIVES(EEXIST, dfs_open(dfs, NULL, "data", S_IFREG, O_RDWR | O_CREAT | O_EXCL, 0, 0, NULL,
			       &again));
	OK(dfs_release(file));
	free(out);
	free(in);
}

static void
listing(dfs_t *dfs)
{
	struct dirent *entries = calloc(30, sizeof(*entries));
	struct stat   *stats   = calloc(30, sizeof(*stats));
	daos_anchor_t  anchor  = {0};
	dfs_obj_t     *dir;
	uint32_t       nr, total = 0;
	char           name[32];
	int            i;

	OK(dfs_mkdir(dfs, NULL, "dir", 0755, 0));
	OK(dfs_lookup(dfs, "/dir", O_RDWR, &dir, NULL, NULL));
	for (i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "file.%d", i);
		OK(dfs_release(open_file(dfs, dir, name, O_RDWR | O_CREAT)));
	}
	while (!daos_anchor_is_eof(&anchor)) {
		nr = 30;
		OK(dfs_readdirplus(dfs, dir, &anchor, &nr, entries, stats));
		for (i = 0; i < (int)nr; i++)
			CHECK(strncmp(entries[i].d_name, "file.", 5) == 0 && S_ISREG(stats[i].st_mode));
		total += nr;
	}
	CHECK(total == FILES);
	GIVES(ENOTEMPTY, dfs_remove(dfs, NULL, "dir", false, NULL));
	OK(dfs_remove(dfs, NULL, "dir", true, NULL));
	OK(dfs_release(dir));
	free(entries);
	free(stats);
}

static void
names(dfs_t *dfs)
{
	dfs_obj_t  *file = open_file(dfs, NULL, "old", O_RDWR | O_CREAT), *link;
	struct stat st;
	daos_size_t size = 64;
	char        target[64];

	OK(dfs_move(dfs, NULL, "old", NULL, "new", NULL));
	GIVES(ENOENT, dfs_stat(dfs, NULL, "old", &st));
	OK(dfs_stat(dfs, NULL, "new", &st));
	OK(dfs_open(dfs, NULL, "link", S_IFLNK, O_RDWR | O_CREAT, 0, 0, "new", &link));
	OK(dfs_get_symlink_value(link, target, &size));
	CHECK(size == 4 && strcmp(target, "new") == 0);
	OK(dfs_chmod(dfs, NULL, "link", 0600));
	OK(dfs_stat(dfs, NULL, "new", &st));
	CHECK(st.st_mode == (S_IFREG | 0600));
	OK(dfs_release(link));
	OK(dfs_release(file));
	OK(dfs_lookup(dfs, "/new", O_RDWR, &file, NULL, NULL));
	OK(dfs_setxattr(dfs, file, "user.a", "value", 5, XATTR_CREATE));
	size = sizeof(target);
	OK(dfs_getxattr(dfs, file, "user.a", target, &size));
	CHECK(size == 5 && memcmp(target, "value", 5) == 0);
	GIVES(ENODATA, dfs_getxattr(dfs, file, "user.b", target, &size));
	OK(dfs_release(file));
}

static void
events(dfs_t *dfs)
{
	dfs_obj_t    *file = open_file(dfs, NULL, "events", O_RDWR | O_CREAT);
	daos_event_t  ev[8], *done[8];
	d_iov_t       iov[8];
	d_sg_list_t   sgl[8];
	daos_handle_t eq;
	int           i, left = 8;

	OK(daos_eq_create(&eq));
	for (i = 0; i < 8; i++) {
		OK(daos_event_init(&ev[i], eq, NULL));
		d_iov_set(&iov[i], "data", 4);
		sgl[i] = (d_sg_list_t){1, 0, &iov[i]};
		OK(dfs_write(dfs, file, &sgl[i], 4 * i, &ev[i]));
	}
	while (left > 0) {
		int count = daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 8, done);

		CHECK(count > 0);
		for (i = 0; i < count; i++)
			CHECK(done[i]->ev_error == 0);
		left -= count;
	}
	OK(daos_eq_destroy(eq, 0));
	OK(dfs_release(file));
	file = open_file(dfs, NULL, "events", O_RDONLY);
	OK(daos_eq_create(&eq));
	OK(daos_event_init(&ev[0], eq, NULL));
	OK(dfs_write(dfs, file, &sgl[0], 0, &ev[0]));
	CHECK(daos_eq_poll(eq, 1, DAOS_EQ_WAIT, 1, done) == 1 && done[0]->ev_error == EPERM);
	OK(daos_eq_destroy(eq, 0));
	OK(dfs_release(file));
}

int
main(int argc, char **argv)
{
	struct mounted m = mount_new(argv[1], "files");

	CHECK(argc == 3);
	data(m.dfs);
	listing(m.dfs);
	names(m.dfs);
	events(m.dfs);
	mount_end(&m);
	return 0;
}
