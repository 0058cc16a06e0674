//go:build linux

package fault

import (
	"strconv"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// Kind says what goes wrong.
type Kind uint8

// The kinds. Errno stands for all of `errno=…`, `enomem` and the like.
const (
	None Kind = iota
	RNR
	RetryExceeded
	RemoteAccess
	Flush
	BitFlip
	QPFatal
	MWBind
	PageFault
	ReceiveOrder
	WrongOwner
	CQELost
	CQEDelayed
	CQError
	DoorbellLost
	Errno
	ReplyShort
	ReplyLong
	ReplyRandom
	PortDown
	PortUp
	GIDChange
	DeviceRemoval
	kinds
)

// Point is where a fault happens, and so what after=, every= and count= count.
type Point uint8

// The points.
const (
	AtWQE Point = iota
	AtCQE
	AtDoorbell
	AtCommand
	points
)

var pointNames = map[Point]string{AtWQE: "work request", AtCQE: "completion", AtDoorbell: "doorbell",
	AtCommand: "command"}

func (p Point) String() string { return config.Name("Point", pointNames, p) }

// Info describes a kind, for help and the manual.
type Info struct {
	Name string
	At   Point
	Keys string // its own keys, next to the common ones
	Text string
}

// Kinds describes all kinds, by Kind; entry 0 is empty. Faults of ports and devices count commands in place of work
// requests if they have a cmd= key.
var Kinds = [kinds]Info{
	RNR: {"rnr", AtWQE, "", "the responder has no receive posted: RNR NAK, retried by the QP's own rules"},
	RetryExceeded: {"retry-exceeded", AtWQE, "", "no answer from the responder: completes with transport retry " +
		"counter exceeded"},
	RemoteAccess: {"remote-access", AtWQE, "", "the responder refuses the access: completes with remote access error"},
	Flush:        {"flush", AtWQE, "", "the QP goes to ERR before the work request: it and all after it are flushed"},
	BitFlip:      {"bit-flip", AtWQE, "", "one bit of the payload arrives flipped"},
	QPFatal:      {"qp-fatal", AtWQE, "", "the QP goes to ERR and a QP_FATAL event is raised"},
	MWBind: {"mw-bind", AtWQE, "", "a memory window is not bound or invalidated: completes with MW bind error; other " +
		"work requests are executed"},
	PageFault: {"page-fault", AtWQE, "", "the receive of an SRQ that a message finds has a page fault: the device " +
		"gives it up, and the message takes the next one"},
	ReceiveOrder: {"receive-order", AtWQE, "", "the message takes the second receive of the queue instead of the " +
		"first, which the next message takes"},
	WrongOwner:   {"wrong-owner", AtCQE, "", "the CQE is written with the wrong owner bit: software must not see it"},
	CQELost:      {"cqe-lost", AtCQE, "", "the CQE is never written"},
	CQEDelayed:   {"cqe-delayed", AtCQE, "us=", "the CQE and all after it come us= microseconds later"},
	CQError:      {"cq-error", AtCQE, "", "the CQ breaks: CQ_ERR event, no more completions"},
	DoorbellLost: {"doorbell-lost", AtDoorbell, "", "the write to the doorbell register does not arrive"},
	Errno: {"errno=NAME", AtCommand, "",
		"the command fails with that errno; also short: enomem, eagain, eio, …"},
	ReplyShort: {"reply=short", AtCommand, "", "the second half of each part of the command's answer is not written"},
	ReplyLong: {"reply=long", AtCommand, "", "the command's answer fills all of its room, with ones, and write() " +
		"returns more than it was given"},
	ReplyRandom: {"reply=random", AtCommand, "", "all bytes of the command's answer are random, the same in each run"},
	PortDown:    {"port-down", AtWQE, "port=", "the port goes down: PORT_ERR event, packets are lost"},
	PortUp:      {"port-up", AtWQE, "port=", "the port comes up: PORT_ACTIVE event"},
	GIDChange: {"gid-change", AtWQE, "port=, index=, gid=",
		"an entry of the GID table becomes gid=, or empty: GID_CHANGE event"},
	DeviceRemoval: {"device-removal", AtWQE, "", "the device goes away: DEVICE_FATAL event, commands fail with EIO"},
}

func (k Kind) String() string {
	if k > 0 && k < kinds {
		return Kinds[k].Name
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Machine reports whether the fault befalls a port or a whole device: it is carried out on the device model, not on an
// operation.
func (k Kind) Machine() bool { return k >= PortDown && k <= DeviceRemoval }
