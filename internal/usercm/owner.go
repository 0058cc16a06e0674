package usercm

import (
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// changed reports that a write was refused because of the thread's credentials.
var changed atomic.Bool

// Owner is the OS thread that opened a file and writes to it. A nil Owner is any thread.
type Owner struct{ calls chan func() }

// Own calls open, which opens a file, and returns the file's owner.
func Own(open func() error) (*Owner, error) {
	if !changed.Load() {
		return nil, open()
	}
	o := &Owner{make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range o.calls {
			f()
		}
	}()
	var err error
	if o.run(func() { err = open() }); err != nil {
		o.End()
		return nil, err
	}
	return o, nil
}

func (o *Owner) run(f func()) {
	done := make(chan struct{})
	o.calls <- func() { f(); close(done) }
	<-done
}

// Do calls f, which writes to the file, all on one thread: the owner. It returns control.Refused for an EACCES that is
// because of the thread.
func (o *Owner) Do(fd int, f func() error) (err error) {
	if o != nil {
		o.run(func() { err = explain(fd, f()) })
		return err
	}
	runtime.LockOSThread() // for explain
	defer runtime.UnlockOSThread()
	return explain(fd, f())
}

// explain returns control.Refused for an EACCES that is because of the thread, which has to be that of the write.
func explain(fd int, err error) error {
	if err != syscall.EACCES || !uverbs.Refused(fd) {
		return err
	}
	changed.Store(true)
	return control.Refused{}
}

// End ends the thread, after the file is closed.
func (o *Owner) End() {
	if o != nil {
		close(o.calls)
	}
}
