package wire

import (
	"errors"
	"fmt"
	"syscall"
)

// Errors of an exchange, in addition to *MismatchError.
var (
	// ErrSilent means that the peer sent nothing for too long.
	ErrSilent = errors.New("no message from the peer")
	// ErrClosed means that the peer closed the connection too early.
	ErrClosed = errors.New("the peer closed the connection")
	// ErrInterrupted means that the peer was interrupted, and said so.
	ErrInterrupted = errors.New("the peer was interrupted")
	// ErrGarbage means that the peer sent something that is not perftest's.
	ErrGarbage = errors.New("the peer does not speak perftest's protocol")
	// ErrStranger means that a queue pair was connected to one that is not the peer's.
	ErrStranger = errors.New("a queue pair of another program")
	// ErrBusy means that the server is serving another client.
	ErrBusy error = &MeetError{errors.New("the server is busy with another client")}
	// ErrAgent means that rdmaperf serve listens there, which has to be asked for a server.
	ErrAgent error = &MeetError{errors.New("an rdmaperf serve listens there, not a server: give its port to --agent " +
		"instead of -p; stock programs need a server of their own")}
)

// MeetError is the reason why two ends did not meet over TCP. It says nothing of the devices that they would have
// tested.
type MeetError struct{ Err error }

// Error returns one line.
func (e *MeetError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *MeetError) Unwrap() error { return e.Err }

// ExchangeError names the step of the exchange that failed, and the peer. Err wraps one of the errors above, a
// *MismatchError, or one of the network.
type ExchangeError struct {
	Peer string
	Step string
	Err  error
}

// Error returns one line.
func (e *ExchangeError) Error() string {
	return fmt.Sprintf("exchange with %s, %s: %v", e.Peer, e.Step, e.Err)
}

// Unwrap returns the cause.
func (e *ExchangeError) Unwrap() error { return e.Err }

func isUnreachable(err error) bool {
	return errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// isDead reports whether the kernel gave up on the peer's host.
func isDead(err error) bool { return errors.Is(err, syscall.ETIMEDOUT) || isUnreachable(err) }
