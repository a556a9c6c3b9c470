/* Counts the operations on files below one folder, and at one of them kills the process, or lets the operation fail.

   Loaded with LD_PRELOAD, it lies below Python, Arrow, safetensors and SQLite. A process arms it by `torture_arm`.
   Counted are calls that change files; with `reads`, opening and reading too. A write may be torn: half of it is done. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT = 0, KILL = 1, TEAR = 2, FAIL = 3, FAIL_FROM = 4 };
static char root[PATH_MAX], named[PATH_MAX + 64];
static size_t root_length;
static atomic_long counter;
static long chosen;
static int action, error_number, with_reads, armed, trace = -1;
static unsigned char watched[1 << 16];

void torture_arm(const char *folder, long at, int what, int number, int reads, int trace_to) {
    strncpy(root, folder, sizeof root - 1);
    root_length = strlen(root);
    atomic_store(&counter, 0);
    chosen = at, action = what, error_number = number, with_reads = reads, trace = trace_to, armed = 1;
}
void torture_disarm(void) { armed = 0; }
long torture_count(void) { return atomic_load(&counter); }

static void die(void) { syscall(SYS_kill, syscall(SYS_getpid), SIGKILL); for (;;) pause(); }

static int below(int directory, const char *path) {
    char full[2 * PATH_MAX];
    if (!armed || !path) return 0;
    if (path[0] == '/') return !strncmp(path, root, root_length);
    if (directory != AT_FDCWD) return directory >= 0 && directory < (1 << 16) && watched[directory];
    if (syscall(SYS_getcwd, full, PATH_MAX) < 0) return 0;
    strncat(full, "/", 2);
    strncat(full, path, PATH_MAX - 1);
    return !strncmp(full, root, root_length);
}
static int known(int file) { return armed && file >= 0 && file < (1 << 16) && watched[file]; }

/* Returns 1 if the operation must fail now, 2 if it is to be torn. */
static int step(const char *kind, const char *path) {
    long number = atomic_fetch_add(&counter, 1);
    if (trace >= 0) {
        int length = snprintf(named, sizeof named, "%s %s\n", kind, path ? path : "");
        syscall(SYS_write, trace, named, length);
    }
    if (action == FAIL_FROM && number >= chosen) { errno = error_number; return 1; }
    if (number != chosen) return 0;
    if (action == KILL) die();
    if (action == TEAR) { if (strcmp(kind, "write")) die(); return 2; }
    if (action == FAIL) { errno = error_number; return 1; }
    return 0;
}

#define REAL(name) __typeof__(name) *real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define CHANGES(flags) (((flags) & O_ACCMODE) != O_RDONLY || (flags) & (O_CREAT | O_TRUNC))

#define OPEN_AT(name)                                                                                   \
    int name(int directory, const char *path, int flags, ...) {                                         \
        REAL(name);                                                                                     \
        mode_t mode = 0;                                                                                \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
        int ours = below(directory, path);                                                              \
        if (ours && (CHANGES(flags) || (with_reads && !(flags & O_DIRECTORY))) && step(CHANGES(flags) ? "open" : "open-read", path) == 1) return -1; \
        int file = real(directory, path, flags, mode);                                                  \
        if (file >= 0 && file < (1 << 16)) watched[file] = ours;                                        \
        return file;                                                                                    \
    }
OPEN_AT(openat)
OPEN_AT(openat64)
#define OPEN(name)                                                                                      \
    int name(const char *path, int flags, ...) {                                                        \
        mode_t mode = 0;                                                                                \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
        return openat(AT_FDCWD, path, flags, mode);                                                     \
    }
OPEN(open)
OPEN(open64)
int creat(const char *path, mode_t mode) { return openat(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int close(int file) {
    REAL(close);
    if (file >= 0 && file < (1 << 16)) watched[file] = 0;
    return real(file);
}

#define WRITE(name, size, parameters, arguments, half)                                                  \
    ssize_t name parameters {                                                                           \
        REAL(name);                                                                                     \
        if (known(file)) {                                                                              \
            int now = step("write", NULL);                                                              \
            if (now == 1) return -1;                                                                    \
            if (now == 2) { real half; die(); }                                                         \
        }                                                                                               \
        return real arguments;                                                                          \
    }
WRITE(write, n, (int file, const void *data, size_t n), (file, data, n), (file, data, n / 2))
WRITE(pwrite, n, (int file, const void *data, size_t n, off_t at), (file, data, n, at), (file, data, n / 2, at))
WRITE(pwrite64, n, (int file, const void *data, size_t n, off64_t at), (file, data, n, at), (file, data, n / 2, at))
WRITE(writev, n, (int file, const struct iovec *data, int n), (file, data, n), (file, data, n / 2))

#define READ(name, parameters, arguments)                                                               \
    ssize_t name parameters {                                                                           \
        REAL(name);                                                                                     \
        if (with_reads && known(file) && step("read", NULL) == 1) return -1;                            \
        return real arguments;                                                                          \
    }
READ(read, (int file, void *data, size_t n), (file, data, n))
READ(pread, (int file, void *data, size_t n, off_t at), (file, data, n, at))
READ(pread64, (int file, void *data, size_t n, off64_t at), (file, data, n, at))

#define ON_FILE(name, parameters, arguments)                                                            \
    int name parameters {                                                                               \
        REAL(name);                                                                                     \
        if (known(file) && step(#name, NULL) == 1) return -1;                                           \
        return real arguments;                                                                          \
    }
ON_FILE(fsync, (int file), (file))
ON_FILE(fdatasync, (int file), (file))
ON_FILE(ftruncate, (int file, off_t size), (file, size))
ON_FILE(ftruncate64, (int file, off64_t size), (file, size))

#define ON_PATH(name, directory, parameters, arguments)                                                 \
    int name parameters {                                                                               \
        REAL(name);                                                                                     \
        if (below(directory, path) && step(#name, path) == 1) return -1;                                \
        return real arguments;                                                                          \
    }
ON_PATH(unlink, AT_FDCWD, (const char *path), (path))
ON_PATH(unlinkat, directory, (int directory, const char *path, int flags), (directory, path, flags))
ON_PATH(rmdir, AT_FDCWD, (const char *path), (path))
ON_PATH(mkdir, AT_FDCWD, (const char *path, mode_t mode), (path, mode))
ON_PATH(mkdirat, directory, (int directory, const char *path, mode_t mode), (directory, path, mode))
ON_PATH(rename, AT_FDCWD, (const char *from, const char *path), (from, path))
ON_PATH(renameat, to, (int at, const char *from, int to, const char *path), (at, from, to, path))
ON_PATH(renameat2, to, (int at, const char *from, int to, const char *path, unsigned flags), (at, from, to, path, flags))
ON_PATH(link, AT_FDCWD, (const char *from, const char *path), (from, path))
ON_PATH(truncate, AT_FDCWD, (const char *path, off_t size), (path, size))
