package pingpong

import (
	"fmt"
	"strconv"
	"time"
)

// ExchangeError reports an exchange of addresses that failed.
type ExchangeError struct {
	Step string // "read the peer's address"
	Peer string // TCP address
	Err  error
}

func (e *ExchangeError) Error() string {
	return fmt.Sprintf("exchange with %s: %s: %v", e.Peer, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *ExchangeError) Unwrap() error { return e.Err }

// MessageError reports a message that violates the protocol.
type MessageError struct {
	Field string // "qpn"
	Got   string // shortened
	Want  string
}

func (e *MessageError) Error() string {
	return fmt.Sprintf("%s: got %s, want %s", e.Field, e.Got, e.Want)
}

func quote(b []byte) string {
	if len(b) > 32 {
		return strconv.Quote(string(b[:32])) + "…"
	}
	return strconv.Quote(string(b))
}

// LengthError reports a message of the wrong length.
type LengthError struct {
	Message   int // counting from 0
	Got, Want int // bytes
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("message %d has %d bytes, want %d: give both sides the same -s", e.Message, e.Got, e.Want)
}

// PayloadError reports a message with other bytes than were sent.
type PayloadError struct {
	Message   int // counting from 0
	Offset    int // of the first wrong byte
	Got, Want byte
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("message %d: byte %d is %#02x, want %#02x (does the peer have -c too?)", e.Message,
		e.Offset, e.Got, e.Want)
}

// StallError is returned when no message was sent or received within the timeout.
type StallError struct {
	After          time.Duration
	Sent, Received int
	Iters          int
}

func (e *StallError) Error() string {
	return fmt.Sprintf("no completion for %v, after %d messages sent and %d received of %d: the peer is gone, or a "+
		"message was lost", e.After, e.Sent, e.Received, e.Iters)
}

// Timeout is true, as for the timeouts of package net.
func (e *StallError) Timeout() bool { return true }
