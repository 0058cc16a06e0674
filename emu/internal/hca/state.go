//go:build linux

package hca

import "github.com/pureverbs/pureverbs/emu/internal/config"

// QPType is the transport, with the kernel's numbers.
type QPType uint8

// Transports.
const (
	RC        QPType = 2
	UC        QPType = 3
	UD        QPType = 4
	RawPacket QPType = 8
	XRCSend   QPType = 9
	XRCRecv   QPType = 10
	DCI       QPType = 11 // numbers of this emulator: to the interface both are DRIVER
	DCT       QPType = 12
	WorkQueue QPType = 13 // the receive queue of a WQ
	DriverQP  QPType = 255
)

// Connected reports whether a QP of the type is connected to another one. C: is_qp_type_connected.
func (t QPType) Connected() bool { return t == RC || t == UC || t == XRCSend || t == XRCRecv }

// rings reports whether a QP of the type has queues and doorbells of its own.
func (t QPType) rings() bool { return t != XRCRecv && t != DCT }

var typeNames = map[QPType]string{RC: "RC", UC: "UC", UD: "UD", RawPacket: "RAW_PACKET", XRCSend: "XRC_SEND",
	XRCRecv: "XRC_RECV", DCI: "DCI", DCT: "DCT", WorkQueue: "WQ", DriverQP: "DRIVER"}

func (t QPType) String() string { return config.Name("QPType", typeNames, t) }

// QPState is a QP's state, with the kernel's numbers.
type QPState uint8

// States.
const (
	Reset QPState = iota
	Init
	RTR
	RTS
	SQD
	SQE
	Err
)

var stateNames = map[QPState]string{Reset: "RESET", Init: "INIT", RTR: "RTR", RTS: "RTS", SQD: "SQD", SQE: "SQE",
	Err: "ERR"}

func (s QPState) String() string { return config.Name("QPState", stateNames, s) }
