package librdmacm

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/uverbs"
)

// Linux refuses a write to rdma_cm's file by a thread whose credentials are not those of the thread that opened it (see
// package uverbs), and librdmacm writes all its commands. So once a write was refused, CreateEventChannel opens the
// file on an OS thread of the channel's own, on which all commands of the channel are then called. A process that
// never changes its credentials has no such thread.

var (
	changed atomic.Bool // a write was refused
	threads sync.Map    // the *thread of a channel that has one, by the channel's address
)

// thread is an OS thread that calls functions one at a time.
type thread struct{ calls chan func() }

func newThread() *thread {
	t := &thread{make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range t.calls {
			f()
		}
	}()
	return t
}

func (t *thread) do(f func()) {
	done := make(chan struct{})
	t.calls <- func() { f(); close(done) }
	<-done
}

// channelOf returns the channel of an ID.
func channelOf(id uintptr) uintptr { return cmem.At[abi.RDMACMID](id).Channel }

// on calls f, which writes to the file of a channel, on the channel's thread.
func on(ch uintptr, f func() error) (err error) {
	try := func() {
		if err = f(); err == syscall.EACCES && uverbs.Refused(fdOf(ch)) {
			changed.Store(true)
			err = control.Refused{}
		}
	}
	if t, ok := threads.Load(ch); ok {
		t.(*thread).do(try)
		return err
	}
	runtime.LockOSThread() // for Refused
	defer runtime.UnlockOSThread()
	try()
	return err
}

// write calls a function that returns 0, or -1 and sets errno, and writes to the file of a channel.
//
//go:uintptrescapes
func (l Lib) write(ch uintptr, name string, args ...uintptr) error {
	return on(ch, func() error { return l.lib.Minus1(name, args...) })
}
