/*
 * The peer of `esker bench tensors`: all ranks write one array to one shared file by parallel HDF5, and read it.
 *
 * usage: mpirun -n RANKS parallel_hdf5 FOLDER ROWS COLUMNS CHUNK_ROWS SEED CPUS COLLECTIVE
 *
 * Each rank has ROWS rows of COLUMNS 32-bit integers. Rank 0 reads one line for each step (ORDER), and answers each
 * with one line of JSON. Times are of the monotonic clock, from the first rank that enters to the last
 * that leaves. CPUS are processors for the ranks, separated by commas, or "-".
 */
#define _GNU_SOURCE
#include <hdf5.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* The order to take a step: its phase, round and layout. The members that follow are not needed. */
#define ORDER "{\"begin\":{\"step\":[%d,%d,%d]"

enum phase { PUT, GET, VERIFY, REMOVE, END };

/* Chunks of CHUNK_ROWS rows that HDF5 fills by default, or never fills; no chunks. */
enum layout { FILLED, NEVER_FILLED, CONTIGUOUS };

/* Begin, opened, moved, closed. */
enum { BEGIN, OPENED, MOVED, CLOSED, TIMES };

/* The message that rank 0 broadcasts to all ranks. */
struct step {
    int phase, round, layout;
};

struct job {
    const char *folder;
    hsize_t rows, columns, chunk_rows;
    uint32_t seed;
    int rank, ranks, collective;
    uint32_t *written, *found;
    char path[4096];
};

/* Time between the choice of a start time and the start, and the final interval in which ranks poll the clock. */
#define NOTICE_NS 5000000
#define WATCH_NS 200000

/* Interval at which waiting ranks poll for the next step. */
#define PAUSE_NS 2000000

/* Rank 0 and the one that fails may both answer: the first line counts. */
static void fail(const char *what)
{
    printf("{\"failed\":\"parallel HDF5: %s\"}\n", what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static hid_t ok(hid_t result, const char *what)
{
    if (result < 0)
        fail(what);
    return result;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static double now_s(void)
{
    return now_ns() / 1e9;
}

static void rest(int64_t ns)
{
    struct timespec pause = {ns / 1000000000, ns % 1000000000};
    nanosleep(&pause, NULL);
}

/* Once all ranks have their data, they agree on a start time and wait for it. */
static void start_together(void)
{
    int64_t start_ns;
    MPI_Barrier(MPI_COMM_WORLD);
    start_ns = now_ns() + NOTICE_NS;
    MPI_Bcast(&start_ns, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    int64_t left = start_ns - now_ns();
    if (left > WATCH_NS)
        rest(left - WATCH_NS);
    while (now_ns() < start_ns)
        ;
}

/* The same numbers as `element` in mod.rs. */
static uint32_t element(uint32_t seed, uint32_t round, uint64_t index)
{
    uint32_t v = (uint32_t)index ^ (seed * 0x27d4eb2fu + round * 0x165667b1u);
    v *= 0x9e3779b1u;
    v ^= v >> 15;
    v *= 0x85ebca77u;
    return v ^ (v >> 13);
}

static uint64_t elements(const struct job *job)
{
    return job->rows * job->columns;
}

static void fill(const struct job *job, uint32_t *slab, int rank, int round)
{
    uint64_t count = elements(job), first = rank * count;
    for (uint64_t i = 0; i < count; i++)
        slab[i] = element(job->seed, round, first + i);
}

/* Each rank reads what the next one wrote. */
static int reads_of(const struct job *job)
{
    return (job->rank + 1) % job->ranks;
}

static void verify(struct job *job, int round)
{
    fill(job, job->written, reads_of(job), round);
    if (memcmp(job->written, job->found, elements(job) * sizeof *job->found) != 0)
        fail("the data read is not the data written");
}

static hid_t shared_access(void)
{
    hid_t access = ok(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
    ok(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL), "H5Pset_fapl_mpio");
    return access;
}

static hid_t transfer_of(const struct job *job)
{
    hid_t transfer = ok(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate");
    H5FD_mpio_xfer_t how = job->collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT;
    ok(H5Pset_dxpl_mpio(transfer, how), "H5Pset_dxpl_mpio");
    return transfer;
}

static hid_t creation_of(const struct job *job, int layout)
{
    hsize_t chunk[2] = {job->chunk_rows, job->columns};
    hid_t creation = ok(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
    if (layout != CONTIGUOUS)
        ok(H5Pset_chunk(creation, 2, chunk), "H5Pset_chunk");
    if (layout == NEVER_FILLED)
        ok(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
    return creation;
}

static hid_t created(const struct job *job, hid_t file, int layout)
{
    hsize_t shape[2] = {job->rows * job->ranks, job->columns};
    hid_t space = ok(H5Screate_simple(2, shape, NULL), "H5Screate_simple");
    hid_t creation = creation_of(job, layout);
    hid_t set = H5Dcreate2(file, "t", H5T_NATIVE_INT32, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Pclose(creation);
    H5Sclose(space);
    return ok(set, "H5Dcreate2");
}

/* Writes the slab of this rank, or reads that of the next. */
static void move(struct job *job, hid_t set, int is_put)
{
    hsize_t count[2] = {job->rows, job->columns};
    hsize_t start[2] = {job->rows * (is_put ? job->rank : reads_of(job)), 0};
    hid_t memory = ok(H5Screate_simple(2, count, NULL), "H5Screate_simple");
    hid_t space = ok(H5Dget_space(set), "H5Dget_space");
    hid_t transfer = transfer_of(job);
    ok(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL), "H5Sselect_hyperslab");
    if (is_put)
        ok(H5Dwrite(set, H5T_NATIVE_INT32, memory, space, transfer, job->written), "H5Dwrite");
    else
        ok(H5Dread(set, H5T_NATIVE_INT32, memory, space, transfer, job->found), "H5Dread");
    H5Pclose(transfer);
    H5Sclose(space);
    H5Sclose(memory);
}

static void put_or_get(struct job *job, const struct step *step, double *times)
{
    int is_put = step->phase == PUT;
    times[BEGIN] = now_s();
    hid_t access = shared_access();
    hid_t file = is_put ? H5Fcreate(job->path, H5F_ACC_TRUNC, H5P_DEFAULT, access)
                        : H5Fopen(job->path, H5F_ACC_RDONLY, access);
    ok(file, is_put ? "H5Fcreate" : "H5Fopen");
    hid_t set = is_put ? created(job, file, step->layout) : ok(H5Dopen2(file, "t", H5P_DEFAULT), "H5Dopen2");
    times[OPENED] = now_s();
    move(job, set, is_put);
    times[MOVED] = now_s();
    ok(H5Dclose(set), "H5Dclose");
    ok(H5Fclose(file), "H5Fclose");
    times[CLOSED] = now_s();
    H5Pclose(access);
}

static void take(struct job *job, const struct step *step, double *times)
{
    snprintf(job->path, sizeof job->path, "%s/shared-%d.h5", job->folder, step->layout);
    if (step->phase == PUT)
        fill(job, job->written, job->rank, step->round);
    else if (step->phase == GET)
        memset(job->found, 0xa5, elements(job) * sizeof *job->found);
    if (step->phase == PUT || step->phase == GET) {
        start_together();
        put_or_get(job, step, times);
    } else if (step->phase == VERIFY) {
        verify(job, step->round);
    } else if (job->rank == 0) {
        unlink(job->path);
    }
}

/* A waiting rank must not take the processor from the measured ranks, so it polls and sleeps. */
static void told(struct step *step)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibcast(step, sizeof *step, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        rest(PAUSE_NS);
}

static void answer(double *times)
{
    char about[MPI_MAX_LIBRARY_VERSION_STRING];
    unsigned major, minor, release;
    int length;
    MPI_Get_library_version(about, &length);
    about[strcspn(about, ",\"\\\n")] = 0;
    for (char *tab = about; (tab = strchr(tab, '\t')); tab++)
        *tab = ' ';
    H5get_libversion(&major, &minor, &release);
    printf("{\"done\":{\"times_s\":[%.9f,%.9f,%.9f,%.9f],\"about\":\"HDF5 %u.%u.%u, %s\"}}\n", times[BEGIN],
           times[OPENED], times[MOVED], times[CLOSED], major, minor, release, about);
    fflush(stdout);
}

/* From the first rank that began, to the last one at each of the other times. */
static void reduced(const double *mine, double *all)
{
    MPI_Reduce(mine, all, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(mine + 1, all + 1, TIMES - 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
}

static void serve(struct job *job)
{
    char line[256];
    struct step step = {0};
    double mine[TIMES] = {0}, all[TIMES] = {0};
    for (;;) {
        if (job->rank == 0 && (!fgets(line, sizeof line, stdin) ||
                               sscanf(line, ORDER, &step.phase, &step.round, &step.layout) != 3))
            step.phase = END;
        told(&step);
        if (step.phase == END)
            return;
        take(job, &step, mine);
        reduced(mine, all);
        if (job->rank == 0)
            answer(all);
    }
}

static void pin(const char *cpus, int rank)
{
    int count = 1, wanted;
    for (const char *c = cpus; *c; c++)
        count += *c == ',';
    wanted = rank % count;
    for (; wanted > 0 && *cpus; cpus++)
        wanted -= *cpus == ',';
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(cpus), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail("pinning to a processor");
}

static uint32_t *touched(const struct job *job)
{
    size_t bytes = (elements(job) * sizeof(uint32_t) + 4095) / 4096 * 4096;
    uint32_t *memory = aligned_alloc(4096, bytes);
    if (!memory)
        fail("the data does not fit in memory");
    memset(memory, 0xa5, bytes);
    return memory;
}

int main(int argc, char **argv)
{
    struct job job = {0};
    double times[TIMES] = {0};
    char line[4096];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    if (argc != 8)
        fail("usage: parallel_hdf5 FOLDER ROWS COLUMNS CHUNK_ROWS SEED CPUS COLLECTIVE");
    job.folder = argv[1];
    job.rows = strtoull(argv[2], NULL, 10);
    job.columns = strtoull(argv[3], NULL, 10);
    job.chunk_rows = strtoull(argv[4], NULL, 10);
    job.seed = (uint32_t)strtoul(argv[5], NULL, 10);
    job.collective = atoi(argv[7]);
    if (strcmp(argv[6], "-") != 0)
        pin(argv[6], job.rank);
    job.written = touched(&job);
    job.found = touched(&job);
    MPI_Barrier(MPI_COMM_WORLD);
    /* The first line only checks that all ranks have started. */
    if (job.rank == 0 && fgets(line, sizeof line, stdin))
        answer(times);
    serve(&job);
    MPI_Finalize();
    return 0;
}
