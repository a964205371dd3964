/* SPDX-License-Identifier: Apache-2.0 */
/* stdio: all ways to open a stream, to read, write and seek in it, and to get its descriptor. */
#include "check.h"

#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/uio.h>
#include <wchar.h>

static void
modes(void)
{
	FILE *file;
	char  line[64];

	CHECK((file = fopen("file", "w")) != NULL);
	CHECK(fputs("one\n", file) >= 0);
	GIVES(6, fprintf(file, "%s %d\n", "two", 2));
	OK(fclose(file));
	CHECK((file = fopen("file", "a+")) != NULL);
	CHECK(fgets(line, sizeof(line), file) != NULL && strcmp(line, "one\n") == 0);
	CHECK(fputs("end\n", file) >= 0);
	OK(fclose(file));
	holds("file", "one\ntwo 2\nend\n");
	CHECK((file = fopen("file", "r+")) != NULL);
	OK(fseek(file, 4, SEEK_SET));
	CHECK(fputs("TWO", file) >= 0);
	OK(fflush(file));
	OK(fseek(file, 0, SEEK_CUR));
	CHECK(fgets(line, sizeof(line), file) != NULL && strcmp(line, " 2\n") == 0);
	OK(fclose(file));
	holds("file", "one\nTWO 2\nend\n");
	CHECK(fopen("none", "r") == NULL && errno == ENOENT);
	CHECK(fopen("file", "wx") == NULL && errno == EEXIST);
	CHECK((file = fopen("file", "re")) != NULL);
	GIVES(FD_CLOEXEC, fcntl(fileno(file), F_GETFD));
	CHECK(fputc('x', file) == EOF && ferror(file));
	clearerr(file);
	CHECK(!ferror(file));
	OK(fclose(file));
	CHECK((file = fopen("file", "w+")) != NULL);
	GIVES(EOF, fgetc(file));
	CHECK(feof(file));
	OK(fclose(file));
	holds("file", "");
}

static void
blocks(void)
{
	static unsigned char data[100000], back[110000];
	FILE                *file = fopen64("file", "w+b");
	off_t                at;

	CHECK(file != NULL);
	fill(data, sizeof(data), 0, 1);
	GIVES(1000, fwrite(data, 100, 1000, file));
	GIVES(sizeof(data), ftell(file));
	rewind(file);
	GIVES(999, fread(back, 100, 999, file));
	GIVES(100, fread(back + 99900, 1, 5000, file));
	CHECK(feof(file) && memcmp(data, back, sizeof(data)) == 0);
	for (int i = 0; i < 50; i++) {
		at = (i * 7919) % 99000;
		OK(fseeko(file, at, SEEK_SET));
		GIVES(at, ftello(file));
		GIVES(20, fread(back, 1, 20, file));
		CHECK(is_pattern(back, 20, (size_t)at, 1));
	}
	OK(fseek(file, -10, SEEK_END));
	GIVES(10, fread(back, 1, 100, file));
	OK(fseek(file, 200000, SEEK_SET));
	GIVES('x', fputc('x', file));
	OK(fclose(file));
	file = fopen("file", "r");
	OK(fseek(file, 100000, SEEK_SET));
	GIVES(100000, fread(back, 1, 100000, file));
	CHECK(is_zero(back, 100000));
	GIVES('x', getc(file));
	OK(fclose(file));
}

static void
pushed_back_and_scanned(void)
{
	FILE  *file;
	int    number;
	char   word[16], *line = NULL;
	size_t room = 0;
	fpos_t place;

	put("file", "abc 42 word\nsecond line\nthird");
	CHECK((file = fopen("file", "r")) != NULL);
	GIVES('a', fgetc(file));
	GIVES('Z', ungetc('Z', file));
	GIVES('Z', fgetc(file));
	GIVES('a', ungetc('a', file));
	GIVES(2, fscanf(file, "abc%d %15s", &number, word));
	CHECK(number == 42 && strcmp(word, "word") == 0);
	GIVES('\n', fgetc(file));
	OK(fgetpos(file, &place));
	GIVES(12, getline(&line, &room, file));
	CHECK(strcmp(line, "second line\n") == 0);
	GIVES(5, getline(&line, &room, file));
	GIVES(-1, getline(&line, &room, file));
	OK(fsetpos(file, &place));
	GIVES(7, getdelim(&line, &room, ' ', file));
	OK(fclose(file));
	free(line);
}

static void
buffering(void)
{
	char  own[512];
	FILE *file = fopen("file", "w");

	CHECK(file != NULL);
	OK(setvbuf(file, NULL, _IONBF, 0));
	CHECK(fputs("now", file) >= 0);
	holds("file", "now");
	OK(fclose(file));
	CHECK((file = fopen("file", "w")) != NULL);
	OK(setvbuf(file, own, _IOLBF, sizeof(own)));
	CHECK(fputs("line\npart", file) >= 0);
	holds("file", "line\n");
	OK(fflush(NULL));
	holds("file", "line\npart");
	OK(fclose(file));
	CHECK((file = fopen("file", "w")) != NULL);
	OK(setvbuf(file, NULL, _IOFBF, 1 << 20));
	for (int i = 0; i < 100000; i++)
		CHECK(fputs("0123456789", file) >= 0);
	OK(fclose(file));
	CHECK((file = fopen("file", "r")) != NULL);
	OK(fseek(file, 999995, SEEK_SET));
	CHECK(fgets(own, sizeof(own), file) != NULL && strcmp(own, "56789") == 0);
	OK(fclose(file));
}

static void
reopened(void)
{
	FILE *file = fopen("one", "w");
	int   saved = dup(STDOUT_FILENO);

	CHECK(file != NULL && saved >= 0);
	CHECK(fputs("first", file) >= 0);
	CHECK((file = freopen("two", "w+", file)) != NULL);
	CHECK(fputs("second", file) >= 0);
	OK(fclose(file));
	holds("one", "first");
	holds("two", "second");
	CHECK((file = fopen("one", "w")) != NULL && fputs("older and longer", file) >= 0);
	CHECK((file = freopen("one", "w", file)) != NULL);
	CHECK(fputs("newer", file) >= 0);
	OK(fclose(file));
	holds("one", "newer");
	fflush(stdout);
	CHECK(freopen("out", "w", stdout) != NULL);
	printf("to the file\n");
	OK(system("echo from a child >>out2; cat out2"));
	fflush(stdout);
	GIVES(STDOUT_FILENO, dup2(saved, STDOUT_FILENO));
	CHECK(access("out2", F_OK) == 0);
	printf("back\n");
	fflush(stdout);
	CHECK((file = fopen("out", "r")) != NULL);
	OK(fclose(file));
	put("in", "line one\nline two\n");
	CHECK(freopen("in", "r", stdin) != NULL);
	char line[32];
	CHECK(fgets(line, sizeof(line), stdin) != NULL && strcmp(line, "line one\n") == 0);
	GIVES(STDIN_FILENO, fileno(stdin));
}

/* Like libstdc++: a stream for opening, the descriptor for everything else. */
static void
descriptors(void)
{
	FILE        *file = fopen64("file", "w+");
	int          fd = fileno(file);
	char         back[16] = "";
	struct iovec parts[2] = {{"abc", 3}, {"defgh", 5}};
	struct stat  info;

	GIVES(8, writev(fd, parts, 2));
	GIVES(2, lseek(fd, 2, SEEK_SET));
	GIVES(3, read(fd, back, 3));
	CHECK(memcmp(back, "cde", 3) == 0);
	OK(fstat(fd, &info));
	GIVES(8, info.st_size);
	OK(fclose(file));
	FAILS(EBADF, fstat(fd, &info));
	fd = open("file", O_RDWR);
	CHECK((file = fdopen(fd, "r+")) != NULL);
	GIVES(fd, fileno(file));
	GIVES('a', fgetc(file));
	OK(fseek(file, 0, SEEK_END));
	CHECK(fputs("ij", file) >= 0);
	OK(fclose(file));
	holds("file", "abcdefghij");
	CHECK((file = tmpfile()) != NULL);
	CHECK(fputs("x", file) >= 0);
	OK(fclose(file));
	CHECK(fdopen(999, "r") == NULL && errno == EBADF);
	OK(remove("file"));
}

static void
wide(void)
{
	FILE   *file;
	wchar_t line[32];

	CHECK(setlocale(LC_ALL, "C.UTF-8") != NULL);
	CHECK((file = fopen("file", "w")) != NULL);
	CHECK(fwide(file, 1) > 0);
	CHECK(fputws(L"caf\u00e9 \u2192\n", file) >= 0);
	GIVES(3, fwprintf(file, L"%d\n", 42));
	OK(fclose(file));
	holds("file", "caf\xc3\xa9 \xe2\x86\x92\n42\n");
	CHECK((file = fopen("file", "r,ccs=UTF-8")) != NULL);
	CHECK(fgetws(line, 32, file) != NULL && wcscmp(line, L"caf\u00e9 \u2192\n") == 0);
	GIVES(L'4', fgetwc(file));
	OK(fclose(file));
}

static void
unlocked_and_formatted(void)
{
	FILE *file = fopen("file", "w");
	char  back[64];

	flockfile(file);
	for (const char *p = "unlocked"; *p != '\0'; p++)
		GIVES(*p, putc_unlocked(*p, file));
	GIVES(1, fwrite_unlocked("\n", 1, 1, file));
	funlockfile(file);
	GIVES(0, fflush_unlocked(file));
	GIVES(5, dprintf(fileno(file), "%05d", 42));
	OK(fclose(file));
	CHECK((file = fopen("file", "r")) != NULL);
	CHECK(fgets_unlocked(back, sizeof(back), file) != NULL && strcmp(back, "unlocked\n") == 0);
	GIVES('0', getc_unlocked(file));
	GIVES(4, fread_unlocked(back, 1, 10, file));
	OK(fclose(file));
}

static void
many_at_once(void)
{
	FILE *files[200];
	char  name[16], text[16];

	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "file%d", i);
		CHECK((files[i] = fopen(name, "w")) != NULL);
		CHECK(fprintf(files[i], "%d", i) > 0);
	}
	OK(fcloseall());
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "file%d", i);
		snprintf(text, sizeof(text), "%d", i);
		holds(name, text);
	}
}

/* The content of a stream's buffer is written when the program ends. */
static void
written_at_exit(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		FILE *file = fopen("file", "w");

		fputs("buffered", file);
		exit(file == NULL);
	}
	child_succeeds(pid);
	holds("file", "buffered");
}

/* A stream that is opened again has all properties that its mode asks for. */
static void
reopened_by_every_mode(void)
{
	FILE *file;

	put("file", "abc");
	CHECK((file = fopen("file", "r")) != NULL);
	CHECK((file = freopen("new", "wx", file)) != NULL);
	CHECK(fputs("new", file) >= 0);
	CHECK((file = freopen("file", "re", file)) != NULL);
	GIVES(FD_CLOEXEC, fcntl(fileno(file), F_GETFD));
	OK(fclose(file));
	holds("new", "new");
}

static void *
wait_for_input(void *stream)
{
	return (void *)(intptr_t)fgetc(stream);
}

/* A program ends while one of its threads waits for input by a stream. */
static void
ended_while_a_thread_reads(void)
{
	int   ends[2];
	pid_t pid;

	OK(pipe(ends));
	pid = fork();
	if (pid == 0) {
		FILE     *input = fdopen(ends[0], "r"), *file = fopen("file", "w");
		pthread_t thread;

		CHECK(input != NULL && file != NULL);
		fputs("buffered", file);
		OK(pthread_create(&thread, NULL, wait_for_input, input));
		while (ftrylockfile(input) == 0) {
			funlockfile(input);
			sched_yield();
		}
		exit(0);
	}
	child_succeeds(pid);
	holds("file", "buffered");
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(modes), TEST(blocks), TEST(pushed_back_and_scanned), TEST(buffering),
		TEST(reopened), TEST(descriptors), TEST(wide), TEST(unlocked_and_formatted),
		TEST(many_at_once), TEST(written_at_exit), TEST(reopened_by_every_mode), TEST(ended_while_a_thread_reads),
	};

	return RUN(argc, argv, tests);
}
