package ibv

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// CredentialsError reports that Linux refused a command because the calling thread has other credentials than the
// thread that opened the device file. Each thread of a Go program has its own once the program has called
// syscall.Setuid, Setgid, Setgroups or the like. It wraps EACCES and Err.
//
// Package rdmacm opens its file again, so it returns this error only if that fails. Package rsocket returns it from
// every call about a connection, and package ibv where commands are written to the device file: with rdma-core before
// v22, and with Linux before 5.0. The way out is to change the credentials before the program starts: User= in a
// systemd unit, setpriv, or syscall.Exec after the change.
type CredentialsError struct {
	File string // "rdma_cm", or "uverbs of mlx5_0"
	Err  error  // why this package cannot go on
}

func (e *CredentialsError) Error() string {
	return e.File + ": the kernel refuses this thread, because setuid, setgid, setgroups or capset has given it " +
		"other credentials than those of the thread that opened the file: " + e.Err.Error()
}

// Unwrap returns EACCES and Err.
func (e *CredentialsError) Unwrap() []error { return []error{syscall.EACCES, e.Err} }

// errWritten is why there is no way around the kernel's refusal of a verb.
var errWritten = errors.New("this kernel or this libibverbs has no ioctl for it (Linux 5.0, rdma-core v22): change " +
	"the credentials before the program starts")

func (d *Device) credentialsError() error {
	return &CredentialsError{File: "uverbs of " + d.info.Name, Err: errWritten}
}

// explain returns what an errno of a call on the device means. Every call comes here: see control.Explained.
func (d *Device) explain(err error) error {
	switch err {
	case syscall.EIO:
		return d.explainIO(err)
	case syscall.EACCES:
		if uverbs.Refused(d.v.Context(d.handle).CmdFD) {
			return d.credentialsError()
		}
	case syscall.EAGAIN:
		return explainCgroup("/", d.info.Name, hcaObject, err)
	}
	return err
}
