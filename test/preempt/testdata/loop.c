/*
 * The direct path's loop in C, on plain memory: build a WQE of an RDMA write, doorbell record, register, then read
 * the completion, which the loop itself writes. loop SECONDS LOAD; LOAD is alone, alloc or busy.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 1024, TURN = 16, SUB = 32, BUCKETS = 64 + 58 * SUB };

static uint64_t hist[BUCKETS];

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Processor time of all threads. */
static uint64_t cpu_now(void)
{
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	return (uint64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000 + (uint64_t)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000;
}

static int bucket(uint64_t v)
{
	if (v < 64)
		return (int)v;
	int e = 64 - __builtin_clzll(v) - 6;
	return 64 + (e - 1) * SUB + (int)(v >> e) - SUB;
}

static struct { uint64_t id, mark; } slots[BLOCKS];
static uint64_t sq[BLOCKS * 8] __attribute__((aligned(64))), cq[BLOCKS * 8] __attribute__((aligned(64)));
static volatile uint32_t db[2], cqdb[2];
static volatile uint64_t reg[8];
static atomic_int stop;

static void fence(void)
{
#ifdef __x86_64__
	__asm__ volatile("sfence" ::: "memory");
#else
	__asm__ volatile("dsb st" ::: "memory");
#endif
}

struct wc { uint64_t id; uint32_t status, opcode, qpn, len; };

static void post(uint32_t *cur, uint64_t id)
{
	uint64_t *w = &sq[(*cur % BLOCKS) * 8];
	uint64_t ctrl = __builtin_bswap64((uint64_t)(*cur & 0xffff) << 40 | 0x08ull << 32 | 0x123 << 8 | 3);
	w[0] = ctrl;
	w[1] = __builtin_bswap64(8ull << 32);
	w[2] = __builtin_bswap64(4);
	w[3] = __builtin_bswap64(5ull << 32);
	w[4] = __builtin_bswap64(64ull << 32 | 3);
	w[5] = __builtin_bswap64(1);
	slots[*cur % BLOCKS].id = id;
	slots[*cur % BLOCKS].mark = *cur;
	++*cur;
	__asm__ volatile("" ::: "memory");
	db[1] = __builtin_bswap32(*cur & 0xffff);
	fence();
	reg[0] = ctrl;
	fence();
}

static void complete(uint32_t i)
{
	uint64_t v = 0x08ull << 56 | 0x123ull << 32 | (uint64_t)(i & 0xffff) << 16 | (i / BLOCKS & 1);
	*(volatile uint64_t *)&cq[(i % BLOCKS) * 8 + 7] = __builtin_bswap64(v);
}

static int poll(uint32_t *ci, struct wc *wc)
{
	uint64_t v = __builtin_bswap64(*(volatile uint64_t *)&cq[(*ci % BLOCKS) * 8 + 7]);
	if ((v & 0xff) >> 4 == 0xf || (v & 1) != (*ci / BLOCKS & 1))
		return 0;
	uint32_t at = (v >> 16 & 0xffff) % BLOCKS;
	wc->id = slots[at].id;
	wc->status = 0;
	wc->opcode = 1;
	wc->qpn = v >> 32 & 0xffffff;
	++*ci;
	cqdb[0] = __builtin_bswap32(*ci & 0xffffff);
	return 1;
}

static void *busy(void *arg)
{
	volatile uint64_t n = 0;
	(void)arg;
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		n++;
	return NULL;
}

/* A megabyte in pieces every millisecond, of which 64 MiB live. */
static void *alloc(void *arg)
{
	enum { LIVE = 1 << 18 };
	void **live = calloc(LIVE, sizeof *live);
	uint32_t at = 0;
	(void)arg;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		for (int i = 0; i < 4096; i++) {
			uint32_t k = at++ * 2654435761u % LIVE;
			free(live[k]);
			live[k] = calloc(1, 256);
		}
		usleep(1000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	const char *load = argc > 2 ? argv[2] : "alone";
	long threads = 0;
	void *(*what)(void *) = NULL;
	if (!strcmp(load, "busy"))
		threads = 2 * sysconf(_SC_NPROCESSORS_ONLN), what = busy;
	if (!strcmp(load, "alloc"))
		threads = 1, what = alloc;
	pthread_t t[threads + 1];
	for (long i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, what, NULL))
			return 1;
	for (int i = 0; i < BLOCKS; i++)
		cq[i * 8 + 7] = __builtin_bswap64(0xf0);
	uint32_t cur = 0, ci = 0;
	struct wc wc;
	uint64_t cpu0 = cpu_now();
	uint64_t turns = 0, max = 0, start = now(), last = start, end = start + (uint64_t)(seconds * 1e9);
	while (last < end) {
		for (int i = 0; i < TURN; i++) {
			post(&cur, cur);
			complete(cur - 1);
			while (!poll(&ci, &wc))
				;
		}
		uint64_t t1 = now(), d = t1 - last;
		last = t1;
		hist[bucket(d)]++;
		if (d > max)
			max = d;
		turns++;
	}
	uint64_t cpu = cpu_now() - cpu0;
	atomic_store(&stop, 1);
	for (long i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	printf("%llu %llu %llu %llu", (unsigned long long)turns, (unsigned long long)(last - start), (unsigned long long)max,
	       (unsigned long long)cpu);
	for (int i = 0; i < BUCKETS; i++)
		if (hist[i])
			printf(" %d:%llu", i, (unsigned long long)hist[i]);
	printf("\n");
	return 0;
}
