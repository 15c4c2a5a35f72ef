/* Preloaded into the emulator, sets the time of day that the emulated program reads 20 years ahead:
 * times of 32 bits end in 2038. */

#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
	int result = (int)syscall(SYS_clock_gettime, clock, now);

	if (result == 0 && clock == CLOCK_REALTIME)
		now->tv_sec += 20L * 365 * 24 * 3600;
	return result;
}
