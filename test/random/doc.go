// Package random holds a randomised differential test: programs of random verbs on up to 64 queue pairs, compared with
// a model in memory that predicts each completion and each byte. It runs wherever there are two devices, on either data
// path. A failure prints the seed, which alone reproduces the program.
//
// The memory of each end is of a kind that its device has: pinned, on demand, implicit, a dma-buf or in the device. QPs
// with memory in the device keep short payloads out of completions, from which the CPU would copy them.
//
//	PUREVERBS_SEED=n      the first seed, instead of 1
//	PUREVERBS_SOAK=n|d    so many operations, or for so long a time
package random
