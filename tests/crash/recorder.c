/* Records what a process does to files below a directory. Preloaded into it, it appends every write
 * and sync to a log, in order, with the bytes. From the log, crates/testing/tests/torture builds the possible
 * contents of a disk after a power failure at any time.
 *
 * RECORD_ROOT: the directory whose files are recorded. RECORD_LOG: the log. A record is one line of
 * text and, for a write, the given number of bytes:
 *   W <path> <offset> <length> <synced>\n<bytes>     written; <synced> is 1 on an O_DSYNC descriptor
 *   S <path>\n                                       synced
 *   T <path> <length>\n                              truncated or extended
 * Writes to files whose path starts with RECORD_ACKS are logged as "A <path> <length>\n<bytes>":
 * the operations that the process had acknowledged by then. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static const char *root, *acks;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static int (*real_fsync)(int), (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off_t);
static int (*real_msync)(void *, size_t, int);

__attribute__((constructor)) static void begin(void)
{
    root = getenv("RECORD_ROOT");
    acks = getenv("RECORD_ACKS");
    real_write = dlsym(RTLD_NEXT, "write");
    real_writev = dlsym(RTLD_NEXT, "writev");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_pwritev = dlsym(RTLD_NEXT, "pwritev64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_msync = dlsym(RTLD_NEXT, "msync");
    if (root && getenv("RECORD_LOG"))
        log_fd = open(getenv("RECORD_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Path of a descriptor if it is recorded. */
static const char *path_of(int fd, char *path, size_t size)
{
    char link[64];
    ssize_t length;

    if (log_fd < 0 || fd == log_fd)
        return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, size - 1);
    if (length <= 0)
        return NULL;
    path[length] = 0;
    if (acks && strncmp(path, acks, strlen(acks)) == 0)
        return path;
    return strncmp(path, root, strlen(root)) == 0 ? path : NULL;
}

static void put(const void *bytes, size_t length)
{
    while (length > 0) {
        ssize_t done = real_write(log_fd, bytes, length);
        if (done <= 0)
            abort();
        bytes = (const char *)bytes + done;
        length -= (size_t)done;
    }
}

__attribute__((format(printf, 1, 2))) static void line(const char *format, ...)
{
    char text[5000];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(text, strlen(text));
}

static void note_write(int fd, const char *path, const void *bytes, size_t length, off_t offset)
{
    if (acks && strncmp(path, acks, strlen(acks)) == 0) {
        line("A %s %zu\n", path, length);
    } else {
        int synced = (fcntl(fd, F_GETFL) & O_DSYNC) != 0;
        line("W %s %lld %zu %d\n", path, (long long)offset, length, synced);
    }
    put(bytes, length);
}

static char *gathered(const struct iovec *parts, int count, size_t length)
{
    char *bytes = malloc(length + 1), *end = bytes;

    if (!bytes)
        abort();
    for (int i = 0; i < count; i++) {
        size_t part = parts[i].iov_len;
        if (part > length - (size_t)(end - bytes))
            part = length - (size_t)(end - bytes);
        memcpy(end, parts[i].iov_base, part);
        end += part;
    }
    return bytes;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset)
{
    char buffer[4096];
    const char *path = path_of(fd, buffer, sizeof buffer);
    ssize_t done;

    if (!path)
        return real_pwrite(fd, bytes, length, offset);
    pthread_mutex_lock(&lock);
    done = real_pwrite(fd, bytes, length, offset);
    if (done > 0)
        note_write(fd, path, bytes, (size_t)done, offset);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    return pwrite64(fd, bytes, length, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset)
{
    char buffer[4096];
    const char *path = path_of(fd, buffer, sizeof buffer);
    ssize_t done;

    if (!path)
        return real_pwritev(fd, parts, count, offset);
    pthread_mutex_lock(&lock);
    done = real_pwritev(fd, parts, count, offset);
    if (done > 0) {
        char *bytes = gathered(parts, count, (size_t)done);
        note_write(fd, path, bytes, (size_t)done, offset);
        free(bytes);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    return pwritev64(fd, parts, count, offset);
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    char buffer[4096];
    const char *path = path_of(fd, buffer, sizeof buffer);
    off_t offset;
    ssize_t done;

    if (!path)
        return real_write(fd, bytes, length);
    pthread_mutex_lock(&lock);
    offset = lseek(fd, 0, SEEK_CUR);
    done = real_write(fd, bytes, length);
    if (done > 0)
        note_write(fd, path, bytes, (size_t)done, offset);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    char buffer[4096];
    const char *path = path_of(fd, buffer, sizeof buffer);
    off_t offset;
    ssize_t done;

    if (!path)
        return real_writev(fd, parts, count);
    pthread_mutex_lock(&lock);
    offset = lseek(fd, 0, SEEK_CUR);
    done = real_writev(fd, parts, count);
    if (done > 0) {
        char *bytes = gathered(parts, count, (size_t)done);
        note_write(fd, path, bytes, (size_t)done, offset);
        free(bytes);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

/* A sync covers the writes before it started, so its start is recorded. */
static int sync_noted(int (*real)(int), int fd)
{
    char buffer[4096];
    const char *path = path_of(fd, buffer, sizeof buffer);
    int result;

    if (!path)
        return real(fd);
    pthread_mutex_lock(&lock);
    result = real(fd);
    if (result == 0)
        line("S %s\n", path);
    pthread_mutex_unlock(&lock);
    return result;
}

int fsync(int fd)
{
    return sync_noted(real_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_noted(real_fdatasync, fd);
}

int ftruncate64(int fd, off_t length)
{
    char buffer[4096];
    const char *path = path_of(fd, buffer, sizeof buffer);
    int result;

    pthread_mutex_lock(&lock);
    result = real_ftruncate(fd, length);
    if (path && result == 0)
        line("T %s %lld\n", path, (long long)length);
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate(int fd, off_t length)
{
    return ftruncate64(fd, length);
}

/* Recorded files must not be synced through a mapping: the log would miss the changes. */
int msync(void *from, size_t length, int flags)
{
    if (log_fd >= 0)
        line("M\n");
    return real_msync(from, length, flags);
}
