/*
 * A libcuda.so.1 with FAKE_GPUS GPUs, 2 if it is not set. Their memory is of memfds, of which Export gives a duplicate:
 * to a device that takes a memfd for a dma-buf it is one. FAKE_NO_DMABUF makes GPUs without. FAKE_FAIL names a function
 * that fails with code FAKE_CODE, 999 if it is not set. FAKE_MEMORY bounds an allocation. FAKE_LOG names a file that
 * gets a line for each object that comes or goes. Each call of a function that works on memory needs a current context,
 * as CUDA does, and any thread may make it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef unsigned long long ptr;

static __thread void *current;
static int retained, allocated, ready;

static int fails(const char *name)
{
	const char *f = getenv("FAKE_FAIL"), *c = getenv("FAKE_CODE");

	return f && !strcmp(f, name) ? (c ? atoi(c) : 999) : 0;
}

#define CALL(cond, code) \
	do { \
		int e_ = fails(__func__); \
		if (e_) \
			return e_; \
		if (!(cond)) \
			return code; \
	} while (0)

static void note(const char *what)
{
	const char *f = getenv("FAKE_LOG");
	FILE *log = f ? fopen(f, "a") : NULL;

	if (log) {
		fprintf(log, "%s\n", what);
		fclose(log);
	}
}

static int count(void)
{
	const char *n = getenv("FAKE_GPUS");

	return n ? atoi(n) : 2;
}

/* What is left: the test looks at it. */
int fake_left(void) { return retained * 1000 + allocated; }

int cuInit(unsigned flags)
{
	CALL(flags == 0, 1);
	if (count() == 0)
		return 100;
	ready = 1;
	return 0;
}

int cuDeviceGetCount(int *n)
{
	CALL(ready, 3);
	*n = count();
	return 0;
}

int cuDeviceGet(int *dev, int n)
{
	CALL(ready && n >= 0 && n < count(), 101);
	*dev = n + 40; /* a handle, no ordinal */
	return 0;
}

int cuDeviceGetByPCIBusId(int *dev, const char *id)
{
	unsigned dom, bus, slot, fn;

	CALL(ready, 3);
	if (sscanf(id, "%x:%x:%x.%x", &dom, &bus, &slot, &fn) != 4)
		return 1;
	if (dom || slot || fn || (int)bus >= count())
		return 101;
	*dev = bus + 40;
	return 0;
}

int cuDeviceGetName(char *name, int len, int dev)
{
	CALL(dev >= 40, 101);
	snprintf(name, len, "Fake GPU %d", dev - 40);
	return 0;
}

int cuDeviceGetAttribute(int *v, int attr, int dev)
{
	CALL(dev >= 40 && attr == 124, 1);
	*v = !getenv("FAKE_NO_DMABUF");
	return 0;
}

int cuDevicePrimaryCtxRetain(void **ctx, int dev)
{
	CALL(dev >= 40, 101);
	*ctx = (void *)(intptr_t)(dev * 16);
	retained++;
	note("+context");
	return 0;
}

int cuDevicePrimaryCtxRelease_v2(int dev)
{
	CALL(dev >= 40 && retained > 0, 101);
	retained--;
	note("-context");
	return 0;
}

int cuCtxSetCurrent(void *ctx)
{
	CALL(ctx, 201);
	current = ctx;
	return 0;
}

static struct { ptr at; size_t size; int fd; } blocks[16];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int take(ptr *p, size_t size)
{
	const char *most = getenv("FAKE_MEMORY");
	void *at;
	int i, fd;

	if (most && size > strtoull(most, NULL, 10))
		return 2;
	for (i = 0; i < 16 && blocks[i].at; i++)
		;
	if (i == 16)
		return 2;
	fd = memfd_create("fakegpu", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (size + 4095) & ~4095ul))
		return 2;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return 2;
	blocks[i].at = *p = (ptr)(uintptr_t)at;
	blocks[i].size = size;
	blocks[i].fd = fd;
	allocated++;
	note("+memory");
	return 0;
}

int cuMemAlloc_v2(ptr *p, size_t size)
{
	int e;

	CALL(current && size, current ? 1 : 201);
	pthread_mutex_lock(&lock);
	e = take(p, size);
	pthread_mutex_unlock(&lock);
	return e;
}

static int find(ptr p, size_t n)
{
	for (int i = 0; i < 16; i++)
		if (blocks[i].at && p >= blocks[i].at && p + n <= blocks[i].at + blocks[i].size)
			return i;
	return -1;
}

static int block(ptr p, size_t n)
{
	int i;

	pthread_mutex_lock(&lock);
	i = find(p, n);
	pthread_mutex_unlock(&lock);
	return i;
}

int cuPointerSetAttribute(const void *v, int attr, ptr p)
{
	CALL(current && attr == 6 && *(const unsigned *)v == 1 && block(p, 0) >= 0, 1);
	return 0;
}

int cuMemFree_v2(ptr p)
{
	int i;

	CALL(current, 201);
	pthread_mutex_lock(&lock);
	i = find(p, 0);
	if (i >= 0 && blocks[i].at == p) {
		munmap((void *)(uintptr_t)p, blocks[i].size);
		close(blocks[i].fd);
		memset(&blocks[i], 0, sizeof blocks[i]);
		allocated--;
		note("-memory");
	} else {
		i = -1;
	}
	pthread_mutex_unlock(&lock);
	return i < 0;
}

int cuMemcpyHtoD_v2(ptr dst, const void *src, size_t n)
{
	CALL(current && block(dst, n) >= 0, 1);
	memcpy((void *)(uintptr_t)dst, src, n);
	return 0;
}

int cuMemcpyDtoH_v2(void *dst, ptr src, size_t n)
{
	CALL(current && block(src, n) >= 0, 1);
	memcpy(dst, (void *)(uintptr_t)src, n);
	return 0;
}

int cuMemGetHandleForAddressRange(void *handle, ptr p, size_t size, int type, unsigned long long flags)
{
	int i;

	CALL(current && type == 1 && flags == 0 && !(p & 4095) && !(size & 4095), 1);
	i = block(p, size);
	if (i < 0)
		return 1;
	if (getenv("FAKE_NO_DMABUF"))
		return 801;
	*(int *)handle = dup(blocks[i].fd);
	note("export");
	return 0;
}

int cuGetErrorString(int code, const char **s)
{
	*s = code == 2 ? "out of memory" : code == 801 ? "operation not supported" : "fake error";
	return 0;
}
