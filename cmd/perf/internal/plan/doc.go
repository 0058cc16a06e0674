// Package plan describes what will be run: Options are the wish of the command line, New checks them once and completes
// them to a Plan, which nothing changes after that. It opens no device and talks to no peer.
//
//	options.go    what can be asked for, and what leaves the choice to somebody else
//	plan.go       the Plan, and what follows from it
//	defaults.go   what perftest does without an option
//	check.go      what does not go together
//	threads.go    how queue pairs are divided among threads
//	rails.go      several devices and servers
//	dualport.go   both ports of a device
//	shared.go     queue pairs of one direction, and receives that are shared
//
// Values that only the device or the peer can decide (the path MTU, outstanding reads, the inline size) are not here:
// see session.Setup.
package plan
