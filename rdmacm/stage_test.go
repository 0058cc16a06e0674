package rdmacm

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
)

// TestStageExplain has each call refused in each stage: those where it belongs keep the errno.
func TestStageExplain(t *testing.T) {
	for op, o := range orders {
		for s := stageNew; s <= stageListening; s++ {
			err := s.explain(op, syscall.EINVAL)
			var st *StateError
			switch is := errors.As(err, &st); {
			case !errors.Is(err, syscall.EINVAL):
				t.Errorf("%s in %d: %v", op, s, err)
			case s >= o.from && s <= o.to:
				if is {
					t.Errorf("%s belongs in %d: %v", op, s, err)
				}
			case !is || st.Late != (s > o.to) || !strings.Contains(st.Need, stageTexts[s]) ||
				strings.HasSuffix(st.Need, "; "):
				t.Errorf("%s in %d: %v", op, s, err)
			}
		}
		if err := stageNew.explain(op, io.EOF); err != io.EOF {
			t.Errorf("%s: %v", op, err)
		}
	}
	if err := stageListening.explain("notify", syscall.EINVAL); err != syscall.EINVAL {
		t.Errorf("a call without an order: %v", err)
	}
	own := &StateError{Op: "bind"}
	if err := stageListening.explain("bind", own); err != own {
		t.Errorf("a StateError: %v", err)
	}
}

// TestProgress has events arrive before the call that began them returns.
func TestProgress(t *testing.T) {
	var p progress
	step := func(want stage, do func()) {
		t.Helper()
		if do(); p.load() != want {
			t.Errorf("the stage is %d, want %d", p.load(), want)
		}
	}
	step(stageBound, func() { p.advance(stageBound) })
	step(stageResolved, func() { p.event(EventAddrResolved) })
	step(stageResolved, func() { p.advance(stageResolving) })
	step(stageBound, func() { p.event(EventAddrError) })
	step(stageResolved, func() { p.event(EventAddrResolved) })
	step(stageRouting, func() { p.advance(stageRouting) })
	step(stageResolved, func() { p.event(EventRouteError) })
	step(stageRouted, func() { p.event(EventRouteResolved) })
	step(stageConnecting, func() { p.advance(stageConnecting) })
	step(stageConnecting, func() { p.event(EventEstablished) })
	step(stageOver, func() { p.event(EventDisconnected) })
}
