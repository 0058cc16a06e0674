// Package plan describes what will be run: Options are the wish of the command line, New checks them once and completes
// them to a Plan, which nothing changes after that. It opens no device and talks to no peer.
//
//	units.go      units of rates, kinds of memory
//	options.go    what can be asked for, by topic, and what leaves the choice to somebody else; the Plan
//	plan.go       what follows from a Plan
//	defaults.go   what perftest does without an option
//	check.go      what does not go together
//	threads.go    how queue pairs are divided among threads
//	rails.go      several devices and servers
//	dualport.go   both ports of a device
//	shared.go     queue pairs of one direction, and receives that are shared
//	new.go        the order: defaults, checks
//
// Values that only the device or the peer can decide (the path MTU, outstanding reads, the inline size) are not here:
// see session.Setup.
package plan
