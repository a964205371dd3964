/* Kills the process into which it is preloaded before the KILL_AT-th call that changes names or
 * reserves space. If there are fewer such calls, it does nothing. The tests of crates/cli use it to
 * verify that pools can be created and destroyed whenever an earlier attempt was killed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void count(void)
{
    static int calls;
    const char *at = getenv("KILL_AT");
    if (at && __sync_add_and_fetch(&calls, 1) == atoi(at))
        kill(getpid(), SIGKILL);
}

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

#define COUNTED(result, name, parameters, arguments) \
    result name parameters                           \
    {                                                \
        count();                                     \
        return REAL(name) arguments;                 \
    }

COUNTED(int, rename, (const char *from, const char *to), (from, to))
COUNTED(int, unlink, (const char *path), (path))
COUNTED(int, rmdir, (const char *path), (path))
COUNTED(int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
COUNTED(int, mkdir, (const char *path, mode_t mode), (path, mode))
COUNTED(int, chmod, (const char *path, mode_t mode), (path, mode))
COUNTED(int, fchmod, (int fd, mode_t mode), (fd, mode))
COUNTED(int, posix_fallocate, (int fd, off_t from, off_t length), (fd, from, length))
COUNTED(int, ftruncate, (int fd, off_t length), (fd, length))
COUNTED(int, fsync, (int fd), (fd))

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (flags & O_CREAT)
        count();
    return REAL(open64)(path, flags, mode);
}
