/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI-IO and parallel HDF5: each rank writes parts of shared files, independently, collectively,
 * strided and atomically; all ranks read and compare everything. Prints `compared` once at the end.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef WITH_HDF5
#include <hdf5.h>
#endif

#define BLOCK  1000
#define BLOCKS 64

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);    \
			MPI_Abort(MPI_COMM_WORLD, 1);                                              \
		}                                                                                  \
	} while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

static int rank, ranks;
static int data[BLOCK * BLOCKS], back[BLOCK * BLOCKS * 16];

static int
value(int block, int at)
{
	return block * 1000003 + at * 7919;
}

static void
fill(int block)
{
	for (int i = 0; i < BLOCK; i++)
		data[i] = value(block, i);
}

static void
compare(int blocks)
{
	for (int block = 0; block < blocks; block++)
		for (int i = 0; i < BLOCK; i++)
			CHECK(back[block * BLOCK + i] == value(block, i));
}

static MPI_File
open_shared(const char *name)
{
	MPI_File file;

	OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
	OK(MPI_File_set_size(file, 0));
	OK(MPI_Barrier(MPI_COMM_WORLD));
	return file;
}

static void
compare_and_close(MPI_File file, int blocks)
{
	MPI_Offset size;
	MPI_Status status;
	int        count;

	OK(MPI_File_sync(file));
	OK(MPI_Barrier(MPI_COMM_WORLD));
	OK(MPI_File_get_size(file, &size));
	CHECK(size == (MPI_Offset)blocks * BLOCK * (MPI_Offset)sizeof(int));
	OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
	memset(back, 0, sizeof(back));
	OK(MPI_File_read_at_all(file, 0, back, blocks * BLOCK, MPI_INT, &status));
	OK(MPI_Get_count(&status, MPI_INT, &count));
	CHECK(count == blocks * BLOCK);
	compare(blocks);
	OK(MPI_File_close(&file));
}

static void
independent(int atomic)
{
	MPI_File file = open_shared(atomic ? "atomic" : "independent");

	OK(MPI_File_set_atomicity(file, atomic));
	for (int block = rank; block < BLOCKS; block += ranks) {
		fill(block);
		OK(MPI_File_write_at(file, (MPI_Offset)block * BLOCK * (MPI_Offset)sizeof(int), data, BLOCK,
				     MPI_INT, MPI_STATUS_IGNORE));
	}
	compare_and_close(file, BLOCKS);
}

/* Every rank writes every ranks-th block at once: two phases, or read-modify-write with locks. */
static void
strided(int collective)
{
	MPI_File     file = open_shared(collective ? "collective" : "sieved");
	MPI_Datatype stride;
	int          own = BLOCKS / ranks;

	OK(MPI_Type_vector(own, BLOCK, BLOCK * ranks, MPI_INT, &stride));
	OK(MPI_Type_commit(&stride));
	OK(MPI_File_set_view(file, (MPI_Offset)rank * BLOCK * (MPI_Offset)sizeof(int), MPI_INT, stride, "native",
			     MPI_INFO_NULL));
	for (int i = 0; i < own; i++)
		for (int j = 0; j < BLOCK; j++)
			data[i * BLOCK + j] = value(i * ranks + rank, j);
	if (collective)
		OK(MPI_File_write_all(file, data, own * BLOCK, MPI_INT, MPI_STATUS_IGNORE));
	else
		OK(MPI_File_write(file, data, own * BLOCK, MPI_INT, MPI_STATUS_IGNORE));
	OK(MPI_Type_free(&stride));
	compare_and_close(file, own * ranks);
}

/* A file pointer that all ranks share: it is stored in a file next to the data, or in a locked
 * file. */
static void
shared_pointer(void)
{
	MPI_File file = open_shared("pointer");
	int      seen[16] = {0};

	for (int i = 0; i < BLOCK; i++)
		data[i] = rank;
	OK(MPI_File_write_shared(file, data, BLOCK, MPI_INT, MPI_STATUS_IGNORE));
	OK(MPI_File_sync(file));
	OK(MPI_Barrier(MPI_COMM_WORLD));
	OK(MPI_File_read_at(file, 0, back, ranks * BLOCK, MPI_INT, MPI_STATUS_IGNORE));
	for (int i = 0; i < ranks; i++) {
		CHECK(back[i * BLOCK] == back[i * BLOCK + BLOCK - 1]);
		seen[back[i * BLOCK]]++;
	}
	for (int i = 0; i < ranks; i++)
		CHECK(seen[i] == 1);
	OK(MPI_File_close(&file));
}

static void
removed(void)
{
	MPI_File file;

	OK(MPI_Barrier(MPI_COMM_WORLD));
	if (rank == 0)
		OK(MPI_File_delete("independent", MPI_INFO_NULL));
	OK(MPI_Barrier(MPI_COMM_WORLD));
	CHECK(MPI_File_open(MPI_COMM_WORLD, "independent", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS);
}

#ifdef WITH_HDF5
static void
hdf5(int collective, int chunked)
{
	hsize_t shape[2] = {BLOCKS, BLOCK}, chunk[2] = {4, 250}, start[2] = {(hsize_t)rank, 0};
	hsize_t step[2] = {(hsize_t)ranks, 1}, count[2] = {(hsize_t)(BLOCKS / ranks), BLOCK};
	hid_t   access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
	hid_t   layout = H5Pcreate(H5P_DATASET_CREATE), whole = H5Screate_simple(2, shape, NULL);
	hid_t   part = H5Screate_simple(2, count, NULL), file, set;

	H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
	H5Pset_dxpl_mpio(transfer, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
	if (chunked)
		H5Pset_chunk(layout, 2, chunk);
	CHECK((file = H5Fcreate("file.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access)) >= 0);
	CHECK((set = H5Dcreate2(file, "data", H5T_NATIVE_INT, whole, H5P_DEFAULT, layout, H5P_DEFAULT)) >= 0);
	CHECK(H5Sselect_hyperslab(whole, H5S_SELECT_SET, start, step, count, NULL) >= 0);
	for (int i = 0; i < BLOCKS / ranks; i++)
		for (int j = 0; j < BLOCK; j++)
			data[i * BLOCK + j] = value(i * ranks + rank, j);
	CHECK(H5Dwrite(set, H5T_NATIVE_INT, part, whole, transfer, data) >= 0);
	CHECK(H5Dclose(set) >= 0 && H5Fclose(file) >= 0);
	CHECK((file = H5Fopen("file.h5", H5F_ACC_RDONLY, access)) >= 0);
	CHECK((set = H5Dopen2(file, "data", H5P_DEFAULT)) >= 0);
	memset(back, 0, sizeof(back));
	CHECK(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, transfer, back) >= 0);
	compare(BLOCKS / ranks * ranks);
	CHECK(H5Dclose(set) >= 0 && H5Fclose(file) >= 0);
	H5Pclose(access), H5Pclose(transfer), H5Pclose(layout), H5Sclose(whole), H5Sclose(part);
}
#endif

int
main(int argc, char **argv)
{
	OK(MPI_Init(&argc, &argv));
	OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
	OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
	CHECK(argc == 2 && chdir(argv[1]) == 0 && ranks <= 16);
	independent(0);
	independent(1);
	strided(0);
	strided(1);
	shared_pointer();
	removed();
#ifdef WITH_HDF5
	for (int form = 0; form < 4; form++)
		hdf5(form & 1, form >> 1);
#endif
	OK(MPI_Barrier(MPI_COMM_WORLD));
	if (rank == 0)
		printf("compared\n");
	OK(MPI_Finalize());
	return 0;
}
