/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes random calls with random paths in two directories side by side, and compares all results: in
 * /plain, the reference, and in the directory of Esker. Each has a directory outside of it, /out-0 and
 * /out-1, to which paths and links lead.
 *
 * usage: calls DIR [SEED [ROUNDS]]     DIR has as many letters as /plain
 *
 * A round is a sequence of STEPS calls in a new directory, made by one process for each side. The seed and
 * the number of a call determine its random choices, so `calls DIR SEED 1` repeats a failure. A failing
 * sequence is shortened before it is printed. In the output, `~` is the side's directory and `^` the one
 * outside.
 *
 * Links and `..` lead anywhere, so the program runs only where it can do no harm: see confined().
 */

#define _GNU_SOURCE
#include "posix.h"

#include <dirent.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#define STEPS        200
#define FILES        6
#define FIRST        20
#define DATA_MAX     (96 * 1024)
#define CONTENT_MAX  (1 << 20)
#define TEXT_MAX     1024
#define NAMES_MAX    512
#define SECONDS_MAX  60
#define GENERATIONS_MAX 3
/* Later times are the current time, earlier ones were set. */
#define LONG_AGO     1600000000

/**
 * Intended differences of Esker. To compare the other results, they are left out of the output, or calls
 * that depend on them are not made. docs/semantics.md lists all of them.
 */
enum known {
	HARD_LINKS,
	ATIME,
	BLOCKS,
	DIRECTORY_NUMBERS,
	REMOVED_DIRECTORIES,
	MOVED_DIRECTORIES,
	LINKS_INTO_THE_MOUNT,
	OWNERS_DENIED,
	HOLES,
	COPIES_OUT,
	DIRECTORY_FLAG,
	LONG_REALPATH,
	LATE_TIMES,
	MAPPED_TIMES,
	PATHS_OF_REMOVED,
	ERRORS_IN_REMOVED,
	KNOWN
};

static const char *const known_names[KNOWN] = {
    [HARD_LINKS] = "hard links are refused",
    [ATIME] = "the time of last access is the modification time",
    [BLOCKS] = "blocks are computed from the size",
    [DIRECTORY_NUMBERS] = "link counts and sizes of directories are constants",
    [REMOVED_DIRECTORIES] = "attributes of a directory that was removed while it was open",
    [MOVED_DIRECTORIES] = "`..` of a directory that was moved while it was open, and what O_PATH opened and was moved",
    [LINKS_INTO_THE_MOUNT] = "links of the system that lead into the mount point are not followed",
    [OWNERS_DENIED] = "mode bits deny nothing to those who may open the pool",
    [HOLES] = "holes begin anywhere",
    [COPIES_OUT] = "copy_file_range copies between file systems",
    [LONG_REALPATH] = "realpath of more than PATH_MAX letters, which the C library resolves",
    [LATE_TIMES] = "other processes, children too, see the time of a write up to a second late",
    [MAPPED_TIMES] = "a change through a mapping sets the time, though not in memory",
    [PATHS_OF_REMOVED] = "attributes and content of a removed file that only O_PATH has open",
    [ERRORS_IN_REMOVED] = "which of several errors counts if an open directory was removed",
    [DIRECTORY_FLAG] = "O_DIRECTORY is among the flags of each directory",
};

/** The text of a call and its result, written by both sides. */
struct step {
	char call[TEXT_MAX];
	char result[TEXT_MAX];
};

struct side {
	struct step steps[STEPS + 1];
	uint64_t    left_out[KNOWN];
	uint64_t    calls;
};

/* Shared by this process and those of the sides. */
static struct side *sides;
static const char  *tops[2] = {"/plain"};

/* State of the process of one side. */
static struct side *own;
static struct step *now;
static const char  *top;
static char         base[64], out[16], out_top[8];
static int          files[FILES];
/* The directories that are open, the working directory last: where they are. */
static char         places[FILES + 1][PATH_MAX];
static uint8_t      data[CONTENT_MAX];
/* The working directory or an open one was removed. */
static int          is_lost;
/* True if a mapping was written. */
static int          is_mapped;
/* Depth of this process in the tree of children. */
static int          generation;

static void
append(char *text, const char *format, va_list arguments)
{
	size_t len = strlen(text);

	vsnprintf(text + len, TEXT_MAX - len, format, arguments);
}

/** Adds to the text of the call. */
static void
call(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	append(now->call, format, arguments);
	va_end(arguments);
}

/** Adds to the text of the result. */
static void
say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	append(now->result, format, arguments);
	va_end(arguments);
}

static void
leave_out(enum known what)
{
	own->left_out[what]++;
}

static int
result(long value)
{
	if (value < 0 && is_lost)
		leave_out(ERRORS_IN_REMOVED), say("failed");
	else if (value < 0)
		say("%s", strerrorname_np(errno));
	else
		say("ok");
	return value >= 0;
}

static void
count(long value)
{
	if (result(value))
		say(" %ld", value);
}

static int
is_below(const char *path, const char *top)
{
	size_t len = strlen(top);

	return !strncmp(path, top, len) && (!path[len] || path[len] == '/');
}

static void
say_hash(const uint8_t *bytes, long len)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (long at = 0; at < len; at++)
		hash = (hash ^ bytes[at]) * 0x100000001b3;
	say(" %016lx", hash);
}

static void
say_read(long len)
{
	count(len);
	if (len > 0)
		say_hash(data, len);
}

/** Prints a path with `~` and `^` for the directories of the side, and `@` for where they are. */
static void
say_path(const char *path)
{
	char short_path[240], *end = short_path;

	while (*path && end < short_path + 200) {
		int in_base = is_below(path, base), in_out = is_below(path, out), in_top = is_below(path, top);

		if (in_base || in_out || in_top) {
			*end++ = in_base ? '~' : in_out ? '^' : '@';
			path += strlen(in_base ? base : in_out ? out : top);
		} else {
			*end++ = *path++;
		}
	}
	*end = 0;
	say(" %s%s", short_path, *path ? "..." : "");
}

/* Random choices for a call. */

static uint64_t drawn;

static long
upto(long limit)
{
	return (long)below(&drawn, limit);
}

static int
one_in(long n)
{
	return upto(n) == 0;
}

#define PICK(array) ((array)[upto(sizeof(array) / sizeof((array)[0]))])

/** A name out of few, so that calls use the same names. */
static void
name(char *path)
{
	static const char *const names[] = {"a", "b", "a", "b", "a", "b", "c", "d", "link", "x y", "\xc3\xa9\xff"};
	size_t len = strlen(path);

	if (one_in(100)) {
		memset(path + len, 'n', 256);
		path[len + (one_in(2) ? 255 : 256)] = 0;
	} else {
		strcpy(path + len, PICK(names));
	}
}

static const char *
start(void)
{
	switch (upto(24)) {
	case 0: return "~/";
	case 1: return "^/";
	case 2: return "../";
	case 3: return "./";
	case 4: return "../../../../..~/";
	case 5: return "..^/";
	case 6: return "/.";
	case 7: return "//../.~/";
	default: return "";
	}
}

/** A path with `~` and `^`. */
static void
draw_path(char *path)
{
	static const char *const between[] = {"/", "/", "/", "/", "/", "//", "/./", "/../"};
	static const char *const end[] = {"/", "/.", "/..", "//", "/../a"};
	int depth = 1 + upto(3) * upto(2);

	strcpy(path, start());
	if (one_in(150)) {
		*path = 0;
		return;
	}
	if (one_in(200))
		for (int times = 0; times < 1020; times++)
			strcat(path, "a/../");
	for (int at = 0; at < depth; at++) {
		if (at)
			strcat(path, PICK(between));
		name(path);
	}
	if (one_in(10))
		strcat(path, PICK(end));
}

/** Puts the directories of the side in place of `~` and `^`. */
static void
expand(const char *from, char *to)
{
	for (; *from; from++)
		if (*from == '~' || *from == '^')
			to = stpcpy(to, *from == '~' ? base : out);
		else
			*to++ = *from;
	*to = 0;
}

/** Adds a path to the text of the call, short. */
static void
call_path(const char *path)
{
	size_t len = strlen(path);

	call(len < 100 ? "\"%s\"" : "\"%.60s...\" of %zu", path, len);
}

/** A path for a call. Four are valid at a time. */
static const char *
path(void)
{
	static char paths[4][8192];
	static int  turn;
	char        drawn_path[8000], *full = paths[turn++ % 4];

	draw_path(drawn_path);
	call_path(drawn_path);
	expand(drawn_path, full);
	return full;
}

/** An open file, by its number among those of the side. */
static int
slot(void)
{
	int at = upto(FILES);

	call("f%d", at);
	return at;
}

static int
file(void)
{
	return files[slot()];
}

/** The working directory, or an open file. */
static int
directory(void)
{
	if (!one_in(4))
		return AT_FDCWD;
	int fd = file();

	call(", ");
	return fd;
}

/** Paths of open directories, so that none is moved while it is open. */

/** The path without links of the directory that a path is in, and its last name; false if there is none. */
static int
locate(int at, const char *path, char *found)
{
	char  folder[8400], *slash;
	const char *last = path;

	if (strlen(path) >= PATH_MAX || !*path)
		return 0;
	if (*path == '/' || at == AT_FDCWD) {
		snprintf(folder, sizeof(folder), "%s%s", *path == '/' ? "" : "./", path);
	} else {
		int number = 0;

		while (number < FILES && files[number] != at)
			number++;
		if (number == FILES || !*places[number])
			return 0;
		snprintf(folder, sizeof(folder), "%s/%s", places[number], path);
	}
	for (slash = folder + strlen(folder); slash > folder && slash[-1] == '/'; slash--)
		slash[-1] = 0;
	slash = strrchr(folder, '/');
	last = slash ? slash + 1 : "";
	if (!slash || !*last || !strcmp(last, ".") || !strcmp(last, ".."))
		return realpath(folder, found) != NULL;
	*slash = 0;
	if (!realpath(*folder ? folder : "/", found) || strlen(found) + strlen(last) + 2 > PATH_MAX)
		return 0;
	strcat(strcat(found, "/"), last);
	return 1;
}

static int
is_in_use(int at, const char *path)
{
	char found[PATH_MAX];

	if (!locate(at, path, found))
		return 0;
	for (int number = 0; number <= FILES; number++)
		if (*places[number] && is_below(places[number], found))
			return 1;
	return 0;
}

static int
is_outside(int at, const char *path)
{
	char found[PATH_MAX];

	return locate(at, path, found) && !is_below(found, base);
}

/** Records the path of an open directory, or of a file opened with O_PATH. */
static void
note_place(int number)
{
	struct stat st;
	char        link[64];
	long        len;

	*places[number] = 0;
	if (number == FILES) {
		if (!getcwd(places[number], PATH_MAX))
			*places[number] = 0;
		return;
	}
	if (files[number] < 0 || fstat(files[number], &st) || !st.st_nlink)
		return;
	if (!S_ISDIR(st.st_mode) && !(fcntl(files[number], F_GETFL) & O_PATH))
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", files[number]);
	len = readlink(link, places[number], PATH_MAX - 1);
	places[number][len < 0 ? 0 : len] = 0;
}

static void
set_file(int number, int fd)
{
	if (files[number] >= 0)
		close(files[number]);
	files[number] = fd;
	note_place(number);
}

/* Calls. */

static mode_t
mode(void)
{
	/* The owner may do everything. */
	mode_t bits = 0700 | upto(0100) | (one_in(8) ? 01000 : 0);

	leave_out(OWNERS_DENIED);
	call(", 0%o", bits);
	return bits;
}

static const struct {
	int         flag;
	const char *name;
} open_flags[] = {
    {O_CREAT, "O_CREAT"},         {O_CREAT, "O_CREAT"},   {O_EXCL, "O_EXCL"},         {O_TRUNC, "O_TRUNC"},
    {O_APPEND, "O_APPEND"},       {O_CLOEXEC, "O_CLOEXEC"}, {O_DIRECTORY, "O_DIRECTORY"}, {O_NOFOLLOW, "O_NOFOLLOW"},
    {O_PATH, "O_PATH"},           {O_NONBLOCK, "O_NONBLOCK"},
};

static int
draw_flags(void)
{
	static const int         access[] = {O_RDONLY, O_RDWR, O_WRONLY, O_RDWR};
	static const char *const access_names[] = {"O_RDONLY", "O_WRONLY", "O_RDWR"};
	int                      flags = PICK(access), more = upto(4);

	call(", %s", access_names[flags]);
	if (one_in(3))
		call("|O_CREAT"), flags |= O_CREAT;
	for (; more; more--) {
		size_t at = upto(sizeof(open_flags) / sizeof(*open_flags));

		/* The effect of O_CREAT with O_DIRECTORY depends on the version of Linux. */
		if (((flags | open_flags[at].flag) & (O_CREAT | O_DIRECTORY)) == (O_CREAT | O_DIRECTORY))
			continue;
		flags |= open_flags[at].flag;
		call("|%s", open_flags[at].name);
	}
	return flags;
}

static void
do_open(void)
{
	int at = directory();
	const char *where = path();
	int flags = draw_flags(), fd = openat(at, where, flags, mode());

	call(" -> ");
	int number = slot();

	if (result(fd))
		set_file(number, fd);
}

static void
do_creat(void)
{
	const char *where = path();
	int         fd = creat(where, mode());

	call(" -> ");
	int number = slot();

	if (result(fd))
		set_file(number, fd);
}

static void
do_close(void)
{
	int number = slot();

	result(close(files[number]));
	files[number] = -1;
	*places[number] = 0;
}

static void
do_dup(void)
{
	int fd = file(), how = upto(3);

	call(" -> ");
	int number = slot(), copy;

	if (how == 2 && files[number] >= 0 && files[number] != fd) {
		call(" dup2");
		result(dup2(fd, files[number]));
		note_place(number);
		return;
	}
	copy = how ? dup(fd) : fcntl(fd, F_DUPFD_CLOEXEC, 50);
	if (result(copy))
		set_file(number, copy);
}

static long
len(void)
{
	static const long likely[] = {0, 1, 7, 512, 4095, 4096, 4097, 65536, 70000};
	long              drawn_len = one_in(2) ? PICK(likely) : upto(5000);

	call(", %ld", drawn_len);
	return drawn_len;
}

static off_t
offset(void)
{
	/* Avoids the end of the largest file: writes there end early in some cases, and fail in others. */
	static const off_t rare[] = {-1, -4096, (off_t)1 << 40};
	off_t              drawn_offset = one_in(40) ? PICK(rare) : one_in(4) ? upto(200000) : upto(9000);

	call(", @%ld", (long)drawn_offset);
	return drawn_offset;
}

static void
do_read(void)
{
	int fd = file();

	say_read(read(fd, data, len()));
}

static void
do_pread(void)
{
	int  fd = file();
	long wanted = len();

	say_read(pread(fd, data, wanted, offset()));
}

static void
do_readv(void)
{
	int          fd = file();
	size_t       first = len(), second = len();
	struct iovec parts[] = {{data, first}, {data + first, second}};

	say_read(readv(fd, parts, 2));
}

static long
draw_bytes(void)
{
	long wanted = len();

	fill(data, wanted, drawn);
	return wanted;
}

static void
do_write(void)
{
	int  fd = file();
	long wanted = draw_bytes();

	count(write(fd, data, wanted));
}

static void
do_pwrite(void)
{
	int   fd = file();
	long  wanted = draw_bytes();
	off_t at = offset();

	/* The reference holds every page that is written. */
	count(pwrite(fd, data, wanted, at));
}

static void
do_writev(void)
{
	int          fd = file();
	long         wanted = draw_bytes();
	struct iovec parts[] = {{data, wanted / 3}, {data + wanted / 3, wanted - wanted / 3}};

	count(writev(fd, parts, 2));
}

static void
do_lseek(void)
{
	static const int         whences[] = {SEEK_SET, SEEK_CUR, SEEK_END, 17};
	static const char *const names[] = {"SEEK_SET", "SEEK_CUR", "SEEK_END"};
	int                      fd = file(), whence = PICK(whences);
	off_t                    at = offset();
	struct stat              st;

	call(", %s", whence > 2 ? "17" : names[whence]);
	/* Positions in directories have a meaning of their own in each file system. */
	if (!fstat(fd, &st) && S_ISDIR(st.st_mode))
		leave_out(DIRECTORY_NUMBERS);
	else
		count(lseek(fd, at, whence));
}

/** Checks that no data is in a hole. The file system may choose where holes begin. */
static void
do_seek_data(void)
{
	int         fd = file();
	off_t       from = upto(100000), before = lseek(fd, 0, SEEK_CUR), found;
	struct stat st;

	call(", %ld, SEEK_DATA", (long)from);
	leave_out(HOLES);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || before < 0)
		return;
	found = lseek(fd, from, SEEK_DATA);
	if (found < 0)
		found = st.st_size;
	for (; from < found && from < CONTENT_MAX; from += DATA_MAX) {
		long want = found - from < DATA_MAX ? found - from : DATA_MAX, got = pread(fd, data, want, from);

		for (long byte = 0; byte < got; byte++)
			if (data[byte]) {
				say("data in a hole");
				return;
			}
	}
	lseek(fd, before, SEEK_SET);
	say("ok");
}

static void
do_ftruncate(void)
{
	int fd = file();

	result(ftruncate(fd, offset()));
}

static void
do_truncate(void)
{
	const char *where = path();

	result(truncate(where, offset()));
}

static void
do_fallocate(void)
{
	static const int modes[] = {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE};
	int              fd = file(), how = PICK(modes);
	off_t            at = upto(100000) - one_in(20) * 200000, wanted = upto(100000) - one_in(20);

	call(", %d, @%ld, %ld", how, (long)at, (long)wanted);
	result(fallocate(fd, how, at, wanted));
}

static void
do_rename(void)
{
	static const int   flags[] = {0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
	int                from_at = directory();
	const char        *from = path();
	int                to_at = (call(" -> "), directory());
	const char        *to = path();
	int                how = PICK(flags);

	call(", %d", how);
	if (is_in_use(from_at, from) || is_in_use(to_at, to)) {
		leave_out(MOVED_DIRECTORIES);
		return;
	}
	result(how ? renameat2(from_at, from, to_at, to, how) : renameat(from_at, from, to_at, to));
}

static void
do_symlink(void)
{
	char        drawn_target[8000], target[8192];
	int         at;
	const char *where;

	draw_path(drawn_target);
	expand(drawn_target, target);
	call_path(drawn_target);
	call(" <- ");
	at = directory();
	where = path();
	if (is_outside(at, where))
		leave_out(LINKS_INTO_THE_MOUNT);
	else
		result(symlinkat(target, at, where));
}

static void
do_readlink(void)
{
	static char target[8192];
	int         at = directory();
	const char *where = path();
	long        wanted = one_in(10) ? 3 : (long)sizeof(target) - 1, got;

	call(", %ld", wanted);
	got = readlinkat(at, where, target, wanted);
	count(got);
	if (got < 0)
		return;
	target[got] = 0;
	if (wanted > 3)
		say_path(target);
}

static void
do_unlink(void)
{
	int at = directory();

	result(unlinkat(at, path(), 0));
}

static void
do_rmdir(void)
{
	int at = directory();

	result(unlinkat(at, path(), AT_REMOVEDIR));
}

static void
do_mkdir(void)
{
	int         at = directory();
	const char *where = path();

	result(mkdirat(at, where, mode()));
}

static void
do_remove(void)
{
	result(remove(path()));
}

static void
do_chdir(void)
{
	if (result(chdir(path())))
		note_place(FILES);
}

static void
do_fchdir(void)
{
	if (result(fchdir(file())))
		note_place(FILES);
}

static void
do_home(void)
{
	char home[128];

	expand("~", home);
	if (result(chdir(home)))
		note_place(FILES);
}

static void
do_getcwd(void)
{
	char where[8192];

	if (result(getcwd(where, sizeof(where)) ? 0 : -1))
		say_path(where);
}

static void
do_realpath(void)
{
	char        where[PATH_MAX];
	const char *given = path();

	if (strlen(given) >= PATH_MAX)
		leave_out(LONG_REALPATH);
	else if (result(realpath(given, where) ? 0 : -1))
		say_path(where);
}

/** Prints the attributes of a file that must be the same on both sides, unless the directory was removed. */
static void
say_stat(const struct stat *st, int is_path)
{
	char kind = S_ISDIR(st->st_mode) ? 'd' : S_ISLNK(st->st_mode) ? 'l' : S_ISREG(st->st_mode) ? 'f' : '?';

	leave_out(ATIME);
	leave_out(BLOCKS);
	if (kind == 'd') {
		leave_out(DIRECTORY_NUMBERS);
		if (!st->st_nlink) {
			leave_out(REMOVED_DIRECTORIES);
			return;
		}
	}
	if (!st->st_nlink && is_path) {
		leave_out(PATHS_OF_REMOVED);
		return;
	}
	say(" %c %o %s", kind, (unsigned)st->st_mode & 07777, st->st_uid == geteuid() ? "own" : "other");
	if (kind != 'd')
		say(" %ld bytes %ld links", (long)st->st_size, (long)st->st_nlink);
	if (generation)
		leave_out(LATE_TIMES);
	else if (is_mapped)
		leave_out(MAPPED_TIMES);
	else if (st->st_mtim.tv_sec < LONG_AGO)
		say(" %ld.%09ld", (long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

static void
do_stat(void)
{
	static const int flags[] = {0, AT_SYMLINK_NOFOLLOW, 0, AT_EMPTY_PATH, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW};
	struct stat      st;
	int              at = directory();
	const char      *where = path();
	int              how = PICK(flags);

	call(", %x", how);
	if (result(fstatat(at, where, &st, how)))
		say_stat(&st, at >= 0 && fcntl(at, F_GETFL) & O_PATH);
}

static void
do_statx(void)
{
	static const int flags[] = {0, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, AT_NO_AUTOMOUNT};
	struct statx     st;
	int              at = directory();
	const char      *where = path();
	int              how = PICK(flags);

	call(", %x", how);
	if (!result(statx(at, where, how, STATX_BASIC_STATS, &st)))
		return;
	say(" %o", st.stx_mode);
	if (!S_ISDIR(st.stx_mode))
		say(" %ld", (long)st.stx_size);
}

static void
do_fstat(void)
{
	struct stat st;
	int         fd = file();

	if (result(fstat(fd, &st)))
		say_stat(&st, fcntl(fd, F_GETFL) & O_PATH);
}

static void
do_access(void)
{
	static const int wanted[] = {F_OK, R_OK, W_OK, X_OK, R_OK | W_OK};
	static const int flags[] = {0, 0, AT_EACCESS, AT_SYMLINK_NOFOLLOW};
	int              at = directory();
	const char      *where = path();
	int              mode = PICK(wanted), how = PICK(flags);

	call(", %d, %x", mode, how);
	result(faccessat(at, where, mode, how));
}

static void
do_chmod(void)
{
	int         at = directory();
	const char *where = path();

	result(fchmodat(at, where, mode(), 0));
}

/** True for a directory that has no name any more. */
static int
is_removed(int fd)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISDIR(st.st_mode) || st.st_nlink)
		return 0;
	leave_out(REMOVED_DIRECTORIES);
	return 1;
}

static void
do_fchmod(void)
{
	int    fd = file();
	mode_t bits = mode();

	if (!is_removed(fd))
		result(fchmod(fd, bits));
}

static const struct timespec *
times(void)
{
	static struct timespec time[2];
	static const long      special[] = {UTIME_NOW, UTIME_OMIT, 0, 999999999, 1000000000};

	for (int at = 0; at < 2; at++) {
		time[at].tv_sec = upto(LONG_AGO);
		time[at].tv_nsec = one_in(2) ? PICK(special) : upto(1000000000);
		call(", %ld.%ld", (long)time[at].tv_sec, time[at].tv_nsec);
	}
	return time;
}

static void
do_utimens(void)
{
	int         at = directory();
	const char *where = path();
	int         how = one_in(3) ? AT_SYMLINK_NOFOLLOW : 0;

	call(", %x", how);
	result(utimensat(at, where, times(), how));
}

static void
do_futimens(void)
{
	int                    fd = file();
	const struct timespec *time = times();

	if (!is_removed(fd))
		result(futimens(fd, time));
}

static int
compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/** Reads the names in a directory, sorted; returns how many there are. */
static int
read_names(DIR *stream, char **names)
{
	struct dirent *entry;
	int            found = 0;

	while (found < NAMES_MAX && (entry = readdir(stream)))
		CHECK(asprintf(&names[found++], "%.20s:%d", entry->d_name, entry->d_type == DT_UNKNOWN ? 0 : entry->d_type) > 0);
	qsort(names, found, sizeof(*names), compare);
	return found;
}

static void
say_names(DIR *stream)
{
	char *names[NAMES_MAX];
	int   found = read_names(stream, names);

	for (int at = 0; at < found; at++) {
		say(" %s", names[at]);
		free(names[at]);
	}
}

static void
do_list(void)
{
	char        real[PATH_MAX];
	const char *where = path();
	DIR        *stream = opendir(where);

	if (!result(stream ? 0 : -1))
		return;
	/* The root contains both sides and the machine's files. */
	if (realpath(where, real) && strcmp(real, "/"))
		say_names(stream);
	closedir(stream);
}

static void
do_mmap(void)
{
	int         fd = file(), is_shared = one_in(2), is_written = one_in(2), prot = PROT_READ | (is_written ? PROT_WRITE : 0);
	long        page = sysconf(_SC_PAGESIZE), at = upto(4) * page, wanted = 1 + upto(3 * page);
	struct stat st;
	uint8_t    *mapped;

	call(", %s, %s, @%ld, %ld", is_shared ? "MAP_SHARED" : "MAP_PRIVATE", is_written ? "PROT_WRITE" : "PROT_READ", at, wanted);
	mapped = mmap(NULL, wanted, prot, is_shared ? MAP_SHARED : MAP_PRIVATE, fd, at);
	if (!result(mapped == MAP_FAILED ? -1 : 0))
		return;
	if (!fstat(fd, &st) && st.st_size > at) {
		long there = st.st_size - at < wanted ? st.st_size - at : wanted;

		say_hash(mapped, there);
		if (is_written) {
			is_mapped = 1;
			fill(mapped, there, drawn);
		}
		if (is_written && is_shared && one_in(2))
			CHECK(!msync(mapped, wanted, MS_SYNC));
	}
	CHECK(!munmap(mapped, wanted));
}

static void
do_copy(void)
{
	int   from = file();
	off_t at = upto(9000), to_at = upto(20000);

	call(" -> ");
	int         to = file();
	long        wanted = len();
	struct stat st, to_st;

	if (!fstat(from, &st) && !fstat(to, &to_st) && st.st_dev != to_st.st_dev)
		leave_out(COPIES_OUT);
	else if (one_in(2)) {
		call(", @%ld -> @%ld", (long)at, (long)to_at);
		count(copy_file_range(from, &at, to, &to_at, wanted, 0));
	} else {
		count(copy_file_range(from, NULL, to, NULL, wanted, 0));
	}
}

static void
do_status_flags(void)
{
	int fd = file(), flags = fcntl(fd, F_GETFL);

	if (!result(flags))
		return;
	leave_out(DIRECTORY_FLAG);
	say(" %x", flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_PATH));
	if (one_in(3)) {
		call(" ^ O_APPEND");
		say(", ");
		result(fcntl(fd, F_SETFL, flags ^ O_APPEND));
	}
}

static void
do_stream(void)
{
	static const char *const modes[] = {"r", "w", "a", "r+", "w+x", "a+"};
	const char              *where = path(), *how = PICK(modes);
	FILE                    *stream = fopen(where, how);

	call(", %s", how);
	if (!result(stream ? 0 : -1))
		return;
	if (one_in(2))
		say(" %d", fprintf(stream, "%s", how));
	else
		say_read((long)fread(data, 1, 5000, stream));
	say(" %d", fclose(stream));
}

static void
do_umask(void)
{
	mode_t bits = upto(0100);

	call("0%o", bits);
	umask(bits);
}

static void
do_sync(void)
{
	int fd = file();

	result(one_in(2) ? fsync(fd) : fdatasync(fd));
}

/** Lets a child make the remaining calls. */
static void
do_fork(void)
{
	int   status;
	pid_t child;

	/* Each generation of processes maps the pool once more. */
	if (++generation > GENERATIONS_MAX)
		return;
	child = fork();

	CHECK(child >= 0);
	if (child) {
		CHECK(waitpid(child, &status, 0) == child);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	}
	alarm(SECONDS_MAX);
	say("ok");
}

static const struct {
	const char *name;
	int         weight;
	void (*perform)(void);
} operations[] = {
    {"open", 14, do_open},         {"creat", 3, do_creat},         {"mkdir", 10, do_mkdir},      {"symlink", 8, do_symlink},
    {"close", 2, do_close},        {"dup", 2, do_dup},
    {"read", 4, do_read},          {"pread", 3, do_pread},         {"readv", 1, do_readv},       {"write", 6, do_write},
    {"pwrite", 4, do_pwrite},      {"writev", 1, do_writev},       {"lseek", 3, do_lseek},       {"seek", 1, do_seek_data},
    {"ftruncate", 3, do_ftruncate}, {"truncate", 2, do_truncate},  {"fallocate", 3, do_fallocate}, {"rename", 9, do_rename},
    {"readlink", 3, do_readlink},   {"unlink", 5, do_unlink},     {"rmdir", 4, do_rmdir},
    {"remove", 1, do_remove},       {"chdir", 4, do_chdir},       {"fchdir", 2, do_fchdir},
    {"home", 2, do_home},          {"getcwd", 3, do_getcwd},       {"realpath", 4, do_realpath}, {"stat", 6, do_stat},
    {"statx", 2, do_statx},        {"fstat", 4, do_fstat},         {"access", 3, do_access},     {"chmod", 3, do_chmod},
    {"fchmod", 2, do_fchmod},      {"utimens", 3, do_utimens},     {"futimens", 2, do_futimens}, {"list", 5, do_list},
    {"mmap", 4, do_mmap},          {"copy", 2, do_copy},           {"flags", 2, do_status_flags}, {"stream", 3, do_stream},
    {"umask", 1, do_umask},        {"sync", 1, do_sync},           {"fork", 1, do_fork},
};

/* Weight of the operations that create files: the first four. */
static const int makers = 35;

#define OPERATIONS (sizeof(operations) / sizeof(*operations))

/** True if the working directory or an open one was removed. */
static int
has_lost_directory(void)
{
	struct stat st;

	if (stat(".", &st) || !st.st_nlink)
		return 1;
	for (int number = 0; number < FILES; number++)
		if (files[number] >= 0 && !fstat(files[number], &st) && S_ISDIR(st.st_mode) && !st.st_nlink)
			return 1;
	return 0;
}

/** Makes the call of this number. */
static void
perform(uint64_t seed, int number)
{
	int total = 0, at = 0;

	for (size_t each = 0; each < OPERATIONS; each++)
		total += operations[each].weight;
	drawn = seed * 0x2545f4914f6cdd1d + number;
	draw(&drawn);
	/* The first calls create files. */
	for (total = upto(number < FIRST ? makers : total); total >= operations[at].weight; at++)
		total -= operations[at].weight;
	own->calls++;
	is_lost = has_lost_directory();
	call("%s(", operations[at].name);
	operations[at].perform();
	call(")");
}

/* The tree that is left at the end. */

/** A sum over everything in a directory; removes it. */
static uint64_t
sweep(const char *where)
{
	char        inner[PATH_MAX * 2];
	struct stat st;
	uint64_t    sum = 0;
	DIR        *stream = opendir(where);

	if (!stream)
		FAIL("listing %s", where);
	for (struct dirent *entry; (entry = readdir(stream));) {
		uint64_t one = 1;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		snprintf(inner, sizeof(inner), "%s/%s", where, entry->d_name);
		if (lstat(inner, &st))
			FAIL("looking at %s", inner);
		for (const char *letter = entry->d_name; *letter; letter++)
			one = one * 31 + (uint8_t)*letter;
		one = one * 31 + st.st_mode;
		if (S_ISREG(st.st_mode)) {
			int  fd = open(inner, O_RDONLY);
			long got = pread(fd, data, CONTENT_MAX, 0);

			one = one * 31 + st.st_size;
			for (long byte = 0; byte < got; byte++)
				one = one * 31 + data[byte];
			close(fd);
		}
		if (S_ISDIR(st.st_mode))
			one = one * 31 + sweep(inner);
		if (remove(inner))
			FAIL("removing %s", inner);
		sum += one * one;
	}
	closedir(stream);
	return sum;
}

static void
say_rest(void)
{
	call("everything that is left");
	if (chdir("/"))
		FAIL("leaving");
	for (int number = 0; number < FILES; number++)
		if (files[number] >= 0)
			close(files[number]);
	say("%016lx", sweep(top));
	say(" %016lx", sweep(out_top));
}

/* Rounds. */

/** Makes the selected calls in new directories, in a process of its own. */
static pid_t
start_side(int which, uint64_t seed, const uint8_t *wanted)
{
	pid_t child;

	own = &sides[which];
	top = tops[which];
	memset(own->steps, 0, sizeof(own->steps));
	snprintf(base, sizeof(base), "%s/work", top);
	snprintf(out_top, sizeof(out_top), "/out-%d", which);
	snprintf(out, sizeof(out), "%s/work", out_top);
	child = fork();
	CHECK(child >= 0);
	if (child)
		return child;
	alarm(SECONDS_MAX);
	umask(0);
	now = &own->steps[STEPS];
	/* Removes files of a crashed process. */
	sweep(top);
	sweep(out_top);
	if (mkdir(base, 0755) || mkdir(out, 0755) || chdir(base))
		FAIL("making %s and %s", base, out);
	for (int number = 0; number < FILES; number++)
		files[number] = -1;
	note_place(FILES);
	for (int number = 0; number < STEPS; number++) {
		now = &own->steps[number];
		if (wanted[number])
			perform(seed, number);
	}
	now = &own->steps[STEPS];
	say_rest();
	_exit(0);
}

static void
finish_side(int which, pid_t child)
{
	int          status;
	struct step *last = &sides[which].steps[STEPS];

	CHECK(waitpid(child, &status, 0) == child);
	if (status)
		snprintf(last->result, TEXT_MAX, "ended with %s %d", WIFEXITED(status) ? "status" : "signal",
			 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static int
step_differs(int number)
{
	const struct step *left = &sides[0].steps[number], *right = &sides[1].steps[number];

	return strcmp(left->call, right->call) || strcmp(left->result, right->result);
}

/** Makes a sequence of calls on both sides; true if they differ. */
static int
differ(uint64_t seed, const uint8_t *wanted)
{
	for (int which = 0; which < 2; which++)
		finish_side(which, start_side(which, seed, wanted));
	for (int number = 0; number <= STEPS; number++)
		if (step_differs(number))
			return 1;
	return 0;
}

/** Removes calls, many at a time first, while the sides still differ. */
static void
shrink(uint64_t seed, uint8_t *wanted)
{
	uint8_t less[STEPS];

	for (int step = STEPS / 2; step; step /= 2)
		for (int at = 0; at < STEPS; at += step) {
			memcpy(less, wanted, STEPS);
			memset(less + at, 0, at + step < STEPS ? step : STEPS - at);
			if (memcmp(less, wanted, STEPS) && differ(seed, less))
				memcpy(wanted, less, STEPS);
		}
	differ(seed, wanted);
}

static void
report(uint64_t seed, const uint8_t *wanted)
{
	printf("`ESKER_SEED=%lu` and one round show it again:\n", seed);
	for (int number = 0; number <= STEPS; number++) {
		const struct step *left = &sides[0].steps[number], *right = &sides[1].steps[number];

		if (number < STEPS && !wanted[number])
			continue;
		printf("%4d %s\n         reference: %s\n", number, left->call, left->result);
		if (step_differs(number))
			printf("     %s\n         SUBJECT:   %s\n", strcmp(left->call, right->call) ? right->call : "", right->result);
	}
	fflush(stdout);
}

/**
 * Ends the program unless it is where tests/posix/confined.sh runs it: below a root directory of its own,
 * in memory, that no process can write to, under a limit of memory, and not as the machine's root.
 */
static void
confined(void)
{
	struct rlimit  memory;
	struct statfs  root;
	struct statvfs how;

	if (access("/confined", F_OK) || statfs("/", &root) || root.f_type != TMPFS_MAGIC || statvfs("/", &how) ||
	    !(how.f_flag & ST_RDONLY) || getrlimit(RLIMIT_AS, &memory) || memory.rlim_cur == RLIM_INFINITY || !access("/home", F_OK) ||
	    !access("/root", F_OK)) {
		fprintf(stderr, "calls: refused: it makes links and removes files anywhere, so it runs by tests/posix/confined.sh only\n");
		exit(2);
	}
}

int
main(int argc, char **argv)
{
	uint64_t    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, made = 0;
	long        rounds = argc > 3 ? strtol(argv[3], NULL, 10) : 20, round;

	confined();
	tops[1] = argc > 1 ? argv[1] : "";
	if (strlen(tops[1]) != strlen(tops[0]))
		FAIL("the directory must have six letters with its slash, as /plain, so that paths have the same lengths");
	sides = mmap(NULL, 2 * sizeof(*sides), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(sides != MAP_FAILED);
	printf("ESKER_SEED=%lu, %ld rounds\n", seed, rounds);
	fflush(stdout);
	for (round = 0; round < rounds; round++) {
		uint8_t wanted[STEPS];

		memset(wanted, 1, STEPS);
		if (differ(seed + round, wanted)) {
			shrink(seed + round, wanted);
			report(seed + round, wanted);
			return 1;
		}
	}
	made = sides[1].calls;
	printf("%lu calls on each side agree; left out:", made);
	for (int what = 0; what < KNOWN; what++)
		printf("%s %s (%lu times)", what ? "," : "", known_names[what], sides[1].left_out[what]);
	printf("\n");
	return 0;
}
