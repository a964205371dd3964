/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a job: those of MPI with -DWITH_MPI, or one. */
#ifndef ESKER_JOB_H
#define ESKER_JOB_H

#include <esker.h>

#ifdef WITH_MPI
#include <mpi.h>
#endif

/* The number of this process, and the number of all processes. */
struct job {
	int rank;
	int ranks;
};

/* Starts MPI, and returns the rank of this process and the number of processes. */
static inline struct job
job_start(int *argc, char ***argv)
{
	struct job job = {0, 1};

#ifdef WITH_MPI
	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
#else
	(void)argc;
	(void)argv;
#endif
	return job;
}

/* Sends the token of a PUT from rank 0 to all others. */
static inline void
share_token(char *token)
{
#ifdef WITH_MPI
	MPI_Bcast(token, ESKER_UUID_SIZE, MPI_CHAR, 0, MPI_COMM_WORLD);
#else
	(void)token;
#endif
}

/* Waits for all processes. */
static inline void
barrier(void)
{
#ifdef WITH_MPI
	MPI_Barrier(MPI_COMM_WORLD);
#endif
}

/* The longest time of any process. All processes get it. */
static inline double
longest(double seconds)
{
#ifdef WITH_MPI
	MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
#endif
	return seconds;
}

/* Ends MPI, if it is used; call it last. */
static inline void
job_end(void)
{
#ifdef WITH_MPI
	MPI_Finalize();
#endif
}

/* Opens the container and its tensor store. Rank 0 creates the container first, so that the others find it. */
static inline daos_handle_t
open_tensors(struct handles *handles, struct job job, const char *pool, const char *cont)
{
	daos_handle_t store;

	if (job.rank != 0)
		barrier();
	*handles = open_handles(pool, cont, 1);
	if (job.rank == 0)
		barrier();
	check_store(esker_tensor_store_open(handles->cont, ESKER_CREATE, &store, NULL),
		    "opening the tensor store", cont);
	return store;
}

/* Begins a tensor on rank 0; the other ranks join. */
static inline daos_handle_t
begin_tensor(daos_handle_t store, struct job job, const char *dtype, uint32_t ndim, const uint64_t *shape,
	     const esker_attr_t *attrs, uint32_t attr_count)
{
	char          token[ESKER_UUID_SIZE] = "";
	daos_handle_t put;

	if (job.rank == 0) {
		check_store(esker_tensor_begin(store, dtype, ndim, shape, NULL, attrs, attr_count, &put, NULL),
			    "beginning", "a tensor");
		check_store(esker_tensor_token(put, token), "asking for", "the token");
	}
	share_token(token);
	if (job.rank != 0)
		check_store(esker_tensor_join(store, token, &put, NULL), "joining the PUT", token);
	return put;
}

/* Commits a tensor on rank 0 once all ranks have written. */
static inline void
commit_tensor(daos_handle_t put, struct job job, const char *name)
{
	barrier();
	if (job.rank == 0)
		check_store(esker_tensor_commit(put, name, NULL, NULL), "committing", name);
	check_store(esker_tensor_put_close(put, NULL), "closing", "the PUT");
}

#endif /* ESKER_JOB_H */
