/* Makes system calls on the cache's folder fail, for `faults.rs`.
 *
 * Preloaded, it counts the calls that name a path with `ptxkit-v1` in it or use
 * a descriptor that was opened by such a path. The one whose number is in
 * FAULT_CALL fails with FAULT_ERRNO, and with FAULT_FOR_EVER all after it. With
 * FAULT_ONLY, only calls of that name are counted.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int calls;
static atomic_char ours[4096];

static int fails(const char *name) {
    const char *call = getenv("FAULT_CALL"), *number = getenv("FAULT_ERRNO");
    const char *only = getenv("FAULT_ONLY");
    if (only && strcmp(only, name)) return 0;
    int n = atomic_fetch_add(&calls, 1) + 1;
    if (!call || !number) return 0;
    int at = atoi(call);
    if (n != at && !(n > at && getenv("FAULT_FOR_EVER"))) return 0;
    if (getenv("FAULT_TELL")) fprintf(stderr, "fault: %s\n", name);
    errno = atoi(number);
    return 1;
}

static int is_ours(const char *path) { return path && strstr(path, "ptxkit-v1"); }
static int has(int fd) { return fd >= 0 && fd < 4096 && ours[fd]; }

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        int mode = va_arg(rest, int); \
        va_end(rest); \
        if (is_ours(path) && fails(#name)) return -1; \
        int fd = real(path, flags, mode); \
        if (fd >= 0 && fd < 4096) ours[fd] = is_ours(path) != 0; \
        return fd; \
    }
OPEN(open)
OPEN(open64)

#define ON_PATH(name, path, parameters, arguments) \
    int name parameters { \
        REAL(name); \
        if (is_ours(path) && fails(#name)) return -1; \
        return real arguments; \
    }
ON_PATH(mkdir, path, (const char *path, mode_t mode), (path, mode))
ON_PATH(unlink, path, (const char *path), (path))
ON_PATH(rename, to, (const char *from, const char *to), (from, to))

int statx(int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict to) {
    REAL(statx);
    if ((is_ours(path) || has(fd)) && fails("statx")) return -1;
    return real(fd, path, flags, mask, to);
}

#define ON_FILE(type, name, parameters, arguments) \
    type name parameters { \
        REAL(name); \
        if (has(fd) && fails(#name)) return -1; \
        return real arguments; \
    }
ON_FILE(ssize_t, write, (int fd, const void *from, size_t length), (fd, from, length))
ON_FILE(ssize_t, read, (int fd, void *to, size_t length), (fd, to, length))
ON_FILE(off_t, lseek, (int fd, off_t to, int how), (fd, to, how))
ON_FILE(off64_t, lseek64, (int fd, off64_t to, int how), (fd, to, how))
ON_FILE(int, fsync, (int fd), (fd))
ON_FILE(int, ftruncate64, (int fd, off64_t length), (fd, length))
ON_FILE(int, flock, (int fd, int how), (fd, how))
ON_FILE(int, futimens, (int fd, const struct timespec times[2]), (fd, times))
