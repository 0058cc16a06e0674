// Package loop moves messages: post, poll, note the time, and nothing else. It knows queues,
// addresses and a clock; how they came about, what the peer is told and what the figures mean is
// other packages' business.
//
//	link.go       one queue pair at work: what is posted next, and where
//	bandwidth.go  many messages at once
//	credit.go     how many the peer has receives for, where it has to say so
//	latency.go    one message at a time
//	monitor.go    what ends a loop from outside, and what it does while nothing comes
//
// A loop shares nothing with another one but its Monitor's way to be ended: several loops, each
// with links, CQs and a Monitor of its own, can run at the same time. What runs between two
// messages allocates nothing and makes no system call of its own but to wait.
package loop
