// Package preempt measures what Go's scheduler and garbage collector cost a loop that posts and polls. The runtime
// interrupts a goroutine that has run for 10 ms, and gives its processor to other goroutines or to the collector.
//
// The loop is the direct path's own code on plain memory, with a device that completes at once, so that only the loop
// is measured. Each turn of 16 work requests is timed. The same loop in C (testdata/loop.c) is measured for comparison.
// Each runs alone, beside a thread that allocates, and beside more busy threads than there are processors.
package preempt
