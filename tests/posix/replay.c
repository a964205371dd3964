/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Performs a sequence of file operations in a new directory and prints the result of each on a
 * line, so that two file systems can be compared by comparing text.
 *
 * usage: replay DIR [SEQUENCE]     creates and removes DIR; SEQUENCE defaults to standard input
 *
 * One operation per line, words separated by a space. F are numbers of open files, D of open
 * directories:
 *
 *   open F PATH FLAGS MODE           FLAGS r, w or rw, then any of +creat +excl +trunc +append +dir +nofollow
 *   close F | dup F F2 | fsync F | fdatasync F | fstat F | fchmod F MODE | futimens F TIME
 *   read F LEN | readv F LEN,LEN.. | pread F OFFSET LEN | preadv F OFFSET LEN,LEN..
 *   write F LEN SEED | writev F LENS SEED | pwrite F OFFSET LEN SEED | pwritev F OFFSET LENS SEED
 *   seek F set|cur|end|data|hole OFFSET | ftruncate F LEN | fallocate F alloc|keep|punch OFFSET LEN
 *   truncate PATH LEN | mkdir PATH MODE | rmdir PATH | unlink PATH | rename PATH PATH replace|noreplace|exchange
 *   symlink TARGET PATH | readlink PATH | stat PATH | lstat PATH | access PATH | chmod PATH MODE
 *   utimens PATH TIME follow|nofollow     TIME is SECONDS.NANOSECONDS, now, or omit
 *   setxattr PATH NAME LEN SEED any|create|replace | getxattr PATH NAME LEN | listxattr PATH | removexattr PATH NAME
 *   opendir D PATH | list D COUNT | closedir D | statfs PATH | tree
 *
 * Opening a file or directory replaces the one that is open under the same number; if it fails,
 * nothing changes. PATH is relative to a directory eight levels below DIR, so that `..` stays
 * inside. %XX in it is a byte, a single % is the empty path, ~ at its start is that directory's
 * absolute path, and @D: at its start resolves it relative to an open directory.
 *
 * A result is `ok` with details, or `errno` and its number. Results that file systems may choose
 * freely are not printed: sizes and link counts of directories, order of names, times not set by
 * the sequence.
 */

#define _GNU_SOURCE
#include "posix.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#define SLOTS    8
#define WORDS    6
#define VECTORS  8
#define DEPTH    8
#define DATA_MAX (1 << 20)
#define NAMES_MAX 4096
#define NAMES_SORTED_MAX 256
/* The sequence has set all earlier times; later ones are the current time. */
#define LONG_AGO 1600000000

static int     files[SLOTS] = {-1, -1, -1, -1, -1, -1, -1, -1};
static DIR    *directories[SLOTS];
static char    top[PATH_MAX];
static char    base[PATH_MAX];
static uint8_t data[DATA_MAX];

static void
say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
}

/** Prints the result of a call that only succeeds or fails. */
static void
done(long result)
{
	if (result < 0)
		say("errno %d", errno);
	else
		say("ok");
}

static void
counted(long result)
{
	if (result < 0)
		say("errno %d", errno);
	else
		say("ok %ld", result);
}

/** Prints bytes as one word. */
static void
say_word(const char *bytes)
{
	for (; *bytes; bytes++)
		if (*bytes > ' ' && *bytes < 127 && !strchr("%,:|", *bytes))
			putchar(*bytes);
		else
			say("%%%02x", (uint8_t)*bytes);
}

static void
say_bytes(long len)
{
	uint64_t hash = 0xcbf29ce484222325;

	if (len < 0) {
		say("errno %d", errno);
		return;
	}
	for (long at = 0; at < len; at++)
		hash = (hash ^ data[at]) * 0x100000001b3;
	say("ok %ld %016lx", len, hash);
}

/** A path as the calls expect it, and the directory it is relative to. Four are valid at a time. */
static const char *
path_at(const char *word, int *at)
{
	static char    paths[4][PATH_MAX + 64];
	static int     turn;
	char          *path = paths[turn++ % 4], *end = path;

	*at = AT_FDCWD;
	if (word[0] == '@' && word[2] == ':') {
		DIR *directory = directories[(word[1] - '0') % SLOTS];

		*at = directory ? dirfd(directory) : -1;
		word += 3;
	}
	if (*word == '~') {
		end = stpcpy(path, base);
		word++;
	}
	for (; *word && end < path + PATH_MAX + 60; word++) {
		if (*word != '%') {
			*end++ = *word;
		} else if (word[1] && word[2]) {
			char digits[3] = {word[1], word[2], 0};

			*end++ = (char)strtol(digits, NULL, 16);
			word += 2;
		}
	}
	*end = 0;
	return path;
}

static const char *
path_of(const char *word)
{
	int at;

	return path_at(word, &at);
}

static int *
file(const char *word)
{
	return &files[(word[0] - '0') % SLOTS];
}

static DIR **
directory(const char *word)
{
	return &directories[(word[0] - '0') % SLOTS];
}

static long
number(const char *word)
{
	return strtol(word, NULL, 10);
}

static mode_t
octal(const char *word)
{
	return strtol(word, NULL, 8);
}

static int
open_flags(const char *word)
{
	static const struct {
		const char *name;
		int         flag;
	} known[] = {{"+creat", O_CREAT},   {"+excl", O_EXCL},     {"+trunc", O_TRUNC},
		     {"+append", O_APPEND}, {"+dir", O_DIRECTORY}, {"+nofollow", O_NOFOLLOW}};
	int flags = !strncmp(word, "rw", 2) ? O_RDWR : *word == 'w' ? O_WRONLY : O_RDONLY;

	for (size_t at = 0; at < sizeof(known) / sizeof(*known); at++)
		if (strstr(word, known[at].name))
			flags |= known[at].flag;
	return flags;
}

static void
do_open(char **w)
{
	int         at;
	const char *path = path_at(w[1], &at);
	int        *slot = file(w[0]), fd = openat(at, path, open_flags(w[2]), octal(w[3]));

	done(fd);
	if (fd < 0)
		return;
	if (*slot >= 0)
		close(*slot);
	*slot = fd;
}

static void
do_close(char **w)
{
	int *slot = file(w[0]);

	done(close(*slot));
	*slot = -1;
}

static void
do_dup(char **w)
{
	int *to = file(w[1]), from = *file(w[0]);

	if (file(w[0]) == to) {
		done(from < 0 ? (errno = EBADF, -1) : 0);
		return;
	}
	from = dup(from);
	done(from);
	if (from < 0)
		return;
	if (*to >= 0)
		close(*to);
	*to = from;
}

static void
do_fsync(char **w)
{
	done(fsync(*file(w[0])));
}

static void
do_fdatasync(char **w)
{
	done(fdatasync(*file(w[0])));
}

/** Vectors over `data` with the lengths in a word; returns their number. */
static int
vectors(const char *word, struct iovec *iov)
{
	size_t used = 0;
	int    count = 0;

	for (; word && count < VECTORS; count++) {
		iov[count].iov_base = data + used;
		iov[count].iov_len = number(word);
		used += iov[count].iov_len;
		word = strchr(word, ',');
		word = word ? word + 1 : NULL;
	}
	return count;
}

static void
do_read(char **w)
{
	say_bytes(read(*file(w[0]), data, number(w[1])));
}

static void
do_readv(char **w)
{
	struct iovec iov[VECTORS];
	int          count = vectors(w[1], iov);

	say_bytes(readv(*file(w[0]), iov, count));
}

static void
do_pread(char **w)
{
	say_bytes(pread(*file(w[0]), data, number(w[2]), number(w[1])));
}

static void
do_preadv(char **w)
{
	struct iovec iov[VECTORS];
	int          count = vectors(w[2], iov);

	say_bytes(preadv(*file(w[0]), iov, count, number(w[1])));
}

static void
do_write(char **w)
{
	fill(data, number(w[1]), number(w[2]));
	counted(write(*file(w[0]), data, number(w[1])));
}

static void
do_writev(char **w)
{
	struct iovec iov[VECTORS];
	int          count = vectors(w[1], iov);

	fill(data, sizeof(data), number(w[2]));
	counted(writev(*file(w[0]), iov, count));
}

static void
do_pwrite(char **w)
{
	fill(data, number(w[2]), number(w[3]));
	counted(pwrite(*file(w[0]), data, number(w[2]), number(w[1])));
}

static void
do_pwritev(char **w)
{
	struct iovec iov[VECTORS];
	int          count = vectors(w[2], iov);

	fill(data, sizeof(data), number(w[3]));
	counted(pwritev(*file(w[0]), iov, count, number(w[1])));
}

static int
is_zero(int fd, off_t from, off_t to)
{
	static uint8_t bytes[65536];

	for (; from < to; from += sizeof(bytes)) {
		size_t  want = to - from < (off_t)sizeof(bytes) ? to - from : (off_t)sizeof(bytes);
		ssize_t got = pread(fd, bytes, want, from);

		for (ssize_t at = 0; at < got; at++)
			if (bytes[at])
				return 0;
	}
	return 1;
}

/* Number of bytes to read at the start and at the end of a hole. */
#define LOOK (4 << 20)

/** The file system chooses where holes begin, but holes must not contain data. */
static void
say_hole(int fd, int whence, off_t offset)
{
	struct stat st;
	off_t       found = lseek(fd, offset, whence), end = found;

	if (fstat(fd, &st) || offset < 0 || offset >= st.st_size || (found < 0 && errno != ENXIO)) {
		done(found);
		return;
	}
	if (found < 0) {
		end = st.st_size;
		if (whence == SEEK_HOLE) {
			say("errno %d", ENXIO);
			return;
		}
	} else if (whence == SEEK_HOLE) {
		offset = found;
		end = lseek(fd, found, SEEK_DATA);
		if (end < 0)
			end = st.st_size;
	}
	if (end - offset > LOOK)
		say(is_zero(fd, offset, offset + LOOK) && is_zero(fd, end - LOOK, end) ? "ok" : "data in a hole");
	else
		say(is_zero(fd, offset, end) ? "ok" : "data in a hole");
	lseek(fd, 0, SEEK_SET);
}

static void
do_seek(char **w)
{
	struct stat st;
	int         fd = *file(w[0]);

	if (!fstat(fd, &st) && S_ISDIR(st.st_mode))
		say("ok");
	else if (w[1][0] == 'd')
		say_hole(fd, SEEK_DATA, number(w[2]));
	else if (w[1][0] == 'h')
		say_hole(fd, SEEK_HOLE, number(w[2]));
	else
		counted(lseek(fd, number(w[2]),
			      w[1][0] == 's' ? SEEK_SET : w[1][0] == 'c' ? SEEK_CUR : SEEK_END));
}

static void
do_ftruncate(char **w)
{
	done(ftruncate(*file(w[0]), number(w[1])));
}

static void
do_fallocate(char **w)
{
	int mode = w[1][0] == 'a' ? 0 : FALLOC_FL_KEEP_SIZE;

	if (w[1][0] == 'p')
		mode |= FALLOC_FL_PUNCH_HOLE;
	done(fallocate(*file(w[0]), mode, number(w[2]), number(w[3])));
}

static void
do_truncate(char **w)
{
	done(truncate(path_of(w[0]), number(w[1])));
}

static void
say_stat(const struct stat *st)
{
	char kind = S_ISDIR(st->st_mode) ? 'd' : S_ISLNK(st->st_mode) ? 'l' : S_ISREG(st->st_mode) ? 'f' : '?';

	if (kind == 'l')
		say(" l %ld", (long)st->st_nlink);
	else if (kind == 'd')
		say(" d %o", (unsigned)st->st_mode & 07777);
	else
		say(" %c %o %ld %ld", kind, (unsigned)st->st_mode & 07777, (long)st->st_size,
		    (long)st->st_nlink);
	if (st->st_mtim.tv_sec < LONG_AGO)
		say(" %ld.%09ld", (long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	else
		say(" now");
}

static void
stat_result(int result, const struct stat *st)
{
	done(result);
	if (!result)
		say_stat(st);
}

/** Attributes of a removed directory are unspecified, so they are not used. */
static int
is_removed_directory(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISDIR(st.st_mode) && st.st_nlink == 0;
}

static void
do_fstat(char **w)
{
	struct stat st;

	if (is_removed_directory(*file(w[0]))) {
		say("ok");
		return;
	}
	stat_result(fstat(*file(w[0]), &st), &st);
}

static void
do_stat(char **w)
{
	struct stat st;
	int         at;
	const char *path = path_at(w[0], &at);

	stat_result(fstatat(at, path, &st, 0), &st);
}

static void
do_lstat(char **w)
{
	struct stat st;
	int         at;
	const char *path = path_at(w[0], &at);

	stat_result(fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW), &st);
}

static void
do_access(char **w)
{
	done(access(path_of(w[0]), F_OK));
}

static void
do_chmod(char **w)
{
	int         at;
	const char *path = path_at(w[0], &at);

	done(fchmodat(at, path, octal(w[1]), 0));
}

static void
do_fchmod(char **w)
{
	done(is_removed_directory(*file(w[0])) ? 0 : fchmod(*file(w[0]), octal(w[1])));
}

/** Access and modification time from a word. */
static struct timespec *
times(const char *word)
{
	static struct timespec time[2];
	const char            *dot = strchr(word, '.');

	time[0].tv_sec = number(word);
	time[0].tv_nsec = dot ? number(dot + 1) : word[0] == 'n' ? UTIME_NOW : UTIME_OMIT;
	time[1] = time[0];
	return time;
}

static void
do_utimens(char **w)
{
	int         at;
	const char *path = path_at(w[0], &at);

	done(utimensat(at, path, times(w[1]), w[2][0] == 'n' ? AT_SYMLINK_NOFOLLOW : 0));
}

static void
do_futimens(char **w)
{
	done(is_removed_directory(*file(w[0])) ? 0 : futimens(*file(w[0]), times(w[1])));
}

static void
do_mkdir(char **w)
{
	int         at;
	const char *path = path_at(w[0], &at);

	done(mkdirat(at, path, octal(w[1])));
}

static void
do_rmdir(char **w)
{
	int         at;
	const char *path = path_at(w[0], &at);

	done(unlinkat(at, path, AT_REMOVEDIR));
}

static void
do_unlink(char **w)
{
	int         at;
	const char *path = path_at(w[0], &at);

	done(unlinkat(at, path, 0));
}

static void
do_rename(char **w)
{
	int         from_at, to_at;
	const char *from = path_at(w[0], &from_at), *to = path_at(w[1], &to_at);
	int         how = w[2][0] == 'e' ? RENAME_EXCHANGE : w[2][0] == 'n' ? RENAME_NOREPLACE : 0;

	if (how)
		done(renameat2(from_at, from, to_at, to, how));
	else
		done(renameat(from_at, from, to_at, to));
}

static void
do_symlink(char **w)
{
	int         at;
	const char *target = path_of(w[0]), *path = path_at(w[1], &at);

	done(symlinkat(target, at, path));
}

/** Prints the target of a link, with the directory of the sequence as `~`. */
static void
say_target(const char *target)
{
	size_t len = strlen(base);

	if (!strncmp(target, base, len)) {
		say("~");
		target += len;
	}
	say_word(target);
}

static void
do_readlink(char **w)
{
	char        target[PATH_MAX];
	int         at;
	const char *path = path_at(w[0], &at);
	ssize_t     len = readlinkat(at, path, target, sizeof(target) - 1);

	done(len);
	if (len < 0)
		return;
	target[len] = 0;
	say(" ");
	say_target(target);
}

static void
do_setxattr(char **w)
{
	int how = w[4][0] == 'c' ? XATTR_CREATE : w[4][0] == 'r' ? XATTR_REPLACE : 0;

	fill(data, number(w[2]), number(w[3]));
	done(setxattr(path_of(w[0]), w[1], data, number(w[2]), how));
}

static void
do_getxattr(char **w)
{
	long len = number(w[2]), got = getxattr(path_of(w[0]), w[1], data, len);

	if (len)
		say_bytes(got);
	else
		counted(got);
}

static void
do_removexattr(char **w)
{
	done(removexattr(path_of(w[0]), w[1]));
}

static int
compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/** Sorts the names of user attributes, and returns their number. */
static int
sort_names(char *names, long len, char *sorted[NAMES_SORTED_MAX])
{
	int count = 0;

	for (char *name = names; name < names + len && count < NAMES_SORTED_MAX; name += strlen(name) + 1)
		if (!strncmp(name, "user.", 5))
			sorted[count++] = name;
	qsort(sorted, count, sizeof(*sorted), compare);
	return count;
}

/** Prints the names of user attributes. */
static void
say_names(char *names, long len)
{
	char *sorted[NAMES_SORTED_MAX];
	int   count = sort_names(names, len, sorted);

	for (int at = 0; at < count; at++) {
		say(at ? "," : " ");
		say_word(sorted[at]);
	}
}

static void
do_listxattr(char **w)
{
	static char names[65536];
	long        len = listxattr(path_of(w[0]), names, sizeof(names));

	done(len);
	say_names(names, len);
}

static void
do_statfs(char **w)
{
	struct statfs fs;

	if (statfs(path_of(w[0]), &fs))
		say("errno %d", errno);
	else
		say(fs.f_bsize > 0 && fs.f_bfree <= fs.f_blocks && fs.f_blocks > 0 && fs.f_namelen == 255
			    ? "ok"
			    : "strange figures");
}

static void
do_opendir(char **w)
{
	int         at, fd;
	const char *path = path_at(w[1], &at);
	DIR       **slot = directory(w[0]);

	fd = openat(at, path, O_RDONLY | O_DIRECTORY);
	done(fd);
	if (fd < 0)
		return;
	if (*slot)
		closedir(*slot);
	*slot = fdopendir(fd);
	CHECK(*slot);
}

static void
do_closedir(char **w)
{
	DIR **slot = directory(w[0]);

	if (!*slot)
		errno = EBADF;
	done(*slot ? closedir(*slot) : -1);
	*slot = NULL;
}

/** An entry as `name:kind`; kind is `?` if the file system does not report it. */
static char *
entry_word(const struct dirent *entry)
{
	char *word;
	char  kind = entry->d_type == DT_DIR ? 'd' : entry->d_type == DT_LNK ? 'l' : entry->d_type == DT_REG ? 'f' : '?';

	CHECK(asprintf(&word, "%s:%c", entry->d_name, kind) > 0);
	return word;
}

/** Reads up to `limit` entries without `.` and `..`; returns their number. */
static int
read_some(DIR *stream, char **names, int limit)
{
	int            count = 0;
	struct dirent *entry;

	while (count < limit && (entry = readdir(stream)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			names[count++] = entry_word(entry);
	return count;
}

/** Prints names, sorted, and frees them. */
static void
say_sorted(char **names, int count)
{
	qsort(names, count, sizeof(*names), compare);
	for (int at = 0; at < count; at++) {
		char *kind = strrchr(names[at], ':');

		say(at ? "," : " ");
		*kind = 0;
		say_word(names[at]);
		say(":%c", kind[1]);
		free(names[at]);
	}
}

/** Lists a directory from its beginning; after some entries, lists the rest twice. */
static void
do_list(char **w)
{
	static char *names[NAMES_MAX], *again[NAMES_MAX];
	DIR         *stream = *directory(w[0]);
	int          first, rest, repeated;
	long         place;

	if (!stream) {
		say("errno %d", EBADF);
		return;
	}
	rewinddir(stream);
	first = read_some(stream, names, number(w[1]));
	place = telldir(stream);
	rest = read_some(stream, names + first, NAMES_MAX - first);
	seekdir(stream, place);
	repeated = read_some(stream, again, NAMES_MAX);
	say(repeated == rest ? "ok" : "told %d, then %d", rest, repeated);
	for (int at = 0; at < repeated; at++)
		free(again[at]);
	say_sorted(names, first + rest);
}

/** Prints a checksum of a file's data; holes and zeros are the same. */
static void
say_content(const char *path)
{
	uint64_t sum = 0;
	int      fd = open(path, O_RDONLY);
	off_t    at = lseek(fd, 0, SEEK_DATA);
	ssize_t  got;

	for (; at >= 0; at = lseek(fd, at, SEEK_DATA)) {
		off_t end = lseek(fd, at, SEEK_HOLE);

		for (; at < end; at += got) {
			size_t want = end - at < DATA_MAX ? end - at : DATA_MAX;

			got = pread(fd, data, want, at);
			if (got <= 0)
				FAIL("reading %s", path);
			for (ssize_t byte = 0; byte < got; byte++)
				sum += (uint64_t)(at + byte + 1) * 0x9e3779b97f4a7c15 * data[byte];
		}
	}
	if (fd < 0 || errno != ENXIO)
		say(" errno %d", errno);
	else
		say(" %016lx", sum);
	close(fd);
}

static void
say_attributes(const char *path)
{
	char  names[4096], *sorted[NAMES_SORTED_MAX];
	long  len = listxattr(path, names, sizeof(names));
	int   count = sort_names(names, len, sorted);

	say_names(names, len);
	for (int at = 0; at < count; at++) {
		say(" ");
		say_bytes(getxattr(path, sorted[at], data, DATA_MAX));
	}
}

static void say_tree(const char *path, size_t skip);

static void
say_entry(const char *path, size_t skip)
{
	struct stat st;
	char        target[PATH_MAX] = "";

	say(" | ");
	say_word(path + skip);
	if (lstat(path, &st)) {
		say(" errno %d", errno);
		return;
	}
	say_stat(&st);
	if (S_ISLNK(st.st_mode)) {
		if (readlink(path, target, sizeof(target) - 1) < 0)
			say(" errno %d", errno);
		say(" ");
		say_target(target);
		return;
	}
	if (S_ISREG(st.st_mode))
		say_content(path);
	say_attributes(path);
	if (S_ISDIR(st.st_mode))
		say_tree(path, skip);
}

/** Prints everything below a directory: names, kinds, modes, sizes, times, data, attributes. */
static void
say_tree(const char *path, size_t skip)
{
	char *names[NAMES_MAX];
	DIR  *stream = opendir(path);
	int   count = stream ? read_some(stream, names, NAMES_MAX) : 0;

	if (!stream || closedir(stream))
		say(" errno %d", errno);
	qsort(names, count, sizeof(*names), compare);
	for (int at = 0; at < count; at++) {
		char *inner;

		*strrchr(names[at], ':') = 0;
		CHECK(asprintf(&inner, "%s/%s", path, names[at]) > 0);
		say_entry(inner, skip);
		free(inner);
		free(names[at]);
	}
}

static void
do_tree(char **w)
{
	(void)w;
	say("ok");
	say_tree(top, strlen(top) + 1);
}

static const struct {
	const char *name;
	int         words;
	void (*perform)(char **);
} operations[] = {
    {"open", 4, do_open},
    {"close", 1, do_close},
    {"dup", 2, do_dup},
    {"fsync", 1, do_fsync},
    {"fdatasync", 1, do_fdatasync},
    {"read", 2, do_read},
    {"readv", 2, do_readv},
    {"pread", 3, do_pread},
    {"preadv", 3, do_preadv},
    {"write", 3, do_write},
    {"writev", 3, do_writev},
    {"pwrite", 4, do_pwrite},
    {"pwritev", 4, do_pwritev},
    {"seek", 3, do_seek},
    {"ftruncate", 2, do_ftruncate},
    {"fallocate", 4, do_fallocate},
    {"fstat", 1, do_fstat},
    {"fchmod", 2, do_fchmod},
    {"futimens", 2, do_futimens},
    {"truncate", 2, do_truncate},
    {"mkdir", 2, do_mkdir},
    {"rmdir", 1, do_rmdir},
    {"unlink", 1, do_unlink},
    {"rename", 3, do_rename},
    {"symlink", 2, do_symlink},
    {"readlink", 1, do_readlink},
    {"stat", 1, do_stat},
    {"lstat", 1, do_lstat},
    {"access", 1, do_access},
    {"chmod", 2, do_chmod},
    {"utimens", 3, do_utimens},
    {"setxattr", 5, do_setxattr},
    {"getxattr", 3, do_getxattr},
    {"listxattr", 1, do_listxattr},
    {"removexattr", 2, do_removexattr},
    {"opendir", 2, do_opendir},
    {"list", 2, do_list},
    {"closedir", 1, do_closedir},
    {"statfs", 1, do_statfs},
    {"tree", 0, do_tree},
};

static void
perform(char *line)
{
	char *words[WORDS + 1] = {0}, *word;
	int   count = 0;

	for (word = strtok(line, " \n"); word && count <= WORDS; word = strtok(NULL, " \n"))
		words[count++] = word;
	for (size_t at = 0; count && at < sizeof(operations) / sizeof(*operations); at++)
		if (!strcmp(operations[at].name, words[0])) {
			if (operations[at].words != count - 1)
				break;
			operations[at].perform(words + 1);
			putchar('\n');
			fflush(stdout);
			return;
		}
	FAIL("unknown operation, or wrong arguments: %s", words[0]);
}

/** Creates the directory of the sequence with its parents, and changes to it. */
static void
enter(const char *directory)
{
	if (mkdir(directory, 0755))
		FAIL("making %s", directory);
	if (!realpath(directory, top))
		FAIL("naming %s", directory);
	strcpy(base, top);
	for (int depth = 0; depth < DEPTH; depth++) {
		strcat(base, "/w");
		if (mkdir(base, 0755))
			FAIL("making %s", base);
	}
	if (chdir(base))
		FAIL("changing to %s", base);
}

static void
leave(void)
{
	for (int slot = 0; slot < SLOTS; slot++) {
		if (files[slot] >= 0)
			close(files[slot]);
		if (directories[slot])
			closedir(directories[slot]);
	}
	if (chdir("/"))
		FAIL("leaving");
}

/** Removes a directory with its content. */
static void
clear(const char *path)
{
	struct stat st;
	char       *names[NAMES_MAX], *inner;
	DIR        *stream;
	int         count;

	if (lstat(path, &st))
		FAIL("looking at %s", path);
	if (!S_ISDIR(st.st_mode)) {
		if (unlink(path))
			FAIL("removing %s", path);
		return;
	}
	stream = opendir(path);
	if (!stream)
		FAIL("listing %s", path);
	count = read_some(stream, names, NAMES_MAX);
	closedir(stream);
	for (int at = 0; at < count; at++) {
		*strrchr(names[at], ':') = 0;
		CHECK(asprintf(&inner, "%s/%s", path, names[at]) > 0);
		clear(inner);
		free(inner);
		free(names[at]);
	}
	if (rmdir(path))
		FAIL("removing %s", path);
}

int
main(int argc, char **argv)
{
	static char line[3 * PATH_MAX];
	FILE       *sequence = argc > 2 ? fopen(argv[2], "r") : stdin;

	if (argc < 2 || !sequence) {
		fprintf(stderr, "usage: replay DIR [SEQUENCE]\n");
		return 2;
	}
	umask(0);
	enter(argv[1]);
	while (fgets(line, sizeof(line), sequence))
		if (line[0] != '#' && line[0] != '\n')
			perform(line);
	leave();
	clear(top);
	return 0;
}
