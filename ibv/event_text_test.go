package ibv

import (
	"strings"
	"testing"
)

// Objects of events are those of ibv_get_async_event(3).
func TestAsyncEventType_Object(t *testing.T) {
	want := map[AsyncEventType]eventObject{
		EventCQErr:   eventOfCQ,
		EventQPFatal: eventOfQP, EventQPReqErr: eventOfQP, EventQPAccessErr: eventOfQP, EventCommEst: eventOfQP,
		EventSQDrained: eventOfQP,
		EventPathMig:   eventOfQP, EventPathMigErr: eventOfQP, EventQPLastWQEReached: eventOfQP,
		EventSRQErr: eventOfSRQ, EventSRQLimitReached: eventOfSRQ,
		EventWQFatal:     eventOfWQ,
		EventDeviceFatal: eventOfDevice,
	}
	seen := make(map[string]bool)
	for e := EventCQErr; e <= EventSpeedChange; e++ {
		obj, ok := want[e]
		if !ok {
			obj = eventOfPort
		}
		if e.object() != obj {
			t.Errorf("%v is about a %v, want %v", e, e.object(), obj)
		}
		if s := e.Explain(); s == "" || seen[s] {
			t.Errorf("%v: explanation %q is empty or used twice", e, s)
		}
		seen[e.Explain()] = true
	}
	if u := AsyncEventType(99); u.object() != eventOfPort || !strings.Contains(u.Explain(), "does not know") {
		t.Errorf("unknown: %v, %q", u.object(), u.Explain())
	}
}

func TestAsyncEvent_String(t *testing.T) {
	qp, cq, srq := new(QP), new(CQ), new(SRQ)
	qp.kind, qp.name = "qp", "rxe0/0x000011"
	cq.kind, cq.name = "cq", "rxe0"
	srq.kind, srq.name = "srq", "rxe0"
	for _, tt := range []struct {
		e    AsyncEvent
		want string
	}{
		{AsyncEvent{Type: EventPortErr, Port: 1, device: "rxe0"}, "PortErr on rxe0 port 1: " + EventPortErr.Explain()},
		{AsyncEvent{Type: EventSpeedChange, device: "rxe0"}, "SpeedChange on rxe0: " + EventSpeedChange.Explain()},
		{AsyncEvent{Type: EventDeviceFatal, device: "rxe0"}, "DeviceFatal on rxe0: " + EventDeviceFatal.Explain()},
		{AsyncEvent{Type: EventQPFatal, QP: qp, device: "rxe0"}, "QPFatal on qp of rxe0/0x000011: " +
			EventQPFatal.Explain()},
		{AsyncEvent{Type: EventQPFatal, device: "rxe0"}, "QPFatal on a qp of rxe0: " + EventQPFatal.Explain()},
		{AsyncEvent{Type: EventCQErr, CQ: cq, device: "rxe0"}, "CQErr on cq of rxe0: " + EventCQErr.Explain()},
		{AsyncEvent{Type: EventSRQLimitReached, SRQ: srq, device: "rxe0"}, "SRQLimitReached on srq of rxe0: " +
			EventSRQLimitReached.Explain()},
		{AsyncEvent{Type: 99, Port: 3, device: "rxe0"}, "AsyncEventType(99) on rxe0 port 3: " +
			AsyncEventType(99).Explain()},
	} {
		if got := tt.e.String(); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}
