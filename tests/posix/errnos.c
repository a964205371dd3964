/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The errors of calls that must fail, and other guarantees of POSIX and Linux for single calls. All
 * checks are made before the program ends; failed ones are printed.
 *
 * usage: errnos DIR     works in a new directory in DIR, and removes it
 * environment: WITHOUT=set_ids if writes do not clear set-id bits
 */

#define _GNU_SOURCE
#include "posix.h"

#include <dirent.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>

static int checked, wrong;

/** A user who is not root. */
#define NOBODY 65534

/** One check: the call fails with this errno. */
#define FAILS(expected, call)                                                                      \
	do {                                                                                       \
		errno = 0;                                                                         \
		long result_ = (long)(call);                                                       \
		checked++;                                                                         \
		if (result_ != -1 || errno != (expected)) {                                        \
			printf("line %d: %s gives %ld, %s; not %s\n", __LINE__, #call, result_,    \
			       strerror(errno), strerror(expected));                               \
			wrong++;                                                                   \
		}                                                                                  \
	} while (0)

/** One check: the call does not fail. */
#define WORKS(call)                                                                                \
	do {                                                                                       \
		errno = 0;                                                                         \
		long result_ = (long)(call);                                                       \
		checked++;                                                                         \
		if (result_ < 0) {                                                                 \
			printf("line %d: %s fails: %s\n", __LINE__, #call, strerror(errno));       \
			wrong++;                                                                   \
		}                                                                                  \
	} while (0)

#define HOLDS(condition)                                                                           \
	do {                                                                                       \
		checked++;                                                                         \
		if (!(condition)) {                                                                \
			printf("line %d: failed: %s\n", __LINE__, #condition);                     \
			wrong++;                                                                   \
		}                                                                                  \
	} while (0)

static char name255[256], name256[257], path4096[4097], path4095[4096];

static struct stat
stat_of(const char *path)
{
	struct stat st = {0};

	WORKS(lstat(path, &st));
	return st;
}

static int
make(const char *path, int flags, mode_t mode)
{
	int fd = open(path, O_RDWR | O_CREAT | flags, mode);

	if (fd < 0)
		FAIL("making %s", path);
	return fd;
}

static void
touch(const char *path)
{
	close(make(path, 0, 0644));
}

/** A tree for the checks: a file, a directory, one with an entry, links. */
static void
set_up(void)
{
	memset(name256, 'n', 256);
	memset(name255, 'n', 255);
	memset(path4096, '/', 4096);
	for (int at = 0; at < 4095; at += 2)
		path4095[at] = '.', path4095[at + 1] = '/';
	path4095[4095] = 0;
	touch("file");
	WORKS(mkdir("empty", 0755));
	WORKS(mkdir("full", 0755));
	WORKS(mkdir("full/sub", 0755));
	touch("full/file");
	WORKS(symlink("file", "link"));
	WORKS(symlink("full", "dirlink"));
	WORKS(symlink("nowhere", "dangling"));
	WORKS(symlink("loop", "loop"));
}

static void
names_too_long(void)
{
	struct stat st;

	WORKS(close(open(name255, O_CREAT | O_WRONLY, 0644)));
	WORKS(stat(name255, &st));
	WORKS(unlink(name255));
	WORKS(mkdir(name255, 0755));
	WORKS(rename(name255, "short"));
	WORKS(rename("short", name255));
	WORKS(rmdir(name255));
	FAILS(ENAMETOOLONG, open(name256, O_CREAT | O_WRONLY, 0644));
	FAILS(ENAMETOOLONG, open(name256, O_RDONLY));
	FAILS(ENAMETOOLONG, mkdir(name256, 0755));
	FAILS(ENAMETOOLONG, rmdir(name256));
	FAILS(ENAMETOOLONG, unlink(name256));
	FAILS(ENAMETOOLONG, rename("file", name256));
	FAILS(ENAMETOOLONG, rename(name256, "file"));
	FAILS(ENAMETOOLONG, symlink("file", name256));
	FAILS(ENAMETOOLONG, stat(name256, &st));
	FAILS(ENAMETOOLONG, truncate(name256, 0));
	FAILS(ENAMETOOLONG, stat(path4096, &st));
	FAILS(ENAMETOOLONG, open(path4096, O_RDONLY));
	FAILS(ENAMETOOLONG, mkdir(path4096, 0755));
	FAILS(ENAMETOOLONG, symlink(path4096, "too-long"));
	WORKS(stat(path4095, &st));
}

static void
paths_that_lead_nowhere(void)
{
	struct timespec nothing[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
	struct timespec no_change[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
	struct stat     st;
	char            target[16];

	FAILS(ENOENT, open("", O_RDONLY));
	FAILS(ENOENT, stat("", &st));
	FAILS(ENOENT, mkdir("", 0755));
	FAILS(ENOENT, unlink(""));
	FAILS(ENOENT, rmdir(""));
	FAILS(ENOENT, rename("", "x"));
	FAILS(ENOENT, rename("file", ""));
	FAILS(ENOENT, symlink("", "x"));
	FAILS(ENOENT, symlink("", "file/.."));
	FAILS(ENOENT, symlink("x", ""));
	FAILS(ENOENT, open("missing", O_RDWR));
	FAILS(ENOENT, open("missing/x", O_RDWR | O_CREAT, 0644));
	FAILS(ENOENT, mkdir("missing/x", 0755));
	FAILS(ENOENT, symlink("x", "missing/x"));
	FAILS(ENOENT, rename("missing", "x"));
	FAILS(ENOENT, rename("file", "missing/x"));
	FAILS(ENOENT, unlink("missing"));
	FAILS(ENOENT, rmdir("missing"));
	FAILS(ENOENT, readlink("missing", target, sizeof(target)));
	FAILS(ENOENT, truncate("missing", 0));
	FAILS(ENOENT, chmod("missing", 0644));
	FAILS(ENOENT, access("missing", F_OK));
	FAILS(ENOENT, stat("dangling", &st));
	FAILS(ENOENT, open("dangling", O_RDONLY));
	FAILS(ENOENT, access("dangling", F_OK));
	FAILS(ENOENT, chmod("dangling", 0644));
	FAILS(ENOENT, open("missing/x/", O_RDWR | O_CREAT, 0644));
	FAILS(ENOENT, symlink("x", "new/"));
	FAILS(ENOENT, rename("missing/", "file/"));
	FAILS(ENOENT, utimensat(AT_FDCWD, "missing", NULL, 0));
	FAILS(ENOENT, utimensat(AT_FDCWD, "missing", no_change, 0));
	WORKS(utimensat(AT_FDCWD, "missing", nothing, 0));
	WORKS(utimensat(AT_FDCWD, "missing/..", nothing, 0));
	FAILS(ENOENT, renameat2(AT_FDCWD, "file", AT_FDCWD, "missing", RENAME_EXCHANGE));
	WORKS(lstat("dangling", &st));
}

static void
not_directories(void)
{
	struct stat st;
	char        target[16];

	FAILS(ENOTDIR, stat("file/x", &st));
	FAILS(ENOTDIR, lstat("file/x", &st));
	FAILS(ENOTDIR, stat("file/", &st));
	FAILS(ENOTDIR, stat("file/.", &st));
	FAILS(ENOTDIR, stat("file/..", &st));
	FAILS(ENOTDIR, stat("link/x", &st));
	FAILS(ENOTDIR, open("file/x", O_RDONLY));
	FAILS(ENOTDIR, open("file/x", O_RDWR | O_CREAT, 0644));
	FAILS(ENOTDIR, open("file", O_RDONLY | O_DIRECTORY));
	FAILS(ENOTDIR, open("file/", O_RDONLY));
	FAILS(ENOTDIR, mkdir("file/x", 0755));
	FAILS(ENOTDIR, rmdir("file"));
	FAILS(ENOTDIR, rmdir("link"));
	FAILS(ENOTDIR, rmdir("dirlink"));
	FAILS(ENOTDIR, unlink("file/x"));
	FAILS(ENOTDIR, unlink("file/"));
	FAILS(ENOTDIR, unlink("dirlink/"));
	FAILS(ENOTDIR, unlink("dangling/"));
	FAILS(ENOTDIR, rmdir("dirlink/"));
	FAILS(ENOTDIR, symlink("x", "file/x"));
	FAILS(ENOTDIR, readlink("file/x", target, sizeof(target)));
	FAILS(ENOTDIR, readlink("file/", target, sizeof(target)));
	FAILS(ENOTDIR, truncate("file/x", 0));
	FAILS(ENOTDIR, chmod("file/x", 0644));
	FAILS(ENOTDIR, rename("file/x", "y"));
	FAILS(ENOTDIR, rename("file/x", ""));
	FAILS(ENOTDIR, rename("file/x", "missing/../x"));
	FAILS(ENOTDIR, rename("empty", "file"));
	FAILS(ENOTDIR, rename("file", "full/file/x"));
	FAILS(ENOTDIR, rename("file/", "y"));
	FAILS(ENOTDIR, rename("file", "y/"));
	FAILS(ENOTDIR, rename("dirlink/", "y"));
	FAILS(ENOTDIR, renameat2(AT_FDCWD, "empty", AT_FDCWD, "file/", RENAME_EXCHANGE));
	FAILS(ENOTDIR, renameat2(AT_FDCWD, "file/", AT_FDCWD, "empty", RENAME_EXCHANGE));
	HOLDS(opendir("file") == NULL && errno == ENOTDIR);
}

static void
directories_where_files_are_wanted(void)
{
	int          fd = open("empty", O_RDONLY);
	char         byte;
	struct iovec nothing = {&byte, 0};

	WORKS(fd);
	FAILS(EISDIR, open("empty", O_WRONLY));
	FAILS(EISDIR, open("empty", O_RDWR));
	FAILS(EISDIR, open("empty", O_RDWR | O_CREAT, 0644));
	FAILS(EISDIR, open("new/", O_RDWR | O_CREAT, 0644));
	FAILS(EISDIR, open(".", O_RDWR));
	FAILS(EISDIR, open(".", O_RDWR | O_CREAT, 0644));
	FAILS(EISDIR, open("full/..", O_RDWR | O_CREAT, 0644));
	FAILS(EISDIR, open("empty/", O_RDWR | O_CREAT | O_EXCL, 0644));
	FAILS(EISDIR, unlink("empty"));
	FAILS(EISDIR, unlink("."));
	FAILS(EISDIR, unlink("empty/"));
	FAILS(EISDIR, unlink("full/.."));
	FAILS(EISDIR, truncate("empty", 0));
	FAILS(EISDIR, rename("file", "empty"));
	FAILS(EISDIR, read(fd, &byte, 1));
	FAILS(EISDIR, pread(fd, &byte, 1, 0));
	FAILS(EBADF, write(fd, &byte, 1));
	FAILS(EBADF, fallocate(fd, 0, 0, 1));
	FAILS(EINVAL, ftruncate(fd, 0));
	HOLDS(readv(fd, &nothing, 1) == 0);
	HOLDS(preadv(fd, &nothing, 1, 0) == 0);
	WORKS(fsync(fd));
	WORKS(close(fd));
	WORKS(fd = open("empty", O_PATH));
	FAILS(EBADF, read(fd, &byte, 1));
	WORKS(close(fd));
}

static void
things_that_exist(void)
{
	FAILS(EEXIST, open("file", O_RDWR | O_CREAT | O_EXCL, 0644));
	FAILS(EEXIST, open("empty", O_RDWR | O_CREAT | O_EXCL, 0644));
	FAILS(EEXIST, open("link", O_RDWR | O_CREAT | O_EXCL, 0644));
	FAILS(EEXIST, open("dangling", O_RDWR | O_CREAT | O_EXCL, 0644));
	FAILS(EEXIST, open(".", O_RDWR | O_CREAT | O_EXCL, 0644));
	FAILS(EEXIST, open("full/../", O_RDWR | O_CREAT | O_EXCL, 0644));
	FAILS(EEXIST, mkdir("file", 0755));
	FAILS(EEXIST, mkdir("empty", 0755));
	FAILS(EEXIST, mkdir("empty/", 0755));
	FAILS(EEXIST, mkdir("dangling", 0755));
	FAILS(EEXIST, mkdir(".", 0755));
	FAILS(EEXIST, mkdir("empty/..", 0755));
	FAILS(EEXIST, symlink("x", "file"));
	FAILS(EEXIST, symlink("x", "dangling"));
	FAILS(EEXIST, symlink("x", "empty/"));
	FAILS(EEXIST, symlink("x", "."));
	FAILS(EEXIST, symlink("x", "full/.."));
	FAILS(EEXIST, renameat2(AT_FDCWD, "file", AT_FDCWD, "link", RENAME_NOREPLACE));
	FAILS(EEXIST, renameat2(AT_FDCWD, "file", AT_FDCWD, "empty", RENAME_NOREPLACE));
	FAILS(EEXIST, renameat2(AT_FDCWD, "file", AT_FDCWD, "file", RENAME_NOREPLACE));
	FAILS(EEXIST, renameat2(AT_FDCWD, "file", AT_FDCWD, "empty/", RENAME_NOREPLACE));
	FAILS(EEXIST, renameat2(AT_FDCWD, "file/", AT_FDCWD, "link/", RENAME_NOREPLACE));
	FAILS(EEXIST, renameat2(AT_FDCWD, "file", AT_FDCWD, ".", RENAME_NOREPLACE));
	FAILS(EEXIST, renameat2(AT_FDCWD, "file", AT_FDCWD, "full/..", RENAME_NOREPLACE));
}

static void
directories_that_may_not_go(void)
{
	FAILS(ENOTEMPTY, rmdir("full"));
	FAILS(ENOTEMPTY, rename("empty", "full"));
	FAILS(ENOTEMPTY, rmdir("full/.."));
	FAILS(ENOTEMPTY, rmdir("dirlink/.."));
	FAILS(ENOTEMPTY, rmdir("full/sub/..//"));
	FAILS(EINVAL, rmdir("empty/."));
	FAILS(EINVAL, rename("full", "full/inside"));
	FAILS(EINVAL, rename("full", "full/sub/inside"));
	FAILS(EINVAL, renameat2(AT_FDCWD, "full", AT_FDCWD, "full/sub", RENAME_EXCHANGE));
	FAILS(EINVAL, renameat2(AT_FDCWD, "full/sub", AT_FDCWD, "full", RENAME_EXCHANGE));
	FAILS(ENOTEMPTY, rename("full/sub", "full"));
	FAILS(EBUSY, rename("full/.", "x"));
	FAILS(EBUSY, rename("full/..", "x"));
	FAILS(EBUSY, rename("file", "full/../"));
	FAILS(EBUSY, rename("full", "empty/.."));
}

static void
arguments_that_make_no_sense(void)
{
	struct timespec times[2] = {{0, 1000000000}, {0, 1000000000}};
	struct iovec    iov = {times, 1};
	/* Prevents the compiler from evaluating the calls. */
	volatile int    negative = -1, many = IOV_MAX + 1;
	int             fd = open("file", O_RDWR);
	char            byte = 0;

	FAILS(EINVAL, readlink("file", &byte, 1));
	FAILS(EINVAL, readlink("empty", &byte, 1));
	FAILS(EINVAL, readlink("link", &byte, 0));
	FAILS(EINVAL, truncate("file", -1));
	FAILS(EINVAL, truncate("missing/..", -1));
	FAILS(EINVAL, ftruncate(fd, -1));
	FAILS(EINVAL, pread(fd, &byte, 1, -1));
	FAILS(EINVAL, pwrite(fd, &byte, 1, -1));
	FAILS(EINVAL, preadv(fd, &iov, 1, -1));
	FAILS(EINVAL, readv(fd, &iov, negative));
	FAILS(EINVAL, writev(fd, &iov, many));
	FAILS(EINVAL, lseek(fd, -1, SEEK_SET));
	FAILS(EINVAL, lseek(fd, -1, SEEK_CUR));
	FAILS(EINVAL, lseek(fd, 0, 99));
	FAILS(EINVAL, fallocate(fd, 0, 0, 0));
	FAILS(EINVAL, fallocate(fd, 0, -1, 1));
	FAILS(EOPNOTSUPP, fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 1));
	FAILS(EINVAL, utimensat(AT_FDCWD, "file", times, 0));
	FAILS(EINVAL, renameat2(AT_FDCWD, "file", AT_FDCWD, "x", RENAME_EXCHANGE | RENAME_NOREPLACE));
	FAILS(EINVAL, renameat2(AT_FDCWD, "file", AT_FDCWD, "x", 1 << 20));
	FAILS(ENXIO, lseek(fd, 0, SEEK_DATA));
	FAILS(ENXIO, lseek(fd, 0, SEEK_HOLE));
	FAILS(ENXIO, lseek(fd, 1 << 20, SEEK_DATA));
	FAILS(ENOTTY, isatty(fd) ? 0 : -1);
	FAILS(EXDEV, rename("file", "/proc/self/esker"));
	WORKS(close(fd));
}

static void
loops(void)
{
	struct stat st;
	char        from[16], to[16];

	FAILS(ELOOP, stat("loop", &st));
	FAILS(ELOOP, open("loop", O_RDONLY));
	FAILS(ELOOP, open("loop", O_RDWR | O_CREAT, 0644));
	FAILS(ELOOP, stat("loop/x", &st));
	FAILS(ELOOP, mkdir("loop/x", 0755));
	FAILS(ELOOP, truncate("loop", 0));
	FAILS(ELOOP, open("link", O_RDONLY | O_NOFOLLOW));
	FAILS(ELOOP, open("dangling", O_RDWR | O_CREAT | O_NOFOLLOW, 0644));
	for (int at = 0; at < 41; at++) {
		snprintf(from, sizeof(from), "chain%d", at);
		snprintf(to, sizeof(to), at ? "chain%d" : "file", at - 1);
		WORKS(symlink(to, from));
	}
	WORKS(stat("chain39", &st));
	FAILS(ELOOP, stat("chain40", &st));
	for (int at = 0; at < 41; at++) {
		snprintf(from, sizeof(from), "chain%d", at);
		WORKS(unlink(from));
	}
}

static void
descriptors(void)
{
	int  closed = open("file", O_RDONLY), reading, writing;
	char byte = 1;

	struct stat st;

	WORKS(close(closed));
	FAILS(EBADF, close(closed));
	FAILS(EBADF, read(closed, &byte, 1));
	FAILS(EBADF, write(closed, &byte, 1));
	FAILS(EBADF, fstat(closed, &st));
	FAILS(EBADF, lseek(closed, 0, SEEK_SET));
	FAILS(EBADF, fsync(closed));
	FAILS(EBADF, ftruncate(closed, 0));
	FAILS(EBADF, dup(closed));
	FAILS(EBADF, fchmod(closed, 0644));
	FAILS(EBADF, openat(closed, "file", O_RDONLY));
	FAILS(EBADF, mkdirat(closed, "x", 0755));
	WORKS(reading = open("file", O_RDONLY));
	WORKS(writing = open("file", O_WRONLY));
	FAILS(EBADF, write(reading, &byte, 1));
	FAILS(EBADF, pwrite(reading, &byte, 1, 0));
	FAILS(EBADF, read(writing, &byte, 1));
	FAILS(EBADF, pread(writing, &byte, 1, 0));
	FAILS(EBADF, fallocate(reading, 0, 0, 1));
	FAILS(EINVAL, ftruncate(reading, 0));
	FAILS(ENOTDIR, openat(reading, "x", O_RDONLY));
	FAILS(ENOTDIR, mkdirat(reading, "x", 0755));
	WORKS(close(reading));
	WORKS(close(writing));
}

static void
attributes(void)
{
	char value[8], names[64];

	WORKS(setxattr("file", "user.a", "12345", 5, 0));
	FAILS(EEXIST, setxattr("file", "user.a", "1", 1, XATTR_CREATE));
	FAILS(ENODATA, setxattr("file", "user.b", "1", 1, XATTR_REPLACE));
	FAILS(ENODATA, getxattr("file", "user.b", value, sizeof(value)));
	FAILS(ENODATA, removexattr("file", "user.b"));
	FAILS(ERANGE, getxattr("file", "user.a", value, 4));
	FAILS(ERANGE, listxattr("file", names, 3));
	FAILS(ENOENT, getxattr("missing", "user.a", value, 1));
	HOLDS(getxattr("file", "user.a", NULL, 0) == 5);
	HOLDS(listxattr("file", NULL, 0) >= 7);
	HOLDS(getxattr("file", "user.a", value, 8) == 5 && !memcmp(value, "12345", 5));
	WORKS(setxattr("empty", "user.empty", "", 0, 0));
	HOLDS(getxattr("empty", "user.empty", value, 8) == 0);
	WORKS(removexattr("file", "user.a"));
	WORKS(removexattr("empty", "user.empty"));
}

/** Without hard links and special files, the errors are those that POSIX specifies for that. */
static void
what_a_file_system_may_lack(void)
{
	if (link("file", "hard")) {
		HOLDS(errno == EPERM || errno == EOPNOTSUPP);
	} else {
		HOLDS(stat_of("file").st_nlink == 2);
		WORKS(unlink("hard"));
	}
	FAILS(EEXIST, link("file", "file"));
	FAILS(EEXIST, link("file", "full"));
	FAILS(ENOENT, link("none", "file"));
	FAILS(ENOENT, link("none", "new"));
	FAILS(ENOENT, link("file", "none/new"));
	FAILS(EEXIST, mkfifo("file", 0644));
	FAILS(EEXIST, mkfifo("full", 0644));
	FAILS(ENOENT, mkfifo("none/fifo", 0644));
	FAILS(ENOTDIR, mkfifo("file/fifo", 0644));
	FAILS(EEXIST, mknod("file", S_IFSOCK | 0644, 0));
	if (mkfifo("fifo", 0644))
		HOLDS(errno == EPERM || errno == EOPNOTSUPP);
	else
		WORKS(unlink("fifo"));
	int fd = open(".", O_RDWR | O_TMPFILE, 0600);

	HOLDS(fd >= 0 || errno == EOPNOTSUPP || errno == EISDIR);
	if (fd >= 0)
		close(fd);
}

/** True on a mount by FUSE, if the kernel lets it refuse handles (Linux 6.9). */
static int
can_refuse_handles(void)
{
	struct statfs  space;
	struct utsname system;
	int            major = 0, minor = 0;

	if (statfs(".", &space) || space.f_type != FUSE_SUPER_MAGIC || uname(&system))
		return 0;
	return sscanf(system.release, "%d.%d", &major, &minor) == 2 && major * 1000 + minor >= 6009;
}

/** A mount finds files by their paths only, so it gives no handles. */
static void
handles_of_files(void)
{
	struct {
		struct file_handle handle;
		char               bytes[MAX_HANDLE_SZ];
	} any = {.handle.handle_bytes = MAX_HANDLE_SZ};
	int mount;

	FAILS(ENOENT, name_to_handle_at(AT_FDCWD, "none", &any.handle, &mount, 0));
	if (can_refuse_handles())
		FAILS(EOPNOTSUPP, name_to_handle_at(AT_FDCWD, "file", &any.handle, &mount, 0));
}

static void
modes_and_owners(void)
{
	umask(027);
	touch("masked");
	WORKS(mkdir("masked-dir", 0777));
	umask(0);
	HOLDS((stat_of("masked").st_mode & 07777) == 0640);
	HOLDS((stat_of("masked-dir").st_mode & 07777) == 0750);
	HOLDS(stat_of("masked").st_uid == geteuid());
	HOLDS(S_ISREG(stat_of("masked").st_mode));
	HOLDS(S_ISDIR(stat_of("masked-dir").st_mode));
	HOLDS(S_ISLNK(stat_of("link").st_mode));
	WORKS(chmod("masked", 01777));
	HOLDS((stat_of("masked").st_mode & 07777) == 01777);
	WORKS(chown("masked", -1, -1));
	WORKS(unlink("masked"));
	WORKS(rmdir("masked-dir"));
}

static void
removed_files_live_on(void)
{
	char byte = 0;
	int  fd = make("open", O_EXCL, 0644), other;

	struct stat st;

	WORKS(write(fd, "x", 1));
	WORKS(unlink("open"));
	HOLDS(!fstat(fd, &st) && st.st_nlink == 0 && st.st_size == 1);
	other = make("open", O_EXCL, 0644);
	HOLDS(read(other, &byte, 1) == 0);
	HOLDS(pread(fd, &byte, 1, 0) == 1 && byte == 'x');
	WORKS(pwrite(fd, "y", 1, 5000));
	HOLDS(pread(fd, &byte, 1, 5000) == 1 && byte == 'y');
	WORKS(ftruncate(fd, 10));
	HOLDS(!fstat(fd, &st) && st.st_size == 10 && st.st_nlink == 0);
	WORKS(fchmod(fd, 0600));
	HOLDS(!fstat(fd, &st) && (st.st_mode & 07777) == 0600 && st.st_nlink == 0);
	WORKS(futimens(fd, NULL));
	HOLDS(!fstat(fd, &st) && st.st_size == 10 && st.st_nlink == 0);
	WORKS(fchown(fd, geteuid(), getegid()));
	HOLDS(!fstat(fd, &st) && st.st_uid == geteuid() && st.st_nlink == 0);
	WORKS(close(fd));
	WORKS(write(other, "z", 1));
	WORKS(rename("file", "open"));
	HOLDS(pread(other, &byte, 1, 0) == 1 && byte == 'z');
	WORKS(fchmod(other, 0640));
	HOLDS(!fstat(other, &st) && (st.st_mode & 07777) == 0640 && st.st_nlink == 0);
	WORKS(close(other));
	WORKS(rename("open", "file"));
}

/** Checks for the superuser, whose writes do not clear set-id bits. */
static void
keep_set_ids(int wanted)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct   data[2];

	WORKS(syscall(SYS_capget, &header, data));
	data[0].effective &= ~(1U << CAP_FSETID);
	if (wanted)
		data[0].effective |= data[0].permitted & (1U << CAP_FSETID);
	WORKS(syscall(SYS_capset, &header, data));
}

static void
set_ids_go_with_a_write(void)
{
	struct stat st;
	const char *without = getenv("WITHOUT");

	if (without && !strcmp(without, "set_ids"))
		return;
	int fd = make("set-id", O_EXCL, 0);

	for (int removed = 0; removed < 2; removed++) {
		WORKS(fchmod(fd, 06755));
		if (removed)
			WORKS(unlink("set-id"));
		keep_set_ids(0);
		WORKS(write(fd, "x", 1));
		keep_set_ids(1);
		HOLDS(!fstat(fd, &st) && (st.st_mode & 07777) == 0755);
		HOLDS(st.st_nlink == (removed ? 0 : 1));
	}
	WORKS(close(fd));
}

/** The mode of a file with set-id bits after another user changed it by a step. */
static mode_t
mode_after(int step, int from)
{
	int     fd;
	off_t   at = 0;

	WORKS(chmod("set-id", 06777));
	WORKS(seteuid(NOBODY));
	WORKS(fd = open("set-id", step == 0 ? O_WRONLY | O_TRUNC : O_WRONLY));
	if (step == 1)
		WORKS(ftruncate(fd, 100));
	if (step == 2)
		WORKS(fallocate(fd, 0, 0, 200));
	if (step == 3)
		HOLDS(copy_file_range(from, &at, fd, NULL, 1, 0) == 1);
	WORKS(close(fd));
	WORKS(seteuid(0));
	return stat_of("set-id").st_mode & 07777;
}

static void
set_ids_go_with_each_change(void)
{
	const char *without = getenv("WITHOUT");

	if (geteuid() || (without && !strcmp(without, "set_ids")))
		return;
	int fd = make("set-id", O_TRUNC, 0777), from = make("from", O_TRUNC, 0644);

	WORKS(write(from, "x", 1));
	for (int step = 0; step < 4; step++)
		HOLDS(mode_after(step, from) == 0777);
	WORKS(close(fd));
	WORKS(close(from));
	WORKS(unlink("set-id"));
	WORKS(unlink("from"));
}

static void
removed_directories_stay_empty(void)
{
	struct stat st;
	int         fd;
	DIR        *stream;

	WORKS(mkdir("gone", 0755));
	WORKS(fd = open("gone", O_RDONLY | O_DIRECTORY));
	WORKS(rmdir("gone"));
	FAILS(ENOENT, openat(fd, "x", O_RDWR | O_CREAT, 0644));
	FAILS(ENOENT, mkdirat(fd, "x", 0755));
	FAILS(ENOENT, symlinkat("x", fd, "x"));
	FAILS(ENOENT, renameat(AT_FDCWD, "file", fd, "x"));
	FAILS(ENOENT, fstatat(fd, "x", &st, 0));
	WORKS(fstat(fd, &st));
	stream = fdopendir(fd);
	HOLDS(stream);
	for (struct dirent *entry; stream && (entry = readdir(stream));)
		HOLDS(!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."));
	WORKS(closedir(stream));
}

static void
names_move_with_what_they_name(void)
{
	struct stat before = stat_of("full/file"), dir = stat_of("full/sub");
	int         fd = open("full", O_RDONLY | O_DIRECTORY);

	WORKS(rename("full", "empty/full"));
	HOLDS(stat_of("empty/full/file").st_ino == before.st_ino);
	HOLDS(stat_of("empty/full/..").st_ino == stat_of("empty").st_ino);
	HOLDS(stat_of("empty/full/sub/../..").st_ino == stat_of("empty").st_ino);
	HOLDS(stat_of("empty/full/sub/..//file").st_ino == before.st_ino);
	HOLDS(stat_of("empty/full/sub/..//").st_ino == stat_of("empty/full").st_ino);
	HOLDS(stat_of(".//empty//full/sub//../file").st_ino == before.st_ino);
	WORKS(close(openat(fd, "through", O_RDWR | O_CREAT, 0644)));
	WORKS(unlink("empty/full/through"));
	WORKS(renameat2(AT_FDCWD, "file", AT_FDCWD, "empty/full/sub", RENAME_EXCHANGE));
	HOLDS(stat_of("file").st_ino == dir.st_ino && S_ISDIR(stat_of("file").st_mode));
	WORKS(renameat2(AT_FDCWD, "file", AT_FDCWD, "empty/full/sub", RENAME_EXCHANGE));
	WORKS(renameat2(AT_FDCWD, "file", AT_FDCWD, "empty/full/sub/", RENAME_EXCHANGE));
	WORKS(renameat2(AT_FDCWD, "file/", AT_FDCWD, "empty/full/sub", RENAME_EXCHANGE));
	WORKS(rename("empty/full", "full"));
	WORKS(rename("full", "full"));
	HOLDS(stat_of("full/file").st_ino == before.st_ino);
	WORKS(close(fd));
}

/** True if a file that is open is also found by its name; the child is another process. */
static int
finds(int fd, const char *name)
{
	struct stat st;
	int         other;

	if (fstat(fd, &st) || st.st_ino != stat_of(name).st_ino)
		return 0;
	other = open(name, O_RDONLY);
	return other >= 0 && !close(other);
}

static void
open_files_are_found_where_they_were_moved(void)
{
	int fd = open("moved", O_RDWR | O_CREAT, 0644), status = 0;

	WORKS(mkdir("first", 0755));
	WORKS(rename("moved", "first/moved"));
	WORKS(rename("first", "second"));
	if (!fork())
		_exit(finds(fd, "second/moved"));
	HOLDS(wait(&status) > 0 && status == 1 << 8);
	WORKS(mkdir("third", 0755));
	if (!fork())
		_exit(rename("second/moved", "third/moved") || rename("third", "fourth"));
	HOLDS(wait(&status) > 0 && status == 0);
	HOLDS(finds(fd, "fourth/moved"));
	WORKS(close(fd));
	WORKS(unlink("fourth/moved"));
	WORKS(rmdir("fourth"));
	WORKS(rmdir("second"));
}

static void
listings_tell_what_stat_tells(void)
{
	DIR           *stream = opendir(".");
	int            dots = 0, others = 0;
	struct dirent *entry;

	HOLDS(stream);
	while (stream && (entry = readdir(stream))) {
		struct stat st = stat_of(entry->d_name);

		if (strcmp(entry->d_name, ".."))
			HOLDS(entry->d_ino == st.st_ino);
		HOLDS(entry->d_type == DT_UNKNOWN || entry->d_type == IFTODT(st.st_mode));
		if (entry->d_name[0] == '.')
			dots++;
		else
			others++;
	}
	HOLDS(dots == 2 && others == 7);
	WORKS(closedir(stream));
}

static int
later(struct timespec a, struct timespec b)
{
	return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

static void
times_follow_changes(void)
{
	struct timespec old[2] = {{1000, 1}, {1000, 1}}, omit[2] = {{0, UTIME_OMIT}, {2000, 2}};
	int             fd = make("timed", 0, 0644);

	WORKS(utimensat(AT_FDCWD, "timed", old, 0));
	HOLDS(stat_of("timed").st_mtim.tv_sec == 1000 && stat_of("timed").st_mtim.tv_nsec == 1);
	HOLDS(later(stat_of("timed").st_ctim, old[0]));
	WORKS(write(fd, "", 0));
	HOLDS(stat_of("timed").st_mtim.tv_sec == 1000);
	WORKS(write(fd, "x", 1));
	WORKS(fsync(fd));
	HOLDS(later(stat_of("timed").st_mtim, old[0]));
	WORKS(futimens(fd, old));
	WORKS(chmod("timed", 0600));
	HOLDS(stat_of("timed").st_mtim.tv_sec == 1000);
	WORKS(ftruncate(fd, 0));
	WORKS(close(fd));
	HOLDS(later(stat_of("timed").st_mtim, old[0]));
	WORKS(utimensat(AT_FDCWD, "timed", omit, 0));
	HOLDS(stat_of("timed").st_mtim.tv_sec == 2000);
	struct timespec changed = stat_of("timed").st_ctim, atime[2] = {{1000, 1}, {0, UTIME_OMIT}};

	/* Linux takes times from this clock. */
	for (struct timespec now = {0}; !later(now, changed);)
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	WORKS(utimensat(AT_FDCWD, "timed", atime, 0));
	HOLDS(later(stat_of("timed").st_ctim, changed));
	HOLDS(stat_of("timed").st_mtim.tv_sec == 2000);
	WORKS(utimensat(AT_FDCWD, "timed", NULL, 0));
	HOLDS(later(stat_of("timed").st_mtim, omit[1]));
	WORKS(utimensat(AT_FDCWD, "link", old, AT_SYMLINK_NOFOLLOW));
	HOLDS(stat_of("link").st_mtim.tv_sec == 1000 && stat_of("file").st_mtim.tv_sec != 1000);
	WORKS(unlink("timed"));
	WORKS(mkdir("timed", 0755));
	WORKS(utimensat(AT_FDCWD, "timed", old, 0));
	touch("timed/x");
	HOLDS(later(stat_of("timed").st_mtim, old[0]));
	WORKS(utimensat(AT_FDCWD, "timed", old, 0));
	WORKS(unlink("timed/x"));
	HOLDS(later(stat_of("timed").st_mtim, old[0]));
	WORKS(rmdir("timed"));
}

static void
descriptors_allow_what_they_were_opened_for(void)
{
	struct timespec omit[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
	struct stat     st;
	int             fd = make("trunc", O_TRUNC, 0644), cut, dir;
	char            byte = 1;

	WORKS(write(fd, "0123456789", 10));
	WORKS(cut = open("trunc", O_RDONLY | O_TRUNC));
	HOLDS(stat_of("trunc").st_size == 0);
	FAILS(EBADF, write(cut, &byte, 1));
	FAILS(EBADF, pwrite(cut, &byte, 1, 0));
	FAILS(EBADF, pwrite(cut, &byte, 1, 0x7fffffffffffffff));
	FAILS(EINVAL, ftruncate(cut, 5));
	WORKS(close(cut));
	FAILS(EINVAL, pread(fd, &byte, 1, 0x7fffffffffffffff));
	FAILS(ENOTDIR, mkdirat(fd, "../inside", 0755));
	FAILS(ENOTDIR, openat(fd, "../file", O_RDONLY));
	WORKS(pwrite(fd, "0123456789", 10, 0));
	off_t from = 2, to = 20;
	HOLDS(copy_file_range(fd, &from, fd, &to, 100, 0) == 8);
	WORKS(lseek(fd, 5, SEEK_SET));
	FAILS(EINVAL, copy_file_range(fd, NULL, fd, NULL, 3, 0));
	WORKS(close(fd));
	WORKS(fd = open("trunc", O_RDWR | O_PATH | O_TRUNC));
	HOLDS(stat_of("trunc").st_size == 28);
	FAILS(EBADF, fchmod(fd, 0600));
	FAILS(EBADF, fchown(fd, -1, -1));
	FAILS(EBADF, futimens(fd, NULL));
	WORKS(futimens(fd, omit));
	FAILS(EBADF, ftruncate(fd, 0));
	FAILS(EBADF, fallocate(fd, 0, -1, 0));
	FAILS(EBADF, lseek(fd, 0, SEEK_SET));
	FAILS(EBADF, fsync(fd));
	FAILS(EBADF, fcntl(fd, F_SETFL, O_APPEND));
	HOLDS((fcntl(fd, F_GETFL) & (O_ACCMODE | O_PATH)) == O_PATH);
	WORKS(close(fd));
	WORKS(unlink("trunc"));
	WORKS(mkdir("here", 0711));
	WORKS(dir = open(".", O_RDONLY | O_DIRECTORY));
	WORKS(chdir("here"));
	WORKS(fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH));
	HOLDS((st.st_mode & 07777) == 0711);
	WORKS(rmdir("../here"));
	FAILS(ENOENT, getcwd(path4096, 4096) ? 0 : -1);
	FAILS(ENOENT, realpath("..", NULL) ? 0 : -1);
	WORKS(fchdir(dir));
	WORKS(close(dir));
}

/** Appends to a file whose pages the kernel has cached through another descriptor. */
static void
appending_can_begin_later(void)
{
	char page[4096] = "0123456789", bytes[16];
	int  fd = make("later", O_TRUNC, 0644), other;

	/* The end of the page, so that the next one is written without having been read. */
	HOLDS(write(fd, page, sizeof(page)) == sizeof(page));
	WORKS(close(fd));
	WORKS(fd = open("later", O_RDWR));
	/* A mount writes past the kernel's pages through this one. */
	WORKS(other = open("later", O_WRONLY));
	HOLDS(read(fd, bytes, 4) == 4);
	WORKS(fcntl(fd, F_SETFL, O_APPEND));
	HOLDS(write(fd, "abc", 3) == 3);
	HOLDS(pread(fd, bytes, 16, sizeof(page)) == 3 && !memcmp(bytes, "abc", 3));
	WORKS(close(other));
	WORKS(close(fd));
	WORKS(unlink("later"));
}

/** Opens without a free descriptor: the call must neither truncate nor create a file. */
static void
no_descriptor_is_free(void)
{
	int fd = make("full-table", O_TRUNC, 0644), last = fd, copy;

	HOLDS(write(fd, "content", 7) == 7);
	while ((copy = dup(STDIN_FILENO)) >= 0)
		last = copy;
	FAILS(EMFILE, open("full-table", O_WRONLY | O_TRUNC));
	FAILS(EMFILE, open("never-made", O_WRONLY | O_CREAT | O_EXCL, 0644));
	HOLDS(lseek(fd, 0, SEEK_END) == 7);
	for (copy = fd + 1; copy <= last; copy++)
		close(copy);
	FAILS(ENOENT, unlink("never-made"));
	WORKS(close(fd));
	WORKS(unlink("full-table"));
}

/** Buffers that cannot be: without an address, or longer than any memory. */
static void
buffers_that_cannot_be(void)
{
	char         bytes[16];
	int          fd = make("buffers", O_TRUNC, 0644);
	struct iovec none = {NULL, 4}, two[2] = {{bytes, 4}, {bytes, SIZE_MAX}};
	void *volatile nowhere = NULL;

	HOLDS(write(fd, "0123456789", 10) == 10);
	WORKS(lseek(fd, 4, SEEK_SET));
	FAILS(EFAULT, read(fd, nowhere, 4));
	FAILS(EFAULT, write(fd, nowhere, 4));
	FAILS(EFAULT, pread(fd, nowhere, 4, 0));
	FAILS(EFAULT, pwrite(fd, nowhere, 4, 0));
	FAILS(EFAULT, readv(fd, &none, 1));
	FAILS(EINVAL, readv(fd, two, 2));
	FAILS(EINVAL, writev(fd, two, 2));
	FAILS(EINVAL, preadv(fd, two, 2, 0));
	FAILS(EINVAL, pwritev(fd, two, 2, 0));
	HOLDS(lseek(fd, 0, SEEK_CUR) == 4);
	HOLDS(read(fd, nowhere, 0) == 0);
	FAILS(EFAULT, readlink("link", nowhere, 4));
	WORKS(close(fd));
	WORKS(unlink("buffers"));
}

/** Flags that the kernel does not know: the call must change nothing. */
static void
flags_that_nobody_knows(void)
{
	char byte;
	int  fd = make("flags", O_TRUNC, 0644);

	HOLDS(write(fd, "x", 1) == 1);
	FAILS(EINVAL, close_range(fd, fd, 1 << 7));
	HOLDS(pread(fd, &byte, 1, 0) == 1);
	FAILS(EINVAL, fchmodat(AT_FDCWD, "flags", 0600, 0x8000));
	HOLDS((stat_of("flags").st_mode & 07777) == 0644);
	WORKS(close(fd));
	WORKS(unlink("flags"));
}

/** The working directory, and its path, after it was renamed. */
static void
working_directories_move(void)
{
	char path[4096];

	WORKS(mkdir("before", 0755));
	WORKS(mkdir("before/below", 0755));
	WORKS(chdir("before/below"));
	WORKS(rename("../../before", "../../after"));
	HOLDS(getcwd(path, sizeof(path)) && strlen(path) > 12 && !strcmp(path + strlen(path) - 12, "/after/below"));
	WORKS(rename("../below", "../deep"));
	HOLDS(getcwd(path, sizeof(path)) && strlen(path) > 11 && !strcmp(path + strlen(path) - 11, "/after/deep"));
	WORKS(chdir(path));
	WORKS(chdir("../.."));
	WORKS(rmdir("after/deep"));
	WORKS(rmdir("after"));
}

/** Paths that leave the file system, and come back. */
static void
paths_that_lead_out(void)
{
	char        here[2048], there[4096], deep[4096];
	struct stat st;

	CHECK(getcwd(here, sizeof(here)));
	snprintf(there, sizeof(there), "../../../../../../../../../..%s/file", here);
	snprintf(deep, sizeof(deep), "//..%s/dirlink/../file", here);
	WORKS(stat(there, &st));
	WORKS(symlink(there, "around"));
	WORKS(stat("around", &st));
	HOLDS(st.st_ino == stat_of("file").st_ino);
	WORKS(symlink("../../../../../../../../../../dev/null", "out"));
	WORKS(stat("out", &st));
	HOLDS(S_ISCHR(st.st_mode));
	FAILS(ENOTDIR, stat("out/", &st));
	FAILS(ENOTDIR, stat("out/../x", &st));
	/* `..` behind a link is not a matter of text. */
	WORKS(mkdir("full/sub/deep", 0755));
	WORKS(symlink("full/sub/deep", "deeplink"));
	snprintf(deep, sizeof(deep), "//..%s/deeplink/../../file", here);
	WORKS(stat(deep, &st));
	HOLDS(st.st_ino == stat_of("full/file").st_ino);
	FAILS(ENOENT, rename("none/x", "/dev/none"));
	FAILS(ENOENT, rename("file", "/dev/none/none"));
	FAILS(EBADF, renameat(-1, "x", AT_FDCWD, "y"));
	FAILS(EXDEV, rename("file", "/proc/none"));
	WORKS(symlink("/tmp", "outside"));
	snprintf(there, sizeof(there), "outside/errnos-%d", (int)getpid());
	snprintf(deep, sizeof(deep), "outside/errnos-%d-moved", (int)getpid());
	WORKS(mkdir(there, 0755));
	WORKS(rename(there, deep));
	WORKS(rmdir(deep));
	WORKS(unlink("outside"));
	WORKS(unlink("deeplink"));
	WORKS(rmdir("full/sub/deep"));
	WORKS(unlink("around"));
	WORKS(unlink("out"));
}

static void
tear_down(void)
{
	static const char *const names[] = {"file", "link", "dirlink", "dangling", "loop", "full/file"};

	for (size_t at = 0; at < sizeof(names) / sizeof(*names); at++)
		WORKS(unlink(names[at]));
	WORKS(rmdir("full/sub"));
	WORKS(rmdir("full"));
	WORKS(rmdir("empty"));
}

int
main(int argc, char **argv)
{
	static void (*const groups[])(void) = {
	    names_too_long,
	    paths_that_lead_nowhere,
	    not_directories,
	    directories_where_files_are_wanted,
	    things_that_exist,
	    directories_that_may_not_go,
	    arguments_that_make_no_sense,
	    loops,
	    descriptors,
	    attributes,
	    what_a_file_system_may_lack,
	    handles_of_files,
	    modes_and_owners,
	    removed_files_live_on,
	    set_ids_go_with_a_write,
	    set_ids_go_with_each_change,
	    removed_directories_stay_empty,
	    names_move_with_what_they_name,
	    open_files_are_found_where_they_were_moved,
	    listings_tell_what_stat_tells,
	    times_follow_changes,
	    descriptors_allow_what_they_were_opened_for,
	    appending_can_begin_later,
	    no_descriptor_is_free,
	    buffers_that_cannot_be,
	    flags_that_nobody_knows,
	    working_directories_move,
	    paths_that_lead_out,
	};
	char dir[4096];

	if (argc < 2) {
		fprintf(stderr, "usage: errnos DIR\n");
		return 2;
	}
	umask(0);
	snprintf(dir, sizeof(dir), "%s/errnos-%d", argv[1], (int)getpid());
	if (mkdir(dir, 0755) || chdir(dir))
		FAIL("making %s", dir);
	set_up();
	for (size_t at = 0; at < sizeof(groups) / sizeof(*groups); at++)
		groups[at]();
	tear_down();
	if (chdir("/") || rmdir(dir))
		FAIL("removing %s", dir);
	printf("errnos: %d of %d checks wrong\n", wrong, checked);
	return wrong != 0;
}
