/* SPDX-License-Identifier: Apache-2.0 */
/* Names: all forms of rename, links, relative paths and working directories, errors. */
#include "check.h"

#include <limits.h>
#include <sys/ipc.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <wordexp.h>

static void
renamed_files(void)
{
	int         fd;
	struct stat info;
	char        back[3];

	put("old", "old");
	put("new", "new");
	fd = open("old", O_RDONLY);
	OK(rename("new", "old"));
	holds("old", "new");
	FAILS(ENOENT, access("new", F_OK));
	GIVES(3, read(fd, back, 3));
	CHECK(memcmp(back, "old", 3) == 0);
	OK(fstat(fd, &info));
	GIVES(0, info.st_nlink);
	OK(close(fd));
	fd = open("old", O_RDWR);
	OK(rename("old", "moved"));
	GIVES(3, pwrite(fd, "xyz", 3, 3));
	holds("moved", "newxyz");
	OK(rename("moved", "moved"));
	holds("moved", "newxyz");
	FAILS(ENOENT, rename("none", "other"));
	FAILS(ENOENT, rename("moved", "no/dir"));
	OK(mkdir("dir", 0755));
	FAILS(EISDIR, rename("moved", "dir"));
	FAILS(ENOTDIR, rename("dir", "moved"));
	FAILS(ENOTDIR, rename("moved/x", "y"));
	OK(rename("moved", "dir/moved"));
	OK(renameat(AT_FDCWD, "dir/moved", open("dir", O_RDONLY), "again"));
	holds("dir/again", "newxyz");
}

static void
renamed_directories(void)
{
	int fd;

	OK(mkdir("a", 0755));
	OK(mkdir("a/b", 0755));
	put("a/b/file", "text");
	fd = open("a/b/file", O_RDONLY);
	OK(rename("a", "z"));
	holds("z/b/file", "text");
	FAILS(ENOENT, access("a", F_OK));
	OK(mkdir("empty", 0755));
	OK(rename("z", "empty"));
	holds("empty/b/file", "text");
	OK(mkdir("full", 0755));
	put("full/file", "");
	errno = 0;
	GIVES(-1, rename("empty", "full"));
	CHECK(errno == ENOTEMPTY || errno == EEXIST);
	FAILS(EINVAL, rename("empty", "empty/b/inside"));
	OK(rename("empty/b", "full/b"));
	holds("full/b/file", "text");
	OK(chdir("full/b"));
	OK(rename("../../full", "../../other"));
	holds("file", "text");
	holds("../../other/b/file", "text");
	OK(close(fd));
}

static void
rename_flags(void)
{
	put("one", "one");
	put("two", "two");
	FAILS(EEXIST, renameat2(AT_FDCWD, "one", AT_FDCWD, "two", RENAME_NOREPLACE));
	OK(renameat2(AT_FDCWD, "one", AT_FDCWD, "three", RENAME_NOREPLACE));
	OK(renameat2(AT_FDCWD, "three", AT_FDCWD, "two", RENAME_EXCHANGE));
	holds("three", "two");
	holds("two", "one");
	OK(mkdir("dir", 0755));
	put("dir/in", "in");
	OK(renameat2(AT_FDCWD, "dir", AT_FDCWD, "two", RENAME_EXCHANGE));
	holds("two/in", "in");
	holds("dir", "one");
	FAILS(ENOENT, renameat2(AT_FDCWD, "dir", AT_FDCWD, "none", RENAME_EXCHANGE));
	FAILS(EINVAL, renameat2(AT_FDCWD, "dir", AT_FDCWD, "two", RENAME_EXCHANGE | RENAME_NOREPLACE));
}

static void
symbolic_links(void)
{
	char        target[64];
	struct stat info;

	put("file", "text");
	OK(symlink("file", "link"));
	OK(symlink("link", "again"));
	OK(symlink("gone", "dangling"));
	holds("again", "text");
	GIVES(4, readlink("link", target, sizeof(target)));
	CHECK(memcmp(target, "file", 4) == 0);
	GIVES(2, readlinkat(AT_FDCWD, "link", target, 2));
	FAILS(EINVAL, readlink("file", target, sizeof(target)));
	OK(lstat("link", &info));
	CHECK(S_ISLNK(info.st_mode) && info.st_size == 4);
	OK(stat("link", &info));
	CHECK(S_ISREG(info.st_mode));
	FAILS(ENOENT, stat("dangling", &info));
	FAILS(ELOOP, open("link", O_RDONLY | O_NOFOLLOW));
	FAILS(EEXIST, open("dangling", O_WRONLY | O_CREAT | O_EXCL, 0644));
	CHECK(open("dangling", O_WRONLY | O_CREAT, 0644) >= 0);
	OK(access("gone", F_OK));
	OK(symlink("loop2", "loop1"));
	OK(symlink("loop1", "loop2"));
	FAILS(ELOOP, stat("loop1", &info));
	OK(rename("again", "moved"));
	OK(lstat("moved", &info));
	CHECK(S_ISLNK(info.st_mode));
	OK(mkdir("dir", 0755));
	OK(symlink("dir", "to-dir"));
	put("to-dir/in", "in");
	holds("dir/in", "in");
	FAILS(ENOTDIR, rmdir("to-dir"));
	OK(unlink("to-dir"));
	FAILS(EEXIST, symlink("x", "file"));
	holds("dir/in", "in");
}

static void
hard_links(void)
{
	struct stat one, two;

	put("one", "text");
	if (link("one", "two") != 0) {
		CHECK(errno == EPERM || errno == ENOTSUP || errno == ENOSYS);
		FAILS(ENOENT, access("two", F_OK));
		return;
	}
	OK(stat("one", &one));
	OK(stat("two", &two));
	CHECK(one.st_ino == two.st_ino && one.st_nlink == 2);
	FAILS(EEXIST, link("one", "two"));
	OK(rename("one", "two"));
	OK(unlink("one"));
	holds("two", "text");
	OK(stat("two", &two));
	GIVES(1, two.st_nlink);
}

static void
working_directories(void)
{
	char here[PATH_MAX], there[PATH_MAX], real[PATH_MAX];
	int  fd;

	CHECK(getcwd(here, sizeof(here)) != NULL);
	OK(mkdir("a", 0755));
	OK(mkdir("a/b", 0755));
	OK(symlink("a/b", "link"));
	put("a/b/file", "text");
	OK(chdir("link"));
	CHECK(getcwd(there, sizeof(there)) != NULL);
	snprintf(real, sizeof(real), "%.4000s/a/b", here);
	CHECK(strcmp(there, real) == 0);
	holds("file", "text");
	holds("../b/./file", "text");
	holds("../../link/file", "text");
	CHECK(realpath("../../link/file", there) != NULL);
	strcat(real, "/file");
	CHECK(strcmp(there, real) == 0);
	holds(real, "text");
	CHECK(realpath("none", there) == NULL && errno == ENOENT);
	fd = open("..", O_RDONLY | O_DIRECTORY);
	OK(fchdir(fd));
	holds("b/file", "text");
	OK(chdir("/"));
	OK(fchdir(fd));
	holds("b/file", "text");
	OK(chdir(".."));
	CHECK(getcwd(NULL, 0) != NULL && getcwd(there, 2) == NULL && errno == ERANGE);
	char *name = get_current_dir_name();
	CHECK(name != NULL && strcmp(name, here) == 0);
	FAILS(ENOENT, chdir("none"));
	FAILS(ENOTDIR, chdir("a/b/file"));
	OK(chdir("a"));
	OK(mkdir("gone", 0755));
	OK(chdir("gone"));
	OK(rmdir("../gone"));
	FAILS(ENOENT, open("file", O_WRONLY | O_CREAT, 0644));
	OK(chdir(here));
	char *copy = canonicalize_file_name("a/../a/b");
	CHECK(copy != NULL && strcmp(copy + strlen(here), "/a/b") == 0);
}

static void
relative_to_descriptors(void)
{
	int         dir, fd;
	struct stat info;

	OK(mkdir("d", 0755));
	dir = open("d", O_RDONLY | O_DIRECTORY);
	OK(mkdirat(dir, "sub", 0755));
	CHECK((fd = openat(dir, "sub/file", O_RDWR | O_CREAT, 0600)) >= 0);
	GIVES(4, write(fd, "text", 4));
	OK(symlinkat("sub/file", dir, "link"));
	OK(fstatat(dir, "link", &info, 0));
	GIVES(4, info.st_size);
	OK(fstatat(dir, "link", &info, AT_SYMLINK_NOFOLLOW));
	GIVES(8, info.st_size);
	OK(fstatat(fd, "", &info, AT_EMPTY_PATH));
	GIVES(4, info.st_size);
	OK(faccessat(dir, "sub/file", R_OK | W_OK, 0));
	FAILS(ENOENT, faccessat(dir, "none", F_OK, 0));
	FAILS(ENOTDIR, fstatat(fd, "x", &info, 0));
	OK(renameat(dir, "sub/file", dir, "moved"));
	OK(rename("d", "e"));
	OK(fstatat(dir, "moved", &info, 0));
	FAILS(ENOTEMPTY, unlinkat(AT_FDCWD, "e", AT_REMOVEDIR));
	OK(unlinkat(dir, "sub", AT_REMOVEDIR));
	OK(unlinkat(dir, "link", 0));
	OK(unlinkat(dir, "moved", 0));
	OK(unlinkat(AT_FDCWD, "e", AT_REMOVEDIR));
	FAILS(ENOENT, openat(dir, "x", O_WRONLY | O_CREAT, 0644));
	FAILS(EBADF, openat(999, "x", O_RDONLY));
	CHECK((fd = open(".", O_PATH | O_DIRECTORY)) >= 0);
	put("through", "path");
	CHECK(openat(fd, "through", O_RDONLY) >= 0);
}

static void
refused(void)
{
	char long_name[300], path[PATH_MAX + 10];
	int  fd;

	put("file", "x");
	OK(mkdir("dir", 0755));
	memset(long_name, 'n', 299);
	long_name[299] = '\0';
	FAILS(ENAMETOOLONG, open(long_name, O_WRONLY | O_CREAT, 0644));
	long_name[255] = '\0';
	CHECK((fd = open(long_name, O_WRONLY | O_CREAT, 0644)) >= 0);
	OK(unlink(long_name));
	memset(path, '/', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	FAILS(ENAMETOOLONG, access(path, F_OK));
	FAILS(ENOENT, open("", O_RDONLY));
	FAILS(ENOTDIR, open("file/", O_RDONLY));
	FAILS(ENOTDIR, open("file/below", O_RDONLY));
	FAILS(EISDIR, open("dir", O_RDWR));
	FAILS(EISDIR, open("new/", O_WRONLY | O_CREAT, 0644));
	FAILS(EEXIST, open("file", O_WRONLY | O_CREAT | O_EXCL, 0644));
	FAILS(EEXIST, mkdir("file", 0755));
	FAILS(ENOENT, mkdir("no/dir", 0755));
	FAILS(ENOTDIR, rmdir("file"));
	FAILS(EISDIR, unlink("dir"));
	FAILS(ENOENT, unlink("none"));
	put("dir/in", "");
	FAILS(ENOTEMPTY, rmdir("dir"));
	FAILS(EINVAL, rmdir("dir/."));
	FAILS(ENOENT, truncate("none", 0));
	FAILS(EISDIR, truncate("dir", 0));
	FAILS(EFAULT, access((const char *)1, F_OK));
	fd = open("file", O_RDONLY);
	FAILS(EBADF, write(fd, "x", 1));
	FAILS(EINVAL, lseek(fd, -1, SEEK_SET));
	FAILS(EINVAL, lseek(fd, 0, 99));
	FAILS(EINVAL, pread(fd, path, 1, -1));
	OK(close(fd));
	FAILS(EBADF, close(fd));
	fd = open("file", O_WRONLY);
	FAILS(EBADF, read(fd, path, 1));
	FAILS(EINVAL, ftruncate(fd, -1));
}

/** mknod makes regular files, for which tar uses it. */
static void
made_by_mknod(void)
{
	struct stat info;
	int         dir;

	umask(022);
	OK(mknod("typeless", 0666, 0));
	OK(mknod("regular", S_IFREG | 0660, 0));
	OK(stat("typeless", &info));
	CHECK(info.st_mode == (S_IFREG | 0644) && info.st_size == 0);
	OK(stat("regular", &info));
	GIVES(S_IFREG | 0640, info.st_mode);
	FAILS(EEXIST, mknod("regular", S_IFREG | 0600, 0));
	FAILS(EEXIST, mknod("regular", S_IFCHR | 0600, 0));
	FAILS(ENOENT, mknod("none/file", S_IFREG | 0600, 0));
	FAILS(ENOENT, mknod("file/", S_IFREG | 0600, 0));
	FAILS(EPERM, mknod("directory", S_IFDIR | 0700, 0));
	FAILS(EINVAL, mknod("link", S_IFLNK | 0700, 0));
	OK(mkdir("dir", 0755));
	CHECK((dir = open("dir", O_RDONLY)) >= 0);
	OK(mknodat(dir, "at", S_IFREG | 0600, 0));
	OK(syscall(SYS_mknodat, dir, "by number", S_IFREG | 0600, 0));
	OK(access("dir/at", W_OK) | access("dir/by number", W_OK));
	put("regular", "text");
	holds("regular", "text");
}

/** Programs make calls by their numbers that an older C library does not have. */
static void
calls_by_number(void)
{
	const struct timespec times[2] = {{1000, 5}, {2000, 6}};
	uint64_t              how[3] = {O_RDWR | O_CREAT, 0640, 0};
	struct stat           info;
	char                  target[8];
	int                   dir, fd;

	OK(mkdir("dir", 0755));
	CHECK((dir = open("dir", O_RDONLY)) >= 0);
	CHECK((fd = syscall(SYS_openat2, dir, "file", how, sizeof(how))) >= 0);
	GIVES(4, write(fd, "text", 4));
	OK(close(fd));
	holds("dir/file", "text");
	OK(symlinkat("file", dir, "link"));
	GIVES(4, syscall(SYS_readlinkat, dir, "link", target, sizeof(target)));
	CHECK(memcmp(target, "file", 4) == 0);
	OK(syscall(SYS_utimensat, dir, "link", times, 0));
	OK(syscall(SYS_fchmodat, dir, "file", 0604));
	OK(syscall(SYS_fchownat, dir, "file", getuid(), -1, 0));
	OK(stat("dir/file", &info));
	CHECK(info.st_mtim.tv_sec == 2000 && info.st_mtim.tv_nsec == 6);
	GIVES(S_IFREG | 0604, info.st_mode);
	how[2] = 8; /* RESOLVE_BENEATH: programs walk the path themselves if it is not offered */
	fd = syscall(SYS_openat2, dir, "file", how, sizeof(how));
	CHECK(fd >= 0 || errno == ENOSYS);
	FAILS(EINVAL, syscall(SYS_openat2, dir, "file", how, 8));
}

struct any_handle {
	struct file_handle handle;
	char               bytes[MAX_HANDLE_SZ];
};

/** A handle is refused, or opens the file (which only the superuser may do). */
static void
handle_of(int dir, const char *path, int flags)
{
	struct any_handle any = {.handle.handle_bytes = MAX_HANDLE_SZ};
	char              text[8] = "";
	int               mount, fd;

	if (name_to_handle_at(dir, path, &any.handle, &mount, flags) != 0) {
		GIVES(EOPNOTSUPP, errno);
		FAILS(EOPNOTSUPP, syscall(SYS_name_to_handle_at, dir, path, &any.handle, &mount, flags));
		return;
	}
	fd = open_by_handle_at(dir, &any.handle, O_RDONLY);
	if (fd < 0) {
		GIVES(EPERM, errno);
		return;
	}
	GIVES(4, read(fd, text, sizeof(text)));
	CHECK(strcmp(text, "text") == 0);
	OK(close(fd));
}

static void
handles(void)
{
	struct any_handle any = {.handle.handle_bytes = 8};
	char              path[64];
	int               fd, dir, mount;

	put("file", "text");
	CHECK((fd = open("file", O_RDONLY)) >= 0 && (dir = open(".", O_RDONLY)) >= 0);
	handle_of(dir, "file", 0);
	handle_of(AT_FDCWD, "file", 0);
	handle_of(fd, "", AT_EMPTY_PATH);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	handle_of(dir, path, AT_SYMLINK_FOLLOW);
	FAILS(ENOENT, name_to_handle_at(dir, "none", &any.handle, &mount, 0));
	any.handle.handle_type = 12345;
	CHECK(open_by_handle_at(fd, &any.handle, O_RDONLY) == -1 && (errno == ESTALE || errno == EPERM));
	CHECK(open_by_handle_at(AT_FDCWD, &any.handle, O_RDONLY) == -1 && (errno == ESTALE || errno == EPERM));
}

/** Keys and names that the C library derives from paths. */
static void
keys_and_temporary_names(void)
{
	struct stat info;
	char        here[4096], *name;

	put("file", "text");
	OK(stat("file", &info));
	GIVES((key_t)((info.st_ino & 0xffff) | (info.st_dev & 0xff) << 16 | 0x41 << 24), ftok("file", 0x141));
	FAILS(ENOENT, ftok("none", 1));
	OK(setenv("TMPDIR", "/none", 1));
	OK(mkdir("dir", 0755));
	CHECK(getcwd(here, sizeof(here)) != NULL);
	CHECK((name = tempnam("dir", "prefix")) != NULL);
	CHECK(strncmp(name, "dir/prefi", 9) == 0 && strlen(name) == 15);
	FAILS(ENOENT, access(name, F_OK));
	free(name);
	CHECK((name = tempnam("none", NULL)) != NULL && strncmp(name, "/tmp/", 5) == 0);
	free(name);
	OK(setenv("TMPDIR", here, 1));
	CHECK((name = tempnam("dir", NULL)) != NULL);
	CHECK(strncmp(name, here, strlen(here)) == 0 && strncmp(name + strlen(here), "/file", 5) == 0);
	put(name, "text");
	free(name);
	CHECK((name = tempnam("/none", "a")) != NULL && strncmp(name, here, strlen(here)) == 0);
	free(name);
}

/** Words joined by bars. */
static const char *
words_of(const char *text, int flags)
{
	static char     joined[8192];
	static wordexp_t words;

	joined[0] = 0;
	words.we_offs = 2;
	GIVES(0, wordexp(text, &words, flags));
	for (size_t i = 0; i < words.we_wordc; i++)
		strcat(strcat(joined, words.we_wordv[i + (flags & WRDE_DOOFFS ? 2 : 0)]), "|");
	return joined;
}

#define WORDS(expected, text) CHECK(strcmp(words_of(text, 0), expected) == 0)

static void
word_expansion(void)
{
	char      here[4096], text[8192], whole[16384];
	wordexp_t words = {0};

	put("one.a", ""), put("two.a", ""), put("a b.c", ""), put("star*.d", ""), put("starx.d", "");
	CHECK(getcwd(here, sizeof(here)) != NULL);
	WORDS("one.a|two.a|", "*.a");
	WORDS("one.a|x|two.a|", "o?e.a x [t]*.a");
	WORDS("*.a|*.a|*.a|", "'*.a' \"*.a\" \\*.a");
	WORDS("*.none|", "*.none");
	WORDS("a b.c|", "'a '*.c");
	WORDS("star*.d|starx.d|", "star*.d");
	WORDS("it's|one.a|", "\"it's\" one*");
	WORDS("3|one.a|two.a|", "$((1+2)) $(echo one.a) tw*");
	OK(setenv("PATTERN", "*.a", 1) | setenv("WHERE", here, 1) | setenv("SPACED", "x y", 1));
	WORDS("*.a|x|y|one.a|", "$PATTERN $SPACED one*");
	WORDS("x y|*.a|two.a|", "\"$SPACED\" '*.a' tw?.a");
	WORDS("one.a|*|", "$(echo one.a '*')");
	snprintf(whole, sizeof(whole), "%s/one.a|%s/two.a|", here, here);
	WORDS(whole, "$WHERE/*.a");
	WORDS(whole, "\"$WHERE\"/*.a");
	snprintf(text, sizeof(text), "%s/*.a", here);
	WORDS(whole, text);
	CHECK(strcmp(words_of("*.a", WRDE_DOOFFS), "one.a|two.a|") == 0);
	OK(wordexp("one*", &words, 0));
	OK(wordexp("two* x", &words, WRDE_APPEND));
	CHECK(words.we_wordc == 3 && strcmp(words.we_wordv[1], "two.a") == 0);
	wordfree(&words);
	GIVES(WRDE_BADCHAR, wordexp("; *.a", &words, 0));
	GIVES(WRDE_CMDSUB, wordexp("$(echo *.a)", &words, WRDE_NOCMD));
	GIVES(WRDE_SYNTAX, wordexp("'*.a", &words, 0));
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(renamed_files), TEST(renamed_directories), TEST(rename_flags), TEST(symbolic_links),
		TEST(hard_links), TEST(working_directories), TEST(relative_to_descriptors), TEST(refused),
		TEST(made_by_mknod), TEST(calls_by_number), TEST(handles), TEST(keys_and_temporary_names),
		TEST(word_expansion),
	};

	return RUN(argc, argv, tests);
}
