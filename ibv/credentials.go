package ibv

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/bind/libibverbs"
	"github.com/pureverbs/pureverbs/internal/uverbs"
)

// CredentialsError reports that Linux refused a command because the calling thread has other credentials than the
// thread that opened the device file. Each thread of a Go program has its own once the program has called
// syscall.Setuid, Setgid, Setgroups or the like. It wraps EACCES and Err.
//
// Package rdmacm opens its file again, so it returns this error only if that fails. Package ibv returns it where
// commands are written to the device file: with rdma-core before v22, and with Linux before 5.0.
type CredentialsError struct {
	File string // "rdma_cm", or "uverbs of mlx5_0"
	Err  error  // why the file could not be opened again; nil if that does not help
}

func (e *CredentialsError) Error() string {
	s := e.File + ": the kernel refuses this thread, whose credentials are not those of the thread that opened the " +
		"file (setuid, setgid, setgroups or capset changed them): "
	if e.Err != nil {
		return s + "the file cannot be opened again: " + e.Err.Error()
	}
	return s + "use rdma-core v22 or newer and Linux 5.0 or newer, or change the credentials before the program " +
		"starts (User= in a systemd unit, setpriv, syscall.Exec): " + syscall.EACCES.Error()
}

// Unwrap returns EACCES and Err.
func (e *CredentialsError) Unwrap() []error {
	if e.Err == nil {
		return []error{syscall.EACCES}
	}
	return []error{syscall.EACCES, e.Err}
}

// explain returns what an EIO or EACCES of a call on the device means. Every call comes here: see bind.WatchContext.
func (d *Device) explain(err error) error {
	switch err {
	case syscall.EIO:
		return d.explainIO(err)
	case syscall.EACCES:
		if uverbs.Refused(libibverbs.CmdFD(d.handle)) {
			return &CredentialsError{File: "uverbs of " + d.info.Name}
		}
	}
	return err
}
