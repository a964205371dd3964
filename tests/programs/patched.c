/* SPDX-License-Identifier: Apache-2.0 */
/* Shared mappings in a program that replaces the mapping functions at run time, as UCX, libfabric
 * and Open MPI do: in machine code, or in the linker's tables of every library. */
#include "check.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define SIZE 65536
#define PAGES ((void *)-4096L)

static const char *const names[] = {"mmap", "mmap64", "munmap"};
#define NAMES (sizeof(names) / sizeof(names[0]))

static int hooked;
static int (*system_munmap)(void *, size_t);

static void *
mmap_by_number(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
	hooked++;
	return (void *)syscall(SYS_mmap, at, length, protection, flags, fd, offset);
}

static int
munmap_by_number(void *at, size_t length)
{
	hooked++;
	return (int)syscall(SYS_munmap, at, length);
}

/* The function of the C library itself, bypassing all replacements. */
static int
munmap_of_the_system(void *at, size_t length)
{
	hooked++;
	return system_munmap(at, length);
}

static void
replace_code(void *function, void *hook)
{
	char *page = (char *)((uintptr_t)function & (uintptr_t)PAGES);

	OK(mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC));
#if defined(__x86_64__)
	unsigned char jump[13] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3};

	memcpy(jump + 2, &hook, sizeof(hook));
#elif defined(__aarch64__)
	uint32_t jump[5] = {0xd2800010, 0xf2a00010, 0xf2c00010, 0xf2e00010, 0xd61f0200};

	for (int i = 0; i < 4; i++)
		jump[i] |= (uint32_t)((uintptr_t)hook >> (16 * i) & 0xffff) << 5;
#else
#error "replacing a function is not implemented for this architecture"
#endif
	memcpy(function, jump, sizeof(jump));
	OK(mprotect(page, 8192, PROT_READ | PROT_EXEC));
	__builtin___clear_cache((char *)function, (char *)function + sizeof(jump));
}

struct replacement {
	const char *name;
	void       *hook;
};

static void
replace_entries(const struct dl_phdr_info *object, const ElfW(Dyn) *dynamic, ElfW(Sxword) table,
		ElfW(Sxword) size, const struct replacement *replacement)
{
	const ElfW(Dyn)  *at;
	const ElfW(Rela) *entry = NULL, *end;
	const ElfW(Sym)  *symbols = NULL;
	const char       *text = NULL;
	size_t            length = 0;

	for (at = dynamic; at->d_tag != DT_NULL; at++) {
		if (at->d_tag == table)
			entry = (const void *)at->d_un.d_ptr;
		if (at->d_tag == size)
			length = at->d_un.d_val;
		if (at->d_tag == DT_SYMTAB)
			symbols = (const void *)at->d_un.d_ptr;
		if (at->d_tag == DT_STRTAB)
			text = (const void *)at->d_un.d_ptr;
	}
	if (!entry || !symbols || !text)
		return;
	for (end = entry + length / sizeof(*entry); entry < end; entry++) {
		void **slot = (void **)(object->dlpi_addr + entry->r_offset);
		void  *page = (void *)((uintptr_t)slot & (uintptr_t)PAGES);

		if (strcmp(text + symbols[ELF64_R_SYM(entry->r_info)].st_name, replacement->name) != 0)
			continue;
		OK(mprotect(page, 4096, PROT_READ | PROT_WRITE));
		*slot = replacement->hook;
	}
}

static int
replace_in(struct dl_phdr_info *object, size_t size, void *replacement)
{
	(void)size;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
		const ElfW(Dyn)  *dynamic = (const void *)(object->dlpi_addr + segment->p_vaddr);

		/* The addresses of the kernel's own object are not relocated. */
		if (segment->p_type != PT_DYNAMIC || strstr(object->dlpi_name, "vdso"))
			continue;
		replace_entries(object, dynamic, DT_JMPREL, DT_PLTRELSZ, replacement);
		replace_entries(object, dynamic, DT_RELA, DT_RELASZ, replacement);
	}
	return 0;
}

static void
replace_in_tables(const char *name, void *hook)
{
	struct replacement replacement = {name, hook};

	dl_iterate_phdr(replace_in, &replacement);
}

static void
replace_all_code(void)
{
	for (size_t i = 0; i < NAMES; i++) {
		void *function = dlsym(RTLD_DEFAULT, names[i]);

		CHECK(function != NULL);
		replace_code(function, strcmp(names[i], "munmap") == 0 ? (void *)munmap_by_number
								       : (void *)mmap_by_number);
	}
}

static void
replace_all_tables(void)
{
	for (size_t i = 0; i < NAMES; i++)
		replace_in_tables(names[i], strcmp(names[i], "munmap") == 0
						    ? (void *)munmap_by_number
						    : (void *)mmap_by_number);
}

static void
replace_by_the_system(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY);

	CHECK(libc != NULL);
	*(void **)&system_munmap = dlsym(libc, "munmap");
	CHECK(system_munmap != NULL);
	replace_in_tables("munmap", (void *)munmap_of_the_system);
}

static char *
mapped(const char *name)
{
	int   fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
	char *map;

	CHECK(fd >= 0);
	OK(ftruncate(fd, SIZE));
	map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	OK(close(fd));
	return map;
}

static void
has(const char *name, char byte)
{
	char *content = malloc(SIZE);
	int   fd = open(name, O_RDONLY);

	CHECK(content != NULL && fd >= 0);
	GIVES(SIZE, read(fd, content, SIZE));
	for (size_t i = 0; i < SIZE; i++)
		CHECK(content[i] == byte);
	OK(close(fd));
	free(content);
}

/* One mapping from before the replacement of functions and one from after it. */
static void
around(void (*replace)(void))
{
	char *before = mapped("before"), *after;

	replace();
	after = mapped("after");
	memset(before, 'b', SIZE);
	memset(after, 'a', SIZE);
	OK(munmap(before, SIZE));
	OK(munmap(after, SIZE));
	CHECK(hooked >= 3);
	has("before", 'b');
	has("after", 'a');
}

static void
code(void)
{
	around(replace_all_code);
}

static void
tables(void)
{
	around(replace_all_tables);
}

/* Changes through an untracked mapping are in the file when the process has ended. */
static void
past_everybody(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		char *map = mapped("file");

		replace_by_the_system();
		memset(map, 'p', SIZE);
		OK(munmap(map, SIZE));
		GIVES(1, hooked);
		exit(0);
	}
	child_succeeds(pid);
	has("file", 'p');
}

/* Unmapping a part removes the rest of its last page; the remaining parts still map the file. */
static void
parts(void)
{
	char *map = mapped("file");

	memset(map, 'x', SIZE);
	OK(munmap(map, 4000));
	OK(munmap(map + 32768, 4096));
	OK(munmap(map + 4096, 32768 - 4096));
	memset(map + 32768 + 4096, 'x', SIZE - 32768 - 4096);
	OK(munmap(map + 32768 + 4096, SIZE - 32768 - 4096));
	has("file", 'x');
}

/* Another mapping replaces a mapping. */
static void
covered(void)
{
	char *map = mapped("file");

	memset(map, 'c', SIZE);
	CHECK(mmap(map, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	      map);
	CHECK(is_zero(map, SIZE));
	has("file", 'c');
	memset(map, 'd', SIZE);
	OK(munmap(map, SIZE));
	has("file", 'c');
}

/* A write is visible in a read-only mapping, even if the program has changed its protection. */
static void
written(void)
{
	char *map = mapped("file"), *seen;
	int   fd = open("file", O_RDWR);

	CHECK(fd >= 0);
	seen = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(seen != MAP_FAILED);
	OK(mprotect(map, SIZE, PROT_READ));
	GIVES(3, pwrite(fd, "abc", 3, 5000));
	CHECK(memcmp(map + 5000, "abc", 3) == 0 && memcmp(seen + 5000, "abc", 3) == 0);
	OK(munmap(map, SIZE));
	OK(munmap(seen, SIZE));
	OK(close(fd));
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(code), TEST(tables), TEST(past_everybody), TEST(parts), TEST(covered), TEST(written),
	};

	return RUN(argc, argv, tests);
}
