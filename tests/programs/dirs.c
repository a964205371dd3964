/* SPDX-License-Identifier: Apache-2.0 */
/* Directories: opendir and fdopendir, positions, scandir, nftw, fts, glob. */
#include "check.h"

#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>

#define COUNT 2000

static void
files(int count)
{
	char name[32];

	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "file%05d", i);
		put(name, "");
	}
}

/* Each name once, with the required properties of its entry. */
static int
count_names(DIR *dir)
{
	static char    seen[COUNT];
	struct dirent *entry;
	int            count = 0, dots = 0, number;

	memset(seen, 0, sizeof(seen));
	errno = 0;
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.') {
			CHECK(entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
			dots++;
			continue;
		}
		GIVES(1, sscanf(entry->d_name, "file%05d", &number));
		CHECK(number < COUNT && !seen[number]);
		CHECK(entry->d_type == DT_REG && entry->d_ino != 0);
		seen[number] = 1;
		count++;
	}
	GIVES(0, errno);
	GIVES(2, dots);
	return count;
}

static void
all_names_once(void)
{
	DIR *dir;

	files(COUNT);
	CHECK((dir = opendir(".")) != NULL);
	GIVES(COUNT, count_names(dir));
	CHECK(readdir(dir) == NULL);
	rewinddir(dir);
	GIVES(COUNT, count_names(dir));
	put("file00000x", "");
	OK(unlink("file00000x"));
	OK(unlink("file00001"));
	rewinddir(dir);
	GIVES(COUNT - 1, count_names(dir));
	OK(closedir(dir));
	CHECK(opendir("none") == NULL && errno == ENOENT);
	CHECK(opendir("file00000") == NULL && errno == ENOTDIR);
}

static void
inodes_agree(void)
{
	DIR           *dir;
	struct dirent *entry;
	struct stat    info, same;

	files(20);
	OK(mkdir("sub", 0755));
	OK(symlink("file00001", "link"));
	CHECK((dir = opendir(".")) != NULL);
	while ((entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, "..") == 0)
			continue;
		OK(fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW));
		GIVES(info.st_ino, entry->d_ino);
		CHECK(entry->d_type == IFTODT(info.st_mode));
		OK(lstat(entry->d_name, &same));
		CHECK(same.st_ino == info.st_ino && same.st_dev == info.st_dev);
	}
	OK(fstat(dirfd(dir), &info));
	CHECK(S_ISDIR(info.st_mode));
	OK(closedir(dir));
}

static void
positions(void)
{
	char           names[100][32];
	long           places[100];
	DIR           *dir;
	struct dirent *entry;
	int            count = 0;

	files(90);
	CHECK((dir = opendir(".")) != NULL);
	for (;;) {
		places[count] = telldir(dir);
		if ((entry = readdir(dir)) == NULL)
			break;
		strcpy(names[count++], entry->d_name);
	}
	GIVES(92, count);
	for (int i = 0; i < 92; i++) {
		int at = (i * 37) % 92;

		seekdir(dir, places[at]);
		GIVES(places[at], telldir(dir));
		CHECK((entry = readdir(dir)) != NULL && strcmp(entry->d_name, names[at]) == 0);
	}
	seekdir(dir, places[91]);
	CHECK(readdir(dir) != NULL && readdir(dir) == NULL);
	OK(closedir(dir));
}

static void
from_descriptors(void)
{
	int         fd, child;
	DIR        *dir;
	struct stat info;

	OK(mkdir("sub", 0755));
	OK(chdir("sub"));
	files(10);
	OK(chdir(".."));
	fd = open("sub", O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0 && (dir = fdopendir(fd)) != NULL);
	GIVES(fd, dirfd(dir));
	GIVES(10, count_names(dir));
	OK(fstatat(fd, "file00003", &info, 0));
	CHECK((child = openat(fd, "file00003", O_RDWR)) >= 0);
	OK(unlinkat(fd, "file00003", 0));
	rewinddir(dir);
	GIVES(9, count_names(dir));
	OK(closedir(dir));
	FAILS(EBADF, fstat(fd, &info));
	CHECK(fdopendir(child) == NULL && errno == ENOTDIR);
	FAILS(EISDIR, open("sub", O_WRONLY));
	FAILS(ENOTDIR, open("sub/file00001", O_RDONLY | O_DIRECTORY));
	fd = open("sub", O_RDONLY);
	char byte;
	FAILS(EISDIR, read(fd, &byte, 1));
}

static int
numbered(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void
sorted(void)
{
	struct dirent **list;
	char            name[32];
	int             fd;

	files(50);
	GIVES(50, scandir(".", &list, numbered, alphasort));
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "file%05d", i);
		CHECK(strcmp(list[i]->d_name, name) == 0);
		free(list[i]);
	}
	free(list);
	fd = open("..", O_RDONLY);
	GIVES(50, scandirat(fd, "sorted", &list, numbered, versionsort));
	CHECK(strcmp(list[49]->d_name, "file00049") == 0);
}

static int visited, directories, links;

static int
visit(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
	visited++;
	directories += type == FTW_D || type == FTW_DP;
	links += type == FTW_SL;
	CHECK(strcmp(path + ftw->base, "deep") != 0 || ftw->level == 2);
	CHECK(S_ISDIR(info->st_mode) == (type == FTW_D || type == FTW_DP));
	return 0;
}

static int
remove_all(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
	(void)info, (void)type;
	return ftw->level == 0 ? 0 : remove(path);
}

static int
visit_plainly(const char *path, const struct stat *info, int type)
{
	(void)path, (void)info, (void)type;
	visited++;
	return 0;
}

static void
small_tree(void)
{
	OK(mkdir("a", 0755));
	OK(mkdir("a/deep", 0755));
	OK(mkdir("b", 0755));
	put("a/deep/file", "text");
	put("a/file", "text");
	OK(symlink("deep", "a/link"));
}

static int type_of_link;

static int
visit_link_plainly(const char *path, const struct stat *info, int type)
{
	(void)info;
	if (strcmp(path, "./none") == 0)
		type_of_link = type;
	return 0;
}

static int
visit_link(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
	(void)ftw;
	return visit_link_plainly(path, info, type);
}

/* ftw has no type of its own for a link that leads nowhere. */
static void
walked_over_a_link_without_a_target(void)
{
	OK(symlink("missing", "none"));
	OK(nftw(".", visit_link, 10, 0));
	GIVES(FTW_SLN, type_of_link);
	OK(ftw(".", visit_link_plainly, 10));
	GIVES(FTW_NS, type_of_link);
}

static void
walked(void)
{
	small_tree();
	OK(nftw(".", visit, 10, FTW_PHYS));
	CHECK(visited == 7 && directories == 4 && links == 1);
	visited = 0;
	OK(nftw(".", visit, 10, FTW_PHYS | FTW_DEPTH | FTW_CHDIR));
	GIVES(7, visited);
	visited = 0;
	OK(ftw(".", visit_plainly, 10));
	CHECK(visited >= 6);
	OK(nftw(".", remove_all, 10, FTW_PHYS | FTW_DEPTH));
	visited = 0;
	OK(nftw(".", visit, 10, FTW_PHYS));
	GIVES(1, visited);
}

/* Actions that a walk returns for the entries named `answered_for`. */
static const char *answered_for;
static int         answer;

static int
act(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
	(void)info, (void)type;
	visited++;
	return strcmp(path + ftw->base, answered_for) == 0 ? answer : FTW_CONTINUE;
}

static int
visited_if(const char *name, int action, int flags)
{
	answered_for = name;
	answer = action;
	visited = 0;
	OK(nftw("tree", act, 10, FTW_PHYS | FTW_ACTIONRETVAL | flags));
	return visited;
}

static void
walked_by_actions(void)
{
	OK(mkdir("tree", 0755));
	OK(chdir("tree"));
	small_tree();
	OK(chdir(".."));
	GIVES(7, visited_if("file", FTW_SKIP_SUBTREE, 0));
	GIVES(7, visited_if("deep", FTW_SKIP_SUBTREE, FTW_DEPTH));
	GIVES(6, visited_if("deep", FTW_SKIP_SUBTREE, 0));
	GIVES(1, visited_if("tree", FTW_SKIP_SUBTREE, 0));
	GIVES(1, visited_if("tree", FTW_SKIP_SIBLINGS, 0));
	GIVES(7, visited_if("tree", FTW_SKIP_SIBLINGS, FTW_DEPTH));
	answered_for = "tree";
	answer = FTW_STOP;
	GIVES(FTW_STOP, nftw("tree", act, 10, FTW_PHYS | FTW_ACTIONRETVAL));
}

/* Walks that follow links visit each directory once, whatever the number of paths to it. */
static void
walked_over_links(void)
{
	small_tree();
	OK(symlink(".", "loop"));
	for (int round = 0; round < 2; round++) {
		visited = directories = links = 0;
		OK(nftw(".", visit, 10, 0));
		CHECK(visited == 6 && directories == 4 && links == 0);
		visited = 0;
		OK(nftw("loop", visit, 10, FTW_DEPTH));
		GIVES(6, visited);
		visited = 0;
		OK(ftw(".", visit_plainly, 10));
		GIVES(6, visited);
		if (round == 0) {
			OK(symlink("..", "a/up"));
			OK(symlink("../b", "a/other"));
		}
	}
}

static void
walked_by_fts(void)
{
	char   *roots[] = {".", NULL};
	FTS    *fts;
	FTSENT *entry;
	int     count = 0;

	small_tree();
	CHECK((fts = fts_open(roots, FTS_PHYSICAL, NULL)) != NULL);
	while ((entry = fts_read(fts)) != NULL) {
		CHECK(entry->fts_info != FTS_ERR && entry->fts_info != FTS_NS);
		count += entry->fts_info != FTS_DP;
		if (entry->fts_info == FTS_F)
			GIVES(4, entry->fts_statp->st_size);
	}
	GIVES(7, count);
	OK(fts_close(fts));
}

static void
globbed(void)
{
	glob_t found;

	small_tree();
	put("a/.hidden", "");
	OK(glob("*/*", 0, NULL, &found));
	GIVES(3, found.gl_pathc);
	CHECK(strcmp(found.gl_pathv[0], "a/deep") == 0 && strcmp(found.gl_pathv[2], "a/link") == 0);
	globfree(&found);
	OK(glob("a/[!l]*", GLOB_MARK, NULL, &found));
	CHECK(found.gl_pathc == 2 && strcmp(found.gl_pathv[0], "a/deep/") == 0);
	globfree(&found);
	OK(glob("a/link/f?le", 0, NULL, &found));
	globfree(&found);
	GIVES(GLOB_NOMATCH, glob("x*", 0, NULL, &found));
}

/* The pattern does not begin with the directory. */
static void
globbed_by_braces_and_tilde(void)
{
	char   here[2048], pattern[4200];
	glob_t found;

	small_tree();
	CHECK(getcwd(here, sizeof(here)) != NULL);
	OK(chdir(outside));
	snprintf(pattern, sizeof(pattern), "{%s/a,%s/none}/f*", here, here);
	OK(glob(pattern, GLOB_BRACE, NULL, &found));
	GIVES(1, found.gl_pathc);
	globfree(&found);
	OK(setenv("HOME", here, 1));
	OK(glob("~/a/*", GLOB_TILDE, NULL, &found));
	GIVES(3, found.gl_pathc);
	globfree(&found);
	OK(glob("/bin/s[h]", 0, NULL, &found));
	globfree(&found);
}

static void
removed_while_read(void)
{
	DIR           *dir;
	struct dirent *entry;
	int            count = 0;

	files(500);
	CHECK((dir = opendir(".")) != NULL);
	while ((entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			count += unlink(entry->d_name) == 0;
	GIVES(500, count);
	OK(closedir(dir));
	OK(chdir(".."));
	OK(rmdir("removed_while_read"));
}

/* Reads some entries by their numbers, and removes them. Returns how many. */
static int
remove_some(int fd, size_t room)
{
	char               entries[4096];
	struct dirent64   *entry;
	long               length = getdents64(fd, entries, room);
	int                count = 0;

	CHECK(length >= 0);
	for (long at = 0; at < length; at += entry->d_reclen) {
		entry = (struct dirent64 *)(entries + at);
		if (entry->d_name[0] != '.') {
			OK(unlinkat(fd, entry->d_name, 0));
			count++;
		}
	}
	return length == 0 ? -1 : count;
}

/* Removals do not make a listing skip other entries, also if another directory is listed in between. */
static void
listed_beside_others_while_removed(void)
{
	int fd, other, count = 0, removed;

	OK(mkdir("a", 0755));
	OK(mkdir("b", 0755));
	OK(chdir("a"));
	files(500);
	OK(chdir(".."));
	CHECK((fd = open("a", O_RDONLY | O_DIRECTORY)) >= 0);
	CHECK((other = open("b", O_RDONLY | O_DIRECTORY)) >= 0);
	while ((removed = remove_some(fd, 1024)) >= 0) {
		count += removed;
		GIVES(0, remove_some(other, 1024));
		GIVES(0, lseek(other, 0, SEEK_SET));
	}
	GIVES(500, count);
}

/* A position stays before the same entry, whatever is removed before it. */
static void
positions_after_removals(void)
{
	static char    names[COUNT + 2][16];
	long           place = 0;
	DIR           *dir;
	struct dirent *entry;
	int            count = 0;

	files(COUNT);
	CHECK((dir = opendir(".")) != NULL);
	for (; (entry = readdir(dir)) != NULL; count++) {
		strcpy(names[count], entry->d_name);
		if (count == 699)
			place = telldir(dir);
	}
	GIVES(COUNT + 2, count);
	for (int i = 0; i < 500; i++)
		if (names[i][0] != '.')
			OK(unlink(names[i]));
	seekdir(dir, place);
	for (int i = 700; i < count; i++)
		CHECK((entry = readdir(dir)) != NULL && strcmp(entry->d_name, names[i]) == 0);
	CHECK(readdir(dir) == NULL);
	OK(closedir(dir));
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(all_names_once), TEST(inodes_agree), TEST(positions), TEST(from_descriptors),
		TEST(sorted), TEST(walked), TEST(walked_by_actions), TEST(walked_over_links),
		TEST(walked_over_a_link_without_a_target), TEST(walked_by_fts), TEST(globbed), TEST(globbed_by_braces_and_tilde),
		TEST(removed_while_read), TEST(listed_beside_others_while_removed), TEST(positions_after_removals),
	};

	return RUN(argc, argv, tests);
}
