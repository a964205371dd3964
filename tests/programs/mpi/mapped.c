/* SPDX-License-Identifier: Apache-2.0 */
/* Shared mappings from before and after MPI_Init, which replaces the mapping functions if UCX is in
 * use.
 * usage: mapped DIRECTORY */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE 65536

static char *
mapped(const char *name)
{
	int   fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
	char *map = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, SIZE) == 0)
		map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		perror(name);
	close(fd);
	return map;
}

int
main(int argc, char **argv)
{
	char *before, *after;

	if (argc != 2 || chdir(argv[1]) != 0 || (before = mapped("before")) == MAP_FAILED)
		return 1;
	MPI_Init(&argc, &argv);
	if ((after = mapped("after")) == MAP_FAILED)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(before, 'b', SIZE);
	memset(after, 'a', SIZE);
	if (munmap(before, SIZE) != 0 || munmap(after, SIZE) != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Finalize();
	puts("unmapped");
	return 0;
}
