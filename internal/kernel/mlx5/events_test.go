package mlx5

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// TestWait ends an object when its events were acknowledged, and not before.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := new(events), new(count)
		e.init()
		ended := make(chan error, 1)
		e.begin() // a reader has an event and has not counted it
		go func() { ended <- e.wait("destroy_cq", c, 2) }()
		for _, step := range []func(){func() {}, func() { e.note(c) }, func() { e.note(c) }, e.done, func() { e.ack(c, 1) }} {
			step()
			synctest.Wait()
			select {
			case err := <-ended:
				t.Fatalf("the object has ended with %+v: %v", *c, err)
			default:
			}
		}
		e.ack(c, 1)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestWait_Impossible has a kernel that reports more events than anybody has read.
func TestWait_Impossible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := new(events), new(count)
		e.init()
		ended := make(chan error, 1)
		e.begin()
		go func() { ended <- e.wait("destroy_cq", c, 1000) }()
		synctest.Wait()
		e.note(c)
		e.done()
		var reply *uverbs.ReplyError
		if err := <-ended; !errors.As(err, &reply) || reply.Got != 1000 || !errors.Is(err, syscall.EPROTO) {
			t.Errorf("%v", err)
		}
	})
	e, c := new(events), &count{read: 1<<32 - 1, acked: 1<<32 - 1} // the counters wrap
	e.init()
	e.note(c)
	e.ack(c, 1)
	if err := e.wait("destroy_cq", c, 0); err != nil {
		t.Error(err)
	}
}
