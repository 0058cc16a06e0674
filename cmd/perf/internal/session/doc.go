// Package session opens what a test needs and brings it up with the peer: the device, memory, CQs,
// queue pairs, and perftest's steps before, between and after the runs. It moves no message of the
// test.
//
//	state.go     what a session has open, and the types of it; every file uses it, and it uses none
//	terms.go     what both ends use, and what the queue pairs take from the plan
//	areas.go     where messages are in memory; memory.go makes it, credit.go that of credits
//	queues.go    the CQs of each thread
//	shelf.go     a device and memory that stay open between sessions
//	pacing.go    how fast the adapter lets them send
//	shared.go    what queue pairs share: a queue of receives, the domain of XRC; dc.go, srd.go
//	connected.go queue pairs of a connection: how they are made and connected; datagram.go has those of UD
//	device.go    the device, and what it decides
//	exchange.go  the steps with the peer
//	sockets.go   the way to meet by sockets; cm.go and frames.go have the other ways
//	setup.go     what was agreed on, for people; pairs.go the same for loops
//	session.go   Open and Close: the order of it all
//
// A file uses those above it.
//
// A Session has one peer. A server of several clients has a Session for each; threads share one and divide its Pairs.
package session
