/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes: modes, owners, times, access, statx, extended ones; the older names of stat too. */
#include "check.h"

#include <dirent.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <time.h>
#include <utime.h>

static void
modes(void)
{
	struct stat info;
	int         fd;

	umask(027);
	fd = open("file", O_RDWR | O_CREAT, 0666);
	OK(fstat(fd, &info));
	GIVES(S_IFREG | 0640, info.st_mode);
	OK(mkdir("dir", 0777));
	OK(stat("dir", &info));
	GIVES(S_IFDIR | 0750, info.st_mode);
	OK(chmod("file", 0751));
	OK(fstat(fd, &info));
	GIVES(S_IFREG | 0751, info.st_mode);
	OK(fchmod(fd, 0600));
	OK(fchmodat(AT_FDCWD, "dir", 01777, 0));
	OK(stat("dir", &info));
	GIVES(S_IFDIR | 01777, info.st_mode);
	OK(symlink("file", "link"));
	OK(chmod("link", 0444));
	OK(stat("file", &info));
	GIVES(S_IFREG | 0444, info.st_mode);
	FAILS(ENOENT, chmod("none", 0600));
	OK(lchmod("file", 0640));
	OK(stat("file", &info));
	GIVES(S_IFREG | 0640, info.st_mode);
	OK(lchmod("dir", 0700));
	OK(stat("dir", &info));
	GIVES(S_IFDIR | 0700, info.st_mode);
	FAILS(EOPNOTSUPP, lchmod("link", 0600));
	FAILS(ENOENT, lchmod("none", 0600));
	umask(022);
	OK(close(creat("made", 0666)));
	OK(stat("made", &info));
	GIVES(S_IFREG | 0644, info.st_mode);
	GIVES(0, info.st_size);
	CHECK(info.st_nlink == 1 && info.st_uid == geteuid() && info.st_blksize >= 512);
}

static void
owners(void)
{
	struct stat info;
	int         fd = new_file("file", 1, 1);

	OK(chown("file", geteuid(), getegid()));
	OK(fchown(fd, (uid_t)-1, (gid_t)-1));
	OK(symlink("none", "link"));
	OK(lchown("link", geteuid(), getegid()));
	if (geteuid() != 0)
		return;
	OK(chown("file", 12, 34));
	OK(fstat(fd, &info));
	CHECK(info.st_uid == 12 && info.st_gid == 34);
	OK(fchownat(AT_FDCWD, "link", 56, 78, AT_SYMLINK_NOFOLLOW));
	OK(lstat("link", &info));
	CHECK(info.st_uid == 56 && info.st_gid == 78);
	OK(fchown(fd, 0, (gid_t)-1));
	OK(stat("file", &info));
	CHECK(info.st_uid == 0 && info.st_gid == 34);
}

static void
times(void)
{
	struct timespec exact[2] = {{1234567890, 123456789}, {987654321, 987654321}};
	struct timespec parts[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
	struct timeval  micro[2] = {{1000, 500000}, {2000, 250000}};
	struct utimbuf  seconds = {3000, 4000};
	struct stat     info;
	int             fd = new_file("file", 1, 1);

	OK(utimensat(AT_FDCWD, "file", exact, 0));
	OK(stat("file", &info));
	CHECK(info.st_mtim.tv_sec == 987654321 && info.st_mtim.tv_nsec == 987654321);
	OK(utimes("file", micro));
	OK(stat("file", &info));
	CHECK(info.st_mtim.tv_sec == 2000 && info.st_mtim.tv_nsec == 250000000);
	OK(utime("file", &seconds));
	OK(fstat(fd, &info));
	GIVES(4000, info.st_mtime);
	OK(futimens(fd, exact));
	OK(fstat(fd, &info));
	GIVES(987654321, info.st_mtime);
	OK(futimes(fd, micro));
	OK(futimesat(AT_FDCWD, "file", micro));
	OK(utimensat(AT_FDCWD, "file", parts, 0));
	OK(fstat(fd, &info));
	CHECK(info.st_mtime > 1600000000);
	OK(symlink("file", "link"));
	OK(utimensat(AT_FDCWD, "link", exact, AT_SYMLINK_NOFOLLOW));
	OK(lutimes("link", micro));
	OK(lstat("link", &info));
	GIVES(2000, info.st_mtime);
	OK(stat("link", &info));
	CHECK(info.st_mtime > 1600000000);
	OK(mkdir("dir", 0755));
	OK(utimensat(AT_FDCWD, "dir", exact, 0));
	OK(stat("dir", &info));
	GIVES(987654321, info.st_mtime);
	OK(utimensat(AT_FDCWD, "dir", NULL, 0));
	exact[0].tv_nsec = 2000000000;
	FAILS(EINVAL, utimensat(AT_FDCWD, "file", exact, 0));
}

static void
permitted(void)
{
	put("file", "x");
	OK(access("file", R_OK | W_OK));
	FAILS(EACCES, access("file", X_OK));
	FAILS(ENOENT, access("none", F_OK));
	OK(eaccess("file", R_OK));
	OK(euidaccess("file", F_OK));
	OK(faccessat(AT_FDCWD, "file", R_OK, AT_EACCESS));
	OK(symlink("none", "link"));
	FAILS(ENOENT, access("link", F_OK));
	OK(faccessat(AT_FDCWD, "link", F_OK, AT_SYMLINK_NOFOLLOW));
	OK(chmod("file", 0700));
	OK(access("file", X_OK));
}

/* A process may have more than 64 supplementary groups, and all of them count. */
static void
permitted_by_a_group(void)
{
	gid_t groups[200];

	put("file", "x");
	for (gid_t i = 0; i < 200; i++)
		groups[i] = 5000 + i;
	if (setgroups(200, groups) != 0) {
		puts("skipped: this user may not set groups");
		return;
	}
	OK(chown("file", 0, 5199));
	OK(chmod("file", 0640));
	OK(setresuid(1000, (uid_t)-1, (uid_t)-1));
	OK(access("file", R_OK));
	FAILS(EACCES, access("file", W_OK));
	OK(chown("file", 0, 5200));
	FAILS(EACCES, access("file", R_OK));
	OK(setresuid(0, (uid_t)-1, (uid_t)-1));
}

static void
extended_stat(void)
{
	struct statx   full;
	struct stat    info;
	struct stat64  wide;
	struct statvfs space;
	char           name[32], other[32];
	int            fd = new_file("file", 1000, 1);

	OK(statx(AT_FDCWD, "file", 0, STATX_BASIC_STATS | STATX_BTIME, &full));
	OK(stat("file", &info));
	CHECK(full.stx_size == 1000 && full.stx_ino == info.st_ino && full.stx_mode == info.st_mode);
	CHECK((full.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS);
	CHECK(makedev(full.stx_dev_major, full.stx_dev_minor) == info.st_dev);
	GIVES(info.st_mtime, full.stx_mtime.tv_sec);
	OK(statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &full));
	GIVES(1000, full.stx_size);
	snprintf(name, sizeof(name), "/dev/fd/%d", fd);
	OK(statx(AT_FDCWD, name, 0, STATX_ALL, &full));
	snprintf(other, sizeof(other), "/dev/fd/+%d", fd);
	FAILS(ENOENT, stat(other, &info));
	snprintf(other, sizeof(other), "/dev/fd/0%d", fd);
	FAILS(ENOENT, stat(other, &info));
	CHECK(full.stx_size == 1000 && full.stx_nlink == 1 && full.stx_ino == info.st_ino);
	OK(symlink("file", "link"));
	OK(statx(AT_FDCWD, "link", AT_SYMLINK_NOFOLLOW, STATX_ALL, &full));
	CHECK(S_ISLNK(full.stx_mode));
	OK(fstat64(fd, &wide));
	GIVES(1000, wide.st_size);
	OK(stat64("link", &wide));
	GIVES(1000, wide.st_size);
	OK(lstat64("link", &wide));
	GIVES(4, wide.st_size);
	OK(fstatat64(AT_FDCWD, "file", &wide, 0));
	CHECK(wide.st_ino == info.st_ino && wide.st_dev == info.st_dev);
	OK(statvfs(".", &space));
	CHECK(space.f_blocks > 0 && space.f_frsize > 0 && space.f_namemax == 255);
	OK(fstatvfs(fd, &space));
	CHECK(space.f_blocks > 0);
}

/* Programs linked before glibc 2.33 call these instead of stat. */
#if defined(__x86_64__) && defined(__GLIBC__)
int old_stat(int, const char *, struct stat *);
int old_lstat(int, const char *, struct stat *);
int old_fstat(int, int, struct stat *);
int old_fstatat(int, int, const char *, struct stat *, int);
int old_stat64(int, const char *, struct stat64 *);
int old_lstat64(int, const char *, struct stat64 *);
int old_fstat64(int, int, struct stat64 *);
int old_fstatat64(int, int, const char *, struct stat64 *, int);
__asm__(".symver old_stat, __xstat@GLIBC_2.2.5");
__asm__(".symver old_lstat, __lxstat@GLIBC_2.2.5");
__asm__(".symver old_fstat, __fxstat@GLIBC_2.2.5");
__asm__(".symver old_fstatat, __fxstatat@GLIBC_2.4");
__asm__(".symver old_stat64, __xstat64@GLIBC_2.2.5");
__asm__(".symver old_lstat64, __lxstat64@GLIBC_2.2.5");
__asm__(".symver old_fstat64, __fxstat64@GLIBC_2.2.5");
__asm__(".symver old_fstatat64, __fxstatat64@GLIBC_2.4");

static void
older_names(void)
{
	struct stat   info;
	struct stat64 wide;
	int           fd = new_file("file", 1000, 1), dir = open(".", O_RDONLY);

	OK(symlink("file", "link"));
	OK(old_stat(1, "link", &info));
	GIVES(1000, info.st_size);
	OK(old_lstat(1, "link", &info));
	GIVES(4, info.st_size);
	OK(old_fstat(1, fd, &info));
	GIVES(1000, info.st_size);
	OK(old_fstatat(1, dir, "file", &info, 0));
	GIVES(1000, info.st_size);
	OK(old_stat64(1, "link", &wide));
	GIVES(1000, wide.st_size);
	OK(old_lstat64(1, "link", &wide));
	GIVES(4, wide.st_size);
	OK(old_fstat64(1, fd, &wide));
	GIVES(1000, wide.st_size);
	OK(old_fstatat64(1, dir, "link", &wide, AT_SYMLINK_NOFOLLOW));
	GIVES(4, wide.st_size);
	FAILS(ENOENT, old_stat(1, "none", &info));
}
#else
static void
older_names(void)
{
}
#endif

static void
extended_attributes(void)
{
	char    value[100], names[200];
	int     fd = new_file("file", 1, 1);
	ssize_t length;

	if (setxattr("file", "user.one", "value", 5, 0) != 0) {
		GIVES(ENOTSUP, errno);
		FAILS(ENOTSUP, fsetxattr(fd, "user.one", "value", 5, 0));
		return;
	}
	GIVES(5, getxattr("file", "user.one", value, sizeof(value)));
	CHECK(memcmp(value, "value", 5) == 0);
	GIVES(5, fgetxattr(fd, "user.one", NULL, 0));
	FAILS(ERANGE, getxattr("file", "user.one", value, 2));
	FAILS(EEXIST, setxattr("file", "user.one", "x", 1, XATTR_CREATE));
	FAILS(ENODATA, setxattr("file", "user.two", "x", 1, XATTR_REPLACE));
	OK(fsetxattr(fd, "user.two", "", 0, 0));
	length = listxattr("file", names, sizeof(names));
	CHECK(length >= 18 && memmem(names, (size_t)length, "user.one", 9) != NULL);
	GIVES(length, flistxattr(fd, NULL, 0));
	OK(rename("file", "moved"));
	GIVES(5, lgetxattr("moved", "user.one", value, sizeof(value)));
	OK(removexattr("moved", "user.one"));
	FAILS(ENODATA, getxattr("moved", "user.one", value, sizeof(value)));
	OK(fremovexattr(fd, "user.two"));
	OK(mkdir("dir", 0755));
	OK(setxattr("dir", "user.d", "dir", 3, 0));
	GIVES(3, getxattr("dir", "user.d", value, sizeof(value)));
}

/* Paths of descriptors, and descriptors in place of paths. */
static void
named_by_descriptor(void)
{
	struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
	int             fd = new_file("file", 1, 1), dir, link;
	char            path[32], target[16];
	struct stat     info;
	DIR            *stream;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	OK(chmod(path, 0600));
	OK(chown(path, geteuid(), getegid()));
	OK(utimensat(AT_FDCWD, path, times, 0));
	OK(stat("file", &info));
	GIVES(2000, info.st_mtim.tv_sec);
	GIVES(0600, info.st_mode & 07777);
	/* Before glibc 2.39, the flag is unknown. */
	if (fchmodat(fd, "", 0640, AT_EMPTY_PATH) == 0) {
		OK(stat("file", &info));
		GIVES(0640, info.st_mode & 07777);
	}
	if (setxattr("file", "user.one", "value", 5, 0) == 0) {
		OK(setxattr(path, "user.two", "other", 5, 0));
		GIVES(5, getxattr("file", "user.two", target, sizeof(target)));
		GIVES(5, getxattr(path, "user.one", target, sizeof(target)));
	}
	OK(truncate(path, 10));
	OK(fstat(fd, &info));
	GIVES(10, info.st_size);
	FAILS(ENOTDIR, open(path, O_RDONLY | O_DIRECTORY));
	CHECK(opendir(path) == NULL && errno == ENOTDIR);
	FAILS(ENOTDIR, chdir(path));
	FAILS(ENOENT, readlinkat(fd, "", target, sizeof(target)));

	OK(mkdir("dir", 0755));
	put("dir/inside", "text");
	CHECK((dir = open("dir", O_RDONLY | O_DIRECTORY)) >= 0);
	OK(symlink("file", "link"));
	CHECK((link = open("link", O_PATH | O_NOFOLLOW)) >= 0);
	GIVES(4, readlinkat(link, "", target, sizeof(target)));
	snprintf(path, sizeof(path), "/dev/fd/%d", dir);
	FAILS(EISDIR, open(path, O_WRONLY));
	CHECK((stream = opendir(path)) != NULL);
	OK(closedir(stream));
	OK(chdir(path));
	holds("inside", "text");
}

/* Unknown flags, names of no namespace, and descriptors that only name a file. */
static void
refused(void)
{
	int          unknown = 0x40000000, path, dir;
	struct stat  info;
	struct statx more;
	char         room[256];

	OK(close(new_file("file", 1, 1)));
	FAILS(EINVAL, fstatat(AT_FDCWD, "file", &info, unknown));
	FAILS(EINVAL, statx(AT_FDCWD, "file", unknown, STATX_BASIC_STATS, &more));
	FAILS(EINVAL, faccessat(AT_FDCWD, "file", R_OK, unknown));
	FAILS(EINVAL, fchownat(AT_FDCWD, "file", geteuid(), getegid(), unknown));
	FAILS(EINVAL, utimensat(AT_FDCWD, "file", NULL, unknown));
	FAILS(EOPNOTSUPP, setxattr("file", "name", "value", 5, 0));
	FAILS(EOPNOTSUPP, setxattr("file", "none.name", "value", 5, 0));
	CHECK((path = open("file", O_PATH)) >= 0);
	FAILS(EBADF, flock(path, LOCK_SH));
	CHECK((dir = open(".", O_PATH | O_DIRECTORY)) >= 0);
	FAILS(EBADF, getdents64(dir, room, sizeof(room)));
}

static void
open_flags(void)
{
	int fd = open("file", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644), flags;

	flags = fcntl(fd, F_GETFL);
	CHECK((flags & O_ACCMODE) == O_RDWR && (flags & O_APPEND) != 0);
	GIVES(FD_CLOEXEC, fcntl(fd, F_GETFD));
	GIVES(3, write(fd, "abc", 3));
	GIVES(0, lseek(fd, 0, SEEK_SET));
	GIVES(3, write(fd, "def", 3));
	OK(fcntl(fd, F_SETFL, flags & ~O_APPEND));
	GIVES(0, lseek(fd, 0, SEEK_SET));
	GIVES(1, write(fd, "X", 1));
	holds("file", "Xbcdef");
	OK(fcntl(fd, F_SETFL, O_APPEND));
	GIVES(1, write(fd, "Y", 1));
	holds("file", "XbcdefY");
	CHECK((fd = open("file", O_RDONLY)) >= 0);
	GIVES(O_RDONLY, fcntl(fd, F_GETFL) & O_ACCMODE);
	CHECK((fd = open("file", O_WRONLY | O_SYNC)) >= 0);
	OK(fsync(fd));
	OK(fdatasync(fd));
	OK(syncfs(fd));
	OK(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
	CHECK(!isatty(fd));
}

static int64_t
nanoseconds(const struct timespec *time)
{
	return time->tv_sec * INT64_C(1000000000) + time->tv_nsec;
}

/* Checks that a call stores times and mapped changes of all files, so that another process sees them. */
static void
synced_by(void (*store)(int))
{
	int             one = new_file("one", 1, 1), two = new_file("two", 1, 1), three, ends[2];
	struct stat     before, after;
	struct timespec now, written;
	char           *mapped;
	pid_t           pid;

	put("three", "three");
	OK(pipe(ends));
	CHECK((pid = fork()) >= 0);
	if (pid == 0) {
		GIVES(sizeof(written), read(ends[0], &written, sizeof(written)));
		OK(stat("one", &after));
		GIVES(nanoseconds(&written), nanoseconds(&after.st_mtim));
		holds("three", "Three");
		_exit(0);
	}
	/* Nearer times count as equal. */
	OK(fstat(one, &before));
	do
		OK(clock_gettime(CLOCK_REALTIME, &now));
	while (nanoseconds(&now) - nanoseconds(&before.st_mtim) < 20000000);
	GIVES(1, write(one, "x", 1));
	OK(fstat(one, &after));
	CHECK(nanoseconds(&after.st_mtim) > nanoseconds(&before.st_mtim));
	CHECK((three = open("three", O_RDWR)) >= 0);
	mapped = mmap(NULL, 5, PROT_READ | PROT_WRITE, MAP_SHARED, three, 0);
	CHECK(mapped != MAP_FAILED);
	mapped[0] = 'T';
	store(two);
	GIVES(sizeof(written), write(ends[1], &after.st_mtim, sizeof(written)));
	child_succeeds(pid);
}

static void
by_file_system(int fd)
{
	OK(syncfs(fd));
}

static void
synced(void)
{
	synced_by(by_file_system);
}

static void
altogether(int fd)
{
	(void)fd;
	sync();
}

static void
synced_altogether(void)
{
	synced_by(altogether);
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(modes), TEST(owners), TEST(times), TEST(permitted), TEST(permitted_by_a_group),
		TEST(extended_stat), TEST(older_names), TEST(extended_attributes),
		TEST(named_by_descriptor), TEST(refused), TEST(open_flags), TEST(synced),
		TEST(synced_altogether),
	};

	return RUN(argc, argv, tests);
}
