package usercm

import (
	"fmt"
	"syscall"
)

// ReplyError reports a reply that no kernel sends. It wraps EPROTO.
type ReplyError struct {
	Command   Command
	What, Got string
	Want      string
}

func (e *ReplyError) Error() string {
	return fmt.Sprintf("rdma_cm's reply to %v: %s is %s, want %s", e.Command, e.What, e.Got, e.Want)
}

// Unwrap returns EPROTO.
func (e *ReplyError) Unwrap() error { return syscall.EPROTO }

// Writer is an open file of rdma_cm. Write writes a command, which has the address of resp, and returns how many bytes
// were taken.
type Writer interface {
	Write(command, resp []byte) (int, error)
}

// write writes a command. The kernel takes all of it, or returns an error.
func write(w Writer, c Command, message, resp []byte) error {
	for {
		n, err := w.Write(message, resp)
		switch {
		case err == syscall.EINTR:
			continue
		case err == nil && n != len(message):
			return &ReplyError{c, "the length taken", fmt.Sprint(n), fmt.Sprint(len(message))}
		}
		return err
	}
}
