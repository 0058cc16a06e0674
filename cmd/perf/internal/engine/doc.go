// Package engine runs a test from its plan to its result: it opens a session with the peer, makes
// links of its queue pairs, runs the loops between perftest's steps, and takes the figures.
//
//	run.go        Run, its hooks, and its Result
//	bandwidth.go  the steps of bandwidth tests: which meetings, which reports
//	latency.go    the steps of latency tests
//	thread.go     what each thread has, and what all of them did
//	rails.go      several connections side by side
//	links.go      queue pairs of the session become links of the loops
//	guard.go      what ends a loop from outside: the peer leaves, nothing completes
//	verify.go     the payload, after all
package engine
