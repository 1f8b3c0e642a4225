/* The time of day as this process is to see it: the real one, and as many seconds as stand in the file that
 * CHAOS_CLOCK names, a signed 64-bit number. Loaded before the C library (LD_PRELOAD). Whoever writes the number makes
 * the clock jump at once, for all threads. Clocks that only count, as CLOCK_MONOTONIC, are left alone, as they are when
 * somebody sets the clock of a machine. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void look(void) {
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *seen = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (seen != MAP_FAILED) ahead = seen;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = (int)syscall(SYS_clock_gettime, clock, at);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    int failed = (int)syscall(SYS_gettimeofday, at, zone);
    if (!failed && ahead) at->tv_sec += *ahead;
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
