// Package session opens what a test needs and brings it up with the peer: the device, memory, CQs,
// queue pairs, and perftest's steps before, between and after the runs. It moves no message of the
// test.
//
//	session.go   Open and Close: the order of it all
//	device.go    the device, and what it decides
//	memory.go    where messages come from and go to
//	connected.go queue pairs of a connection: how they are made and connected; datagram.go has those of UD
//	queues.go    the CQs of each thread
//	shelf.go     a device and memory that stay open between sessions
//	pacing.go    how fast the adapter lets them send
//	shared.go    what queue pairs share: a queue of receives, the domain of XRC
//	way.go       the two ways to meet: sockets.go, cm.go
//	exchange.go  the steps with the peer
//	setup.go     what was agreed on, for people
//
// A Session has one peer. A server of several clients has a Session for each; threads share one and divide its Pairs.
package session
