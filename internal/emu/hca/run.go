//go:build linux

package hca

// The engine's own state of each object; nothing but the engine touches it. The fields are the engine's to define.

// UARRun is the engine's state of a doorbell page.
type UARRun struct{}

// QPRun is the engine's state of a QP.
type QPRun struct{}

// CQRun is the engine's state of a CQ.
type CQRun struct{}

// SRQRun is the engine's state of an SRQ.
type SRQRun struct{}

// KeyRun is the engine's state of a memory key (strict mode: the registered mapping's fingerprint).
type KeyRun struct{}
