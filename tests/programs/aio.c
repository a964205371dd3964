/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous I/O: of the C library (aio_read), and of the kernel (io_submit) by number and by libaio. */
#include "check.h"
#include <aio.h>
#include <dlfcn.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define LENGTH 100000

static volatile sig_atomic_t signals, value, cause;
static sem_t                 called;

static void
told(int signal, siginfo_t *info, void *unused)
{
	(void)signal, (void)unused;
	value = info->si_value.sival_int;
	cause = info->si_code;
	signals++;
}

static void
called_with(union sigval with)
{
	value = with.sival_int;
	sem_post(&called);
}

static void
listen_to(int number)
{
	struct sigaction action = {.sa_sigaction = told, .sa_flags = SA_SIGINFO | SA_RESTART};

	OK(sigaction(number, &action, NULL));
}

/** Waits for a request, and returns its result. */
static ssize_t
result_of(struct aiocb *request)
{
	const struct aiocb *list[] = {request};

	while (aio_error(request) == EINPROGRESS)
		OK(aio_suspend(list, 1, NULL));
	OK(aio_error(request));
	return aio_return(request);
}

static void
reads_and_writes(void)
{
	static char  data[LENGTH], back[LENGTH];
	int          fd = new_file("file", 0, 1), reader = open("file", O_RDONLY);
	struct aiocb request = {.aio_fildes = fd, .aio_buf = data, .aio_nbytes = LENGTH, .aio_offset = 7};

	request.aio_sigevent.sigev_notify = SIGEV_NONE;
	fill(data, LENGTH, 0, 4);
	OK(aio_write(&request));
	GIVES(LENGTH, result_of(&request));
	OK(aio_fsync(O_SYNC, &request));
	GIVES(0, result_of(&request));
	FAILS(EINVAL, aio_fsync(12345, &request));
	GIVES(LENGTH + 7, lseek(fd, 0, SEEK_END));
	request.aio_buf = back;
	OK(aio_read(&request));
	GIVES(LENGTH, result_of(&request));
	CHECK(is_pattern(back, LENGTH, 0, 4));
	request.aio_offset = LENGTH;
	OK(aio_read(&request));
	GIVES(7, result_of(&request));
	CHECK(is_pattern(back, 7, LENGTH - 7, 4));
	GIVES(AIO_ALLDONE, aio_cancel(fd, &request));
	GIVES(AIO_ALLDONE, aio_cancel(fd, NULL));
	request.aio_fildes = reader;
	OK(aio_write(&request));
	while (aio_error(&request) == EINPROGRESS)
		usleep(100);
	GIVES(EBADF, aio_error(&request));
	GIVES(-1, aio_return(&request));
	request.aio_reqprio = -1;
	FAILS(EINVAL, aio_read(&request));
}

static void
tells_by_signal_and_thread(void)
{
	char         back[16];
	int          fd = new_file("file", LENGTH, 1);
	struct aiocb request = {.aio_fildes = fd, .aio_buf = back, .aio_nbytes = 16};

	listen_to(SIGUSR1);
	OK(sem_init(&called, 0, 0));
	request.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
	request.aio_sigevent.sigev_signo = SIGUSR1;
	request.aio_sigevent.sigev_value.sival_int = 42;
	OK(aio_read(&request));
	GIVES(16, result_of(&request));
	while (signals == 0)
		usleep(100);
	CHECK(value == 42 && cause == SI_ASYNCIO && signals == 1);
	request.aio_sigevent.sigev_notify = SIGEV_THREAD;
	request.aio_sigevent.sigev_notify_function = called_with;
	request.aio_sigevent.sigev_notify_attributes = NULL;
	request.aio_sigevent.sigev_value.sival_int = 43;
	OK(aio_read(&request));
	OK(sem_wait(&called));
	GIVES(43, value);
	GIVES(16, result_of(&request));
}

static void
lists(void)
{
	char            back[3][16], path[4096];
	int             fd = new_file("file", LENGTH, 1), other, reader = open("file", O_RDONLY);
	struct aiocb    requests[3] = {0}, *list[4] = {&requests[0], NULL, &requests[1], &requests[2]};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};

	snprintf(path, sizeof(path), "%s/outside.%d", outside, getpid());
	other = new_file(path, LENGTH, 2);
	for (int i = 0; i < 3; i++) {
		requests[i].aio_fildes = i == 1 ? other : fd;
		requests[i].aio_buf = back[i];
		requests[i].aio_nbytes = 16;
		requests[i].aio_offset = i * 100;
		requests[i].aio_lio_opcode = i == 2 ? LIO_NOP : LIO_READ;
		requests[i].aio_sigevent.sigev_notify = SIGEV_NONE;
	}
	OK(lio_listio(LIO_WAIT, list, 4, NULL));
	GIVES(16, result_of(&requests[0]));
	GIVES(16, result_of(&requests[1]));
	CHECK(is_pattern(back[0], 16, 0, 1) && is_pattern(back[1], 16, 100, 2));
	listen_to(SIGUSR1);
	requests[2].aio_lio_opcode = LIO_READ;
	requests[1].aio_lio_opcode = LIO_NOP;
	event.sigev_value.sival_int = 5;
	OK(lio_listio(LIO_NOWAIT, list, 4, &event));
	while (signals == 0)
		usleep(100);
	GIVES(5, value);
	GIVES(16, result_of(&requests[2]));
	CHECK(is_pattern(back[2], 16, 200, 1));
	requests[2].aio_fildes = reader;
	requests[2].aio_lio_opcode = LIO_WRITE;
	FAILS(EIO, lio_listio(LIO_WAIT, list, 4, NULL));
	GIVES(EBADF, aio_error(&requests[2]));
	FAILS(EINVAL, lio_listio(99, list, 4, NULL));
	OK(unlink(path));
}

/** The calls of the kernel: by number, or those of libaio, which return a negative errno. */
static int (*submit_by)(aio_context_t, long, struct iocb **);
static int (*wait_by)(aio_context_t, long, long, struct io_event *, struct timespec *);

static int
submit_by_number(aio_context_t context, long count, struct iocb **list)
{
	long done = syscall(SYS_io_submit, context, count, list);

	return done < 0 ? -errno : (int)done;
}

static int
wait_by_number(aio_context_t context, long least, long count, struct io_event *events, struct timespec *limit)
{
	long done = syscall(SYS_io_getevents, context, least, count, events, limit);

	return done < 0 ? -errno : (int)done;
}

static struct iocb
request_of(int fd, int operation, void *buffer, size_t length, off_t offset)
{
	struct iocb request = {.aio_fildes = (uint32_t)fd, .aio_lio_opcode = (uint16_t)operation};

	request.aio_buf = (uint64_t)(uintptr_t)buffer;
	request.aio_nbytes = length;
	request.aio_offset = offset;
	request.aio_data = (uint64_t)length + 1000;
	return request;
}

/** Submits requests, and checks that each event has its request and this result. */
static void
gives(aio_context_t context, struct iocb *requests, int count, const long long *results)
{
	struct iocb    *list[8];
	struct io_event events[8];
	struct timespec limit = {10, 0};
	bool            seen[8] = {false};

	for (int i = 0; i < count; i++)
		list[i] = &requests[i];
	GIVES(count, submit_by(context, count, list));
	GIVES(count, wait_by(context, count, 8, events, &limit));
	for (int i = 0; i < count; i++) {
		struct iocb *request = (struct iocb *)(uintptr_t)events[i].obj;
		long         at = request - requests;

		CHECK(at >= 0 && at < count && !seen[at]);
		seen[at] = true;
		GIVES(results[at], events[i].res);
		GIVES(request->aio_data, events[i].data);
	}
}

static void
requests_of_the_kernel(void)
{
	static char     data[LENGTH], back[LENGTH];
	struct iovec    parts[] = {{back + 100, 50}, {back, 100}};
	int             fd = new_file("file", 0, 1), pair[2];
	aio_context_t   context = 0;
	struct iocb     requests[4];
	struct timespec now = {0, 0};
	struct io_event event;
	char            path[4096];

	OK(syscall(SYS_io_setup, 8, &context));
	fill(data, LENGTH, 0, 6);
	requests[0] = request_of(fd, IOCB_CMD_PWRITE, data, LENGTH, 0);
	gives(context, requests, 1, (long long[]){LENGTH});
	requests[0] = request_of(fd, IOCB_CMD_PREAD, back + 200, 1000, LENGTH - 300);
	requests[1] = request_of(fd, IOCB_CMD_PREADV, parts, 2, 10);
	requests[2] = request_of(fd, IOCB_CMD_FSYNC, NULL, 0, 0);
	requests[3] = request_of(fd, IOCB_CMD_PREAD, back + 9000, 10, LENGTH);
	gives(context, requests, 4, (long long[]){300, 150, 0, 0});
	CHECK(is_pattern(back + 200, 300, LENGTH - 300, 6));
	CHECK(is_pattern(back + 100, 50, 10, 6) && is_pattern(back, 100, 60, 6));
	snprintf(path, sizeof(path), "%s/outside.%d", outside, getpid());
	pair[0] = new_file(path, LENGTH, 2);
	requests[0] = request_of(pair[0], IOCB_CMD_PREAD, back, 10, 0);
	requests[1] = request_of(fd, IOCB_CMD_PREAD, back + 10, 10, 0);
	requests[2] = request_of(pair[0], IOCB_CMD_PREAD, back + 20, 10, 0);
	gives(context, requests, 3, (long long[]){10, 10, 10});
	CHECK(is_pattern(back, 10, 0, 2) && is_pattern(back + 10, 10, 0, 6) && is_pattern(back + 20, 10, 0, 2));
	GIVES(0, wait_by(context, 1, 1, &event, &now));
	requests[0] = request_of(fd, 77, back, 10, 0);
	GIVES(-EINVAL, submit_by(context, 1, (struct iocb *[]){requests}));
	OK(syscall(SYS_io_destroy, context));
	OK(unlink(path));
}

static void
event_descriptors(void)
{
	char          back[16];
	int           fd = new_file("file", LENGTH, 1), event = eventfd(0, 0);
	uint64_t      count = 0;
	aio_context_t context = 0;
	struct iocb   request = request_of(fd, IOCB_CMD_PREAD, back, 16, 30);

	OK(syscall(SYS_io_setup, 8, &context));
	request.aio_flags = IOCB_FLAG_RESFD;
	request.aio_resfd = (uint32_t)event;
	gives(context, &request, 1, (long long[]){16});
	GIVES(8, read(event, &count, 8));
	GIVES(1, count);
	CHECK(is_pattern(back, 16, 30, 1));
	OK(syscall(SYS_io_destroy, context));
}

/** A full context refuses requests, and they are not performed. */
static void
full_contexts(void)
{
	int             fd = open("file", O_WRONLY | O_CREAT | O_APPEND, 0644), accepted = 0, more;
	aio_context_t   context = 0;
	struct iocb     request = request_of(fd, IOCB_CMD_PWRITE, "x", 1, 0), *list[] = {&request};
	struct io_event event;

	OK(syscall(SYS_io_setup, 1, &context));
	while ((more = submit_by(context, 1, list)) == 1 && accepted < 100000)
		accepted++;
	GIVES(-EAGAIN, more);
	GIVES(accepted, lseek(fd, 0, SEEK_END));
	for (int i = 0; i < accepted; i++)
		GIVES(1, wait_by(context, 1, 1, &event, NULL));
	OK(syscall(SYS_io_destroy, context));
}

#define ROUNDS 2000

static aio_context_t shared;

/** Waits for all events, while another thread submits. */
static void *
reap(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct io_event event;

		GIVES(1, wait_by(shared, 1, 1, &event, NULL));
		GIVES(64, event.res);
		CHECK(is_pattern((void *)(uintptr_t)event.data, 64, 0, 1));
		free((void *)(uintptr_t)event.data);
		free((void *)(uintptr_t)event.obj);
	}
	return unused;
}

static void
another_thread_waits(void)
{
	int       fd = new_file("file", LENGTH, 1);
	pthread_t reaper;

	OK(syscall(SYS_io_setup, 64, &shared));
	OK(pthread_create(&reaper, NULL, reap, NULL));
	for (int i = 0; i < ROUNDS; i++) {
		struct iocb *request = malloc(sizeof(*request));
		void        *buffer = malloc(64);
		int          done;

		*request = request_of(fd, IOCB_CMD_PREAD, buffer, 64, 0);
		request->aio_data = (uint64_t)(uintptr_t)buffer;
		while ((done = submit_by(shared, 1, &request)) == -EAGAIN)
			usleep(100);
		GIVES(1, done);
	}
	OK(pthread_join(reaper, NULL));
	OK(syscall(SYS_io_destroy, shared));
}

static void
all_of_the_kernel(void)
{
	requests_of_the_kernel();
	OK(unlink("file"));
	event_descriptors();
	OK(unlink("file"));
	full_contexts();
	OK(unlink("file"));
	another_thread_waits();
}

static void
by_number(void)
{
	submit_by = submit_by_number;
	wait_by = wait_by_number;
	all_of_the_kernel();
}

static void
by_libaio(void)
{
	if (!dlopen("libaio.so.1", RTLD_NOW | RTLD_GLOBAL) && !dlopen("libaio.so.1t64", RTLD_NOW | RTLD_GLOBAL)) {
		printf("libaio is not installed\n");
		return;
	}
	*(void **)&submit_by = dlsym(RTLD_DEFAULT, "io_submit");
	*(void **)&wait_by = dlsym(RTLD_DEFAULT, "io_getevents");
	CHECK(submit_by && wait_by);
	all_of_the_kernel();
}

int
main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(reads_and_writes), TEST(tells_by_signal_and_thread), TEST(lists), TEST(by_number), TEST(by_libaio),
	};

	return RUN(argc, argv, tests);
}
