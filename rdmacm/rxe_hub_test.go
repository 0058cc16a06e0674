package rdmacm

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_CM_EventReadFails lets the reading of events fail now and then: nobody is to notice.
func TestRXE_CM_EventReadFails(t *testing.T) {
	for _, fault := range []string{"enomem:cmd=cm_get_event,count=1", "eio:cmd=cm_get_event,count=2",
		"enomem:cmd=cm_get_event,every=3"} {
		t.Run(fault, func(t *testing.T) {
			emu := needEmu(t)
			l := server(t, nil)
			before, _ := pair(t, l, nil)
			emu(t, "fault", "add", fault)
			defer emu(t, "fault", "clear")
			during, peer := pair(t, l, nil)
			pingpong(t, rigOf(t, during), rigOf(t, peer))
			emu(t, "fault", "clear")
			pair(t, l, nil)
			if before.Err() != nil || during.Err() != nil {
				t.Errorf("the connections ended with %v and %v", before.Err(), during.Err())
			}
			ok(t, l.Close())
		})
	}
}

// TestRXE_CM_EventReadFailsForGood ends what waits for events that cannot be read any more; what is begun afterwards
// works.
func TestRXE_CM_EventReadFailsForGood(t *testing.T) {
	for name, errno := range map[string]syscall.Errno{"ebadf": syscall.EBADF, "eacces": syscall.EACCES,
		"eio": syscall.EIO} {
		t.Run(name, func(t *testing.T) {
			emu := needEmu(t)
			l := server(t, nil)
			a, b := pair(t, l, nil)
			gone := func(what string, err error) {
				t.Helper()
				var e *EventReadError
				if !errors.As(err, &e) || !errors.Is(err, errno) || !strings.Contains(err.Error(), "events") {
					t.Errorf("%s: %v", what, err)
				}
			}
			accepting := make(chan error, 1)
			go func() {
				_, err := l.Accept(timeout(t))
				accepting <- err
			}()
			emu(t, "fault", "add", name+":cmd=cm_get_event,count=0")
			defer emu(t, "fault", "clear")
			// Either hub has to read something to notice.
			_, err := Dial(timeout(t), l.Addr().String(), nil)
			gone("dial", err)
			_ = a.disconnect(false)
			_ = b.disconnect(false)
			for what, c := range map[string]*Conn{"the one that dialed": a, "the one that accepted": b} {
				select {
				case <-c.Done():
					gone(what, c.Err())
				case <-timeout(t).Done():
					t.Fatalf("%s was told nothing", what)
				}
			}
			gone("accept", <-accepting)
			emu(t, "fault", "clear")
			_, err = l.Accept(timeout(t))
			gone("accept, once more", err)
			again := server(t, nil)
			x, y := pair(t, again, nil)
			pingpong(t, rigOf(t, x), rigOf(t, y))
			ok(t, l.Close())
			ok(t, a.Close())
			ok(t, b.Close())
		})
	}
}

// TestRXE_CM_PortDown names the port when nothing comes over it.
func TestRXE_CM_PortDown(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("without a link the kernel finds no way: runs on the emulated device only (make test-emu)")
	}
	l := server(t, nil)
	r.SetLink(t, 0, false)
	_, err := Dial(timeout(t), l.Addr().String(), &Options{Timeout: 300 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, syscall.ENETDOWN) || !strings.Contains(err.Error(),
		"port 1 of "+r.Dev[0]) {
		t.Errorf("dial over a port that is down: %v", err)
	}
	r.SetLink(t, 0, true)
	pair(t, l, nil)
}

// TestRemovedMeanwhile prefers the event that says that the device is gone to the EIO that comes before it.
func TestRemovedMeanwhile(t *testing.T) {
	c := &Conn{done: make(chan struct{})}
	time.AfterFunc(time.Millisecond, func() { c.finish(errOf(EventDeviceRemoval, 0, false, nil)) })
	if err := c.removed(syscall.EIO); !errors.Is(err, ErrDeviceRemoved) || !errors.Is(err, syscall.EIO) {
		t.Errorf("an EIO before the removal: %v", err)
	}
	c = &Conn{done: make(chan struct{})}
	if err := c.removed(syscall.EIO); err != syscall.EIO {
		t.Errorf("an EIO without a removal: %v", err)
	}
	if err := c.removed(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
