/* SPDX-License-Identifier: Apache-2.0 */

/* Processes of one job share a mount and an open file as serialized handles, and write to the file
 * concurrently. */

#include <errno.h>
#include <sys/wait.h>

#include "mounted.h"

enum { RANKS = 4, BLOCKS = 64, BLOCK = 5000 };

/** A serialized handle. */
struct blob {
	size_t size;
	char   bytes[512];
};

#define PACK(blob, call, handle)                                                                   \
	do {                                                                                       \
		d_iov_t glob_ = {NULL, 0, 0};                                                      \
		OK(call(handle, &glob_));                                                          \
		CHECK(glob_.iov_buf_len <= sizeof((blob).bytes));                                  \
		glob_.iov_buf = (blob).bytes;                                                      \
		OK(call(handle, &glob_));                                                          \
		(blob).size = glob_.iov_len;                                                       \
	} while (0)

static int
file_to_blob(dfs_obj_t *file, d_iov_t *glob)
{
	extern dfs_t *shared;

	return dfs_obj_local2global(shared, file, glob);
}

dfs_t *shared;

static d_iov_t
unpack(struct blob *blob)
{
	d_iov_t glob = {blob->bytes, blob->size, blob->size};

	return glob;
}

static unsigned char
content(int block)
{
	return (unsigned char)(block * 37 + 11);
}

static void
work(dfs_t *dfs, dfs_obj_t *file, int rank)
{
	char       *block = malloc(BLOCK), name[32];
	dfs_obj_t  *own;
	int         i;

	for (i = rank; i < BLOCKS; i += RANKS) {
		memset(block, content(i), BLOCK);
		write_at(dfs, file, block, BLOCK, (daos_off_t)i * BLOCK);
	}
	snprintf(name, sizeof(name), "rank.%d", rank);
	own = open_file(dfs, NULL, name, O_RDWR | O_CREAT | O_EXCL);
	write_at(dfs, own, name, sizeof(name), 0);
	OK(dfs_release(own));
	free(block);
}

/** The task of another process of the job, with the bytes it is sent. */
static int
child(struct blob blobs[4], int rank)
{
	daos_handle_t poh, coh;
	dfs_obj_t    *file;
	dfs_t        *dfs;

	OK(daos_reinit());
	OK(daos_pool_global2local(unpack(&blobs[0]), &poh));
	OK(daos_cont_global2local(poh, unpack(&blobs[1]), &coh));
	OK(dfs_global2local(poh, coh, 0, unpack(&blobs[2]), &dfs));
	OK(dfs_obj_global2local(dfs, 0, unpack(&blobs[3]), &file));
	work(dfs, file, rank);
	OK(dfs_release(file));
	OK(dfs_umount(dfs));
	OK(daos_cont_close(coh, NULL));
	OK(daos_pool_disconnect(poh, NULL));
	OK(daos_fini());
	return 0;
}

static void
verify(dfs_t *dfs, dfs_obj_t *file)
{
	char        *block = malloc(BLOCK), name[32];
	struct stat  st;
	int          i, at;

	for (i = 0; i < BLOCKS; i++) {
		CHECK(read_at(dfs, file, block, BLOCK, (daos_off_t)i * BLOCK) == BLOCK);
		for (at = 0; at < BLOCK; at++)
			CHECK((unsigned char)block[at] == content(i));
	}
	for (i = 0; i < RANKS; i++) {
		snprintf(name, sizeof(name), "rank.%d", i);
		OK(dfs_stat(dfs, NULL, name, &st));
		CHECK(st.st_size == sizeof(name));
	}
	free(block);
}

int
main(int argc, char **argv)
{
	struct mounted m = mount_new(argv[1], "ranks");
	struct blob    blobs[4];
	dfs_obj_t     *file;
	pid_t          children[RANKS];
	int            rank, status;

	CHECK(argc == 3);
	shared = m.dfs;
	file   = open_file(m.dfs, NULL, "shared", O_RDWR | O_CREAT);
	PACK(blobs[0], daos_pool_local2global, m.poh);
	PACK(blobs[1], daos_cont_local2global, m.coh);
	PACK(blobs[2], dfs_local2global, m.dfs);
	PACK(blobs[3], file_to_blob, file);
	for (rank = 1; rank < RANKS; rank++) {
		children[rank] = fork();
		if (children[rank] == 0)
			_exit(child(blobs, rank));
	}
	work(m.dfs, file, 0);
	for (rank = 1; rank < RANKS; rank++)
		CHECK(waitpid(children[rank], &status, 0) == children[rank] && status == 0);
	verify(m.dfs, file);
	OK(dfs_release(file));
	mount_end(&m);
	return 0;
}
