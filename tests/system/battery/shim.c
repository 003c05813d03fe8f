/* Loaded into one process before its libraries: its disk fails or is slow, and its wall clock is wrong, as a file in memory says.
 *
 * The file is named by SHIM_CONTROL and holds `struct control`; whoever changes it is obeyed by the next call. Only files whose path
 * contains `path` are touched, all when it is empty.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    int32_t write_errno, read_errno, sync_errno;
    int32_t write_delay_us, sync_delay_us, short_writes;
    int64_t clock_offset_ms;
    int64_t strikes;
    char path[216];
};

static struct control none;
static struct control *control = &none;

__attribute__((constructor)) static void open_control(void) {
    const char *name = getenv("SHIM_CONTROL");
    int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) control = found;
    close(file);
}

static int touched(int file) {
    char link[64], path[4096];
    if (!control->path[0]) return 1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strstr(path, control->path) != NULL;
}

static int failed(int file, int wanted, int delay_us) {
    if ((!wanted && !delay_us) || !touched(file)) return 0;
    __atomic_add_fetch(&control->strikes, 1, __ATOMIC_RELAXED);
    if (delay_us) usleep(delay_us);
    if (!wanted) return 0;
    errno = wanted;
    return 1;
}

static void *found(void **real, const char *name) {
    if (!*real) *real = dlsym(RTLD_NEXT, name);
    return *real;
}

#define REAL(name) ((typeof(real))found((void **)&real, name))
#define WRITES(name, parameters, arguments)                                                  \
    ssize_t name parameters {                                                                \
        static ssize_t(*real) parameters;                                                    \
        if (failed(file, control->write_errno, control->write_delay_us)) return -1;          \
        return REAL(#name) arguments;                                                        \
    }
#define READS(name, parameters, arguments)                                                   \
    ssize_t name parameters {                                                                \
        static ssize_t(*real) parameters;                                                    \
        if (failed(file, control->read_errno, 0)) return -1;                                 \
        return REAL(#name) arguments;                                                        \
    }
#define SYNCS(name)                                                                          \
    int name(int file) {                                                                     \
        static int (*real)(int);                                                             \
        if (failed(file, control->sync_errno, control->sync_delay_us)) return -1;            \
        return REAL(#name)(file);                                                            \
    }

/* A write of which only the first half arrives, and then the error: what a full disk leaves behind. */
#define HALF_WRITES(name)                                                                    \
    ssize_t name(int file, const void *data, size_t size, off64_t at) {                      \
        static ssize_t (*real)(int, const void *, size_t, off64_t);                          \
        if (control->short_writes && control->write_errno && touched(file)) REAL(#name)(file, data, size / 2, at); \
        if (failed(file, control->write_errno, control->write_delay_us)) return -1;          \
        return REAL(#name)(file, data, size, at);                                            \
    }

HALF_WRITES(pwrite)
HALF_WRITES(pwrite64)
WRITES(pwritev, (int file, const struct iovec *some, int count, off_t at), (file, some, count, at))
WRITES(pwritev64, (int file, const struct iovec *some, int count, off64_t at), (file, some, count, at))
WRITES(pwritev2, (int file, const struct iovec *some, int count, off_t at, int flags), (file, some, count, at, flags))
WRITES(pwritev64v2, (int file, const struct iovec *some, int count, off64_t at, int flags), (file, some, count, at, flags))
READS(pread, (int file, void *data, size_t size, off_t at), (file, data, size, at))
READS(pread64, (int file, void *data, size_t size, off64_t at), (file, data, size, at))
READS(preadv2, (int file, const struct iovec *some, int count, off_t at, int flags), (file, some, count, at, flags))
READS(preadv64v2, (int file, const struct iovec *some, int count, off64_t at, int flags), (file, some, count, at, flags))
SYNCS(fsync)
SYNCS(fdatasync)

int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    int status = REAL("clock_gettime")(which, now);
    int64_t offset_ms = control->clock_offset_ms;
    if (status == 0 && offset_ms && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        int64_t nanoseconds = now->tv_nsec + (offset_ms % 1000) * 1000000;
        now->tv_sec += offset_ms / 1000;
        if (nanoseconds < 0) { nanoseconds += 1000000000; now->tv_sec--; }
        if (nanoseconds >= 1000000000) { nanoseconds -= 1000000000; now->tv_sec++; }
        now->tv_nsec = nanoseconds;
    }
    return status;
}
