package ibv

import (
	"errors"
	"testing"
)

// raise puts an asynchronous event on the device's descriptor and reads it.
func raise(t *testing.T, d *Device, typ AsyncEventType, element uintptr) {
	t.Helper()
	ok(t, needFake(t).Void("fv_async", d.handle, uintptr(typ), element))
	if ev := must(d.AsyncEvent(timeout(t)))(t); ev.Type != typ {
		t.Fatalf("event %v, want %v", ev, typ)
	}
}

// failed fails the test unless err is the *EventError of an event on an object.
func failed(t *testing.T, err error, typ AsyncEventType, object string) {
	t.Helper()
	var ee *EventError
	if !errors.As(err, &ee) || ee.Event != typ || ee.Object != object {
		t.Errorf("%v, want an *EventError for %v on %s", err, typ, object)
	}
}

// TestFake_CQErrWakes ends the waits for a CQ that failed, on CQs of each kind: after what it still has.
func TestFake_CQErrWakes(t *testing.T) {
	for name, opt := range map[string]*CQOptions{"channel": {Spin: None}, "no channel": {NoEvents: true}} {
		t.Run(name, func(t *testing.T) {
			s := fakeLoop(t, opt, nil)
			waits := make(chan error, 2)
			for range cap(waits) {
				go func() {
					_, err := s.cq.Wait(timeout(t), make([]WC, 1))
					waits <- err
				}()
			}
			raise(t, s.dev, EventCQErr, s.cq.handle)
			for range cap(waits) {
				failed(t, <-waits, EventCQErr, s.cq.String())
			}
			post(t, s.qp, write(s, 1, Signaled), write(s, 2, Signaled))
			n := 0
			for _, err := range s.cq.Completions(timeout(t)) {
				if err != nil {
					failed(t, err, EventCQErr, s.cq.String())
					break
				}
				n++
			}
			if n != 2 {
				t.Errorf("%d completions before the error, want 2", n)
			}
		})
	}
}

// TestFake_CQErrWakesReaders wakes a program that arms, polls and sleeps by WaitEvent or ReadEvents.
func TestFake_CQErrWakesReaders(t *testing.T) {
	s := fakeSide(t, nil)
	ch := closing(t, must(s.dev.CreateManualCompChannel())(t))
	cq := closing(t, must(s.dev.CreateCQ(8, &CQOptions{Channel: ch}))(t))
	seen := cq.Events()
	read, slept := make(chan error), make(chan error)
	go func() { read <- ch.ReadEvents() }()
	go func() { slept <- cq.WaitEvent(timeout(t), seen) }()
	raise(t, s.dev, EventCQErr, cq.handle)
	ok(t, <-read)
	if err := <-slept; err != nil {
		failed(t, err, EventCQErr, cq.String())
	}
	if cq.Events() == seen {
		t.Error("Events has not grown")
	}
	failed(t, cq.WaitEvent(timeout(t), cq.Events()), EventCQErr, cq.String())
}

// TestFake_FatalEndsRest ends the waits for a QP that failed, or whose SRQ or CQ failed. A reset begins anew.
func TestFake_FatalEndsRest(t *testing.T) {
	s := fakeSide(t, &CQOptions{DataPath: DataPathOps})
	srq := closing(t, must(s.pd.CreateSRQ(nil))(t))
	for _, typ := range []AsyncEventType{EventQPFatal, EventSRQErr} {
		t.Run(typ.String(), func(t *testing.T) {
			qp := closing(t, must(s.pd.CreateQP(s.cq, s.cq, &QPOptions{SRQ: srq}))(t))
			element, object := qp.handle, qp.String()
			if typ == EventSRQErr {
				element, object = srq.handle, srq.String()
			}
			for range 2 {
				ok(t, qp.Connect(must(qp.Endpoint(1, 1))(t), nil))
				rested := make(chan error, 1)
				go func() { rested <- qp.Rest(timeout(t)) }()
				raise(t, s.dev, typ, element)
				failed(t, <-rested, typ, object)
				failed(t, qp.Drain(timeout(t), nil), typ, object)
				ok(t, qp.Modify(&QPAttr{}, MaskState))
			}
			ok(t, qp.Connect(must(qp.Endpoint(1, 1))(t), nil))
			raise(t, s.dev, EventQPLastWQEReached, qp.handle)
			raise(t, s.dev, typ, element)
			ok(t, qp.Rest(timeout(t))) // it is at rest, however it came about
		})
	}
}

// TestFake_FatalEndsDrain ends a wait for completions that a failed device does not give.
func TestFake_FatalEndsDrain(t *testing.T) {
	for typ, ends := range map[AsyncEventType]bool{EventQPFatal: true, EventCQErr: true, EventCommEst: false} {
		t.Run(typ.String(), func(t *testing.T) {
			s := fakeLoop(t, &CQOptions{DataPath: DataPathOps}, nil)
			element, object := s.qp.handle, s.qp.String()
			if typ == EventCQErr {
				element, object = s.cq.handle, s.cq.String()
			}
			raise(t, s.dev, typ, element)
			m := marks{qp: s.qp, posted: 1}
			var err error
			for range idleMost + 1 {
				if err = m.pause(timeout(t), 1); err != nil {
					break
				}
			}
			if ends {
				failed(t, err, typ, object)
			} else {
				ok(t, err)
			}
		})
	}
}
