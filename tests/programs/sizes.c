/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes: holes and their positions, truncation, allocation, high offsets, and the resulting times.
 * */
#include "check.h"

#include <sys/vfs.h>
#include <time.h>

static void
holes_read_as_zeros(void)
{
	static unsigned char back[200000];
	int                  fd = new_file("file", 10, 1);
	struct stat          info;

	GIVES(10, pwrite(fd, "0123456789", 10, 150000));
	OK(fstat(fd, &info));
	GIVES(150010, info.st_size);
	GIVES(150010, pread(fd, back, sizeof(back), 0));
	CHECK(is_pattern(back, 10, 0, 1) && is_zero(back + 10, 149990));
	CHECK(memcmp(back + 150000, "0123456789", 10) == 0);
	GIVES(300000, lseek(fd, 300000, SEEK_SET));
	GIVES(0, read(fd, back, 10));
	GIVES(1, write(fd, "x", 1));
	GIVES(149991, pread(fd, back, sizeof(back), 150010));
	CHECK(is_zero(back, 149990) && back[149990] == 'x');
	GIVES(0, write(fd, "x", 0));
	GIVES(0, pwrite(fd, "x", 0, 1000000));
	OK(fstat(fd, &info));
	GIVES(300001, info.st_size);
}

/* Reported holes may be coarse, but they contain no data, and a copy of the reported data is a copy
 * of the file. */
static void
holes_are_found(void)
{
	static unsigned char back[1 << 20], copy[1 << 20];
	int                  fd = open("file", O_RDWR | O_CREAT, 0644);
	off_t                data = 0, hole, places[] = {65536, 300000, 1000000};

	for (int i = 0; i < 3; i++)
		GIVES(5000, pwrite(fd, (fill(back, 5000, 0, 3), back), 5000, places[i]));
	OK(ftruncate(fd, sizeof(back)));
	GIVES(sizeof(back), pread(fd, back, sizeof(back), 0));
	while ((data = lseek(fd, data, SEEK_DATA)) >= 0) {
		hole = lseek(fd, data, SEEK_HOLE);
		CHECK(hole > data && hole <= (off_t)sizeof(back));
		memcpy(copy + data, back + data, (size_t)(hole - data));
		data = hole;
	}
	GIVES(ENXIO, errno);
	CHECK(memcmp(back, copy, sizeof(back)) == 0);
	FAILS(ENXIO, lseek(fd, sizeof(back), SEEK_DATA));
	FAILS(ENXIO, lseek(fd, sizeof(back) + 10, SEEK_HOLE));
	CHECK(lseek(fd, places[0] + 10, SEEK_DATA) == places[0] + 10);
	CHECK(lseek(fd, places[2], SEEK_HOLE) >= places[2] + 5000);
}

static void
truncated(void)
{
	static unsigned char back[100000];
	int                  fd = new_file("file", 50000, 4);
	struct stat          info;

	OK(ftruncate(fd, 20000));
	OK(ftruncate(fd, 60000));
	GIVES(60000, pread(fd, back, sizeof(back), 0));
	CHECK(is_pattern(back, 20000, 0, 4) && is_zero(back + 20000, 40000));
	OK(truncate("file", 7));
	OK(stat("file", &info));
	GIVES(7, info.st_size);
	OK(truncate64("file", 0));
	GIVES(0, pread(fd, back, 10, 0));
	GIVES(3, pwrite(fd, "abc", 3, 5));
	GIVES(8, pread(fd, back, 10, 0));
	CHECK(is_zero(back, 5) && memcmp(back + 5, "abc", 3) == 0);
	OK(close(open("file", O_WRONLY | O_TRUNC)));
	OK(fstat(fd, &info));
	GIVES(0, info.st_size);
}

static void
allocated(void)
{
	int                  fd = new_file("file", 10000, 5);
	struct stat          info;
	static unsigned char back[40000];

	OK(posix_fallocate(fd, 5000, 15000));
	OK(fstat(fd, &info));
	GIVES(20000, info.st_size);
	GIVES(20000, pread(fd, back, sizeof(back), 0));
	CHECK(is_pattern(back, 10000, 0, 5) && is_zero(back + 10000, 10000));
	OK(posix_fallocate(fd, 0, 100));
	OK(fstat(fd, &info));
	GIVES(20000, info.st_size);
	if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 40000) == 0) {
		OK(fstat(fd, &info));
		GIVES(20000, info.st_size);
	} else {
		GIVES(ENOTSUP, errno);
	}
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1000, 3000) == 0) {
		GIVES(20000, pread(fd, back, sizeof(back), 0));
		CHECK(is_pattern(back, 1000, 0, 5) && is_zero(back + 1000, 3000));
		CHECK(is_pattern(back + 4000, 6000, 4000, 5));
	} else {
		GIVES(ENOTSUP, errno);
	}
	GIVES(EINVAL, posix_fallocate(fd, 0, 0));
	OK(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
	OK(posix_fadvise(fd, 0, 20000, POSIX_FADV_DONTNEED));
}

static void
far_positions(void)
{
	int         fd = open("file", O_RDWR | O_CREAT, 0644);
	off_t       far = (off_t)5 << 32;
	char        back[8];
	struct stat info;

	GIVES(4, pwrite(fd, "far!", 4, far));
	OK(fstat(fd, &info));
	GIVES(far + 4, info.st_size);
	GIVES(far, lseek(fd, -4, SEEK_END));
	GIVES(4, read(fd, back, 8));
	CHECK(memcmp(back, "far!", 4) == 0);
	GIVES(8, pread(fd, back, 8, far / 2));
	CHECK(is_zero(back, 8));
	OK(ftruncate(fd, far * 2));
	OK(fstat(fd, &info));
	GIVES(far * 2, info.st_size);
	OK(unlink("file"));
}

static void
holes_take_no_blocks(void)
{
	int         fd = open("file", O_RDWR | O_CREAT, 0644);
	struct stat info;

	GIVES(4, pwrite(fd, "far!", 4, (off_t)1 << 32));
	OK(fstat(fd, &info));
	CHECK(info.st_blocks * 512 < info.st_size);
	OK(close(fd));
}

static void
times_follow(void)
{
	struct timespec past[2] = {{1000000, 0}, {1000000, 0}};
	struct stat     info;
	int             fd = new_file("file", 100, 6);
	time_t          now = time(NULL) - 2;

	OK(futimens(fd, past));
	GIVES(1, write(fd, "x", 1));
	OK(fstat(fd, &info));
	CHECK(info.st_mtime >= now && info.st_ctime >= now);
	OK(futimens(fd, past));
	OK(ftruncate(fd, 5));
	OK(stat("file", &info));
	CHECK(info.st_mtime >= now);
	OK(mkdir("dir", 0755));
	OK(utimensat(AT_FDCWD, "dir", past, 0));
	put("dir/file", "");
	OK(stat("dir", &info));
	CHECK(info.st_mtime >= now);
	OK(utimensat(AT_FDCWD, "dir", past, 0));
	OK(unlink("dir/file"));
	OK(stat("dir", &info));
	CHECK(info.st_mtime >= now);
	OK(futimens(fd, past));
	OK(close(fd));
	OK(stat("file", &info));
	GIVES(1000000, info.st_mtime);
	put("file", "again");
	OK(stat("file", &info));
	CHECK(info.st_mtime >= now);
}

static void
space(void)
{
	struct statfs one;
	int           fd = open(".", O_RDONLY);

	OK(statfs(".", &one));
	CHECK(one.f_bsize > 0 && one.f_blocks > 0 && one.f_bfree <= one.f_blocks);
	OK(fstatfs(fd, &one));
	GIVES(255, one.f_namelen);
	CHECK(pathconf(".", _PC_NAME_MAX) == 255 && fpathconf(fd, _PC_PATH_MAX) >= 1024);
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(holes_read_as_zeros), TEST(holes_are_found), TEST(truncated), TEST(allocated),
		TEST(far_positions), TEST(holes_take_no_blocks), TEST(times_follow), TEST(space),
	};

	return RUN(argc, argv, tests);
}
