package rdmacm

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// TestRXE_CM_EventReadFails lets the reading of events fail now and then: nobody is to notice.
func TestRXE_CM_EventReadFails(t *testing.T) {
	for _, fault := range []string{"enomem:cmd=cm_get_event,count=1", "eio:cmd=cm_get_event,count=2", "enomem:cmd=cm_get_event,every=3"} {
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

// TestRXE_CM_EventReadFailsForGood ends what waits for events that cannot be read any more; what is begun afterwards works.
func TestRXE_CM_EventReadFailsForGood(t *testing.T) {
	for name, errno := range map[string]syscall.Errno{"ebadf": syscall.EBADF, "eacces": syscall.EACCES, "eio": syscall.EIO} {
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
