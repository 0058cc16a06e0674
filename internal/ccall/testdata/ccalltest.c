// Functions for the tests of package ccall, in the conventions of the C
// libraries for RDMA and in some that are worse.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

long add3(long a, long b, long c) { return a + b + c; }
long digits6(long a, long b, long c, long d, long e, long f)
{
	return ((((a * 10 + b) * 10 + c) * 10 + d) * 10 + e) * 10 + f;
}

// Eight arguments: the last two are on the stack on amd64.
long weigh(long a, long b, long c, long d, long e, long f, long g, long h)
{
	return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f + 1000000 * g + 10000000 * h;
}

// Returns a pointer, or NULL with errno e (0: forgets to set it).
void *pointer(void *p, int e)
{
	if (e)
		errno = e;
	return p;
}

// Returns an int, with errno e (0: does not touch it).
int result(int r, int e)
{
	if (e)
		errno = e;
	return r;
}

// Returns an int and leaves the upper half of the register dirty, as a C
// function may.
uint64_t dirty(uint32_t r) { return 0xdeadbeef00000000u | r; }

int64_t count(int64_t n) { return n; }

int errno_now(void) { return errno; }

const char *text(int i)
{
	static const char *const texts[] = {"", "IBV_WC_SUCCESS", "größer"};
	return i < 0 || i > 2 ? NULL : texts[i];
}

// Writes the bytes 0, 1, 2 … to the buffer.
int fill(uint8_t *buf, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = (uint8_t)i;
	return 0;
}

// Sets errno, works a while and tells whether it is still the same.
long errno_keeps(long value, long turns)
{
	errno = (int)value;
	for (volatile long i = 0; i < turns; i++)
		;
	return errno == (int)value;
}

static __thread uint64_t thread_value;

// Swaps the thread's value in and out while others do the same on theirs.
long thread_keeps(long value, long turns)
{
	uint64_t old = thread_value;
	thread_value = (uint64_t)value;
	for (volatile long i = 0; i < turns; i++)
		;
	long same = thread_value == (uint64_t)value;
	thread_value = old;
	return same;
}

// Allocates, writes, checks, frees.
long heap_keeps(long n)
{
	uint8_t *p = malloc((size_t)n);
	long same = p != NULL;
	if (p) {
		memset(p, (int)n, (size_t)n);
		for (long i = 0; i < n; i++)
			same &= p[i] == (uint8_t)n;
		free(p);
	}
	return same;
}

// Uses about so many KiB of stack and returns their number.
long __attribute__((noinline)) deep(long kib)
{
	volatile uint8_t page[1024];
	if (kib <= 0)
		return 0;
	for (int i = 0; i < 1024; i += 64)
		page[i] = (uint8_t)kib;
	long n = 1 + deep(kib - 1);
	for (int i = 0; i < 1024; i += 64)
		if (page[i] != (uint8_t)kib)
			return -1;
	return n;
}

// Overwrites registers that C need not keep and Go cares for.
long clobber(void)
{
#if defined(__x86_64__)
	__asm__ volatile("pcmpeqb %%xmm15, %%xmm15\n\tpcmpeqb %%xmm0, %%xmm0\n\t"
			 "mov $-1, %%r8\n\tmov $-1, %%r9\n\tmov $-1, %%r10\n\tmov $-1, %%r11\n\t"
			 "mov $-1, %%rcx\n\tmov $-1, %%rdx\n\tmov $-1, %%rsi\n\tmov $-1, %%rdi"
			 ::: "xmm15", "xmm0", "r8", "r9", "r10", "r11", "rcx", "rdx", "rsi", "rdi");
#elif defined(__aarch64__)
	__asm__ volatile("mov x9, #-1\n\tmov x10, #-1\n\tmov x11, #-1\n\tmov x12, #-1\n\tmov x13, #-1\n\t"
			 "mov x14, #-1\n\tmov x15, #-1\n\tmov x16, #-1\n\tmov x17, #-1\n\tmovi v31.16b, #255"
			 ::: "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "v31");
#endif
	return 42;
}

// Address of a local variable: where the stack is.
uintptr_t stack_here(void)
{
	volatile int here;
	return (uintptr_t)&here;
}

// Calls add3 n times through a pointer that the compiler cannot see through.
long call_loop(long n)
{
	long (*volatile f)(long, long, long) = add3;
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += f(i, 2, 3);
	return sum;
}
