// Package preempt measures what Go's scheduler and collector cost a loop that posts and polls: the runtime interrupts a
// goroutine that runs for 10 ms, takes its processor for others that wait, and for the collector.
//
// The loop is the direct path's own code on plain memory, with a device that completes at once, so that nothing but the
// loop is measured. Turns of 16 work requests are timed one by one. Beside it runs the same loop in C
// (testdata/loop.c), and each runs alone, next to a thread that allocates, and next to more busy threads than there are
// processors.
package preempt
