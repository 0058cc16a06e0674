package dma

import (
	"runtime"
	"testing"
)

// Pinned memory is not collected, even if nobody else knows of it; afterwards it is. Other memory is left alone.
func TestPin(t *testing.T) {
	freed := make(chan struct{})
	pin := func() *Pinned {
		b := make([]byte, 100)
		runtime.AddCleanup(&b[0], func(struct{}) { close(freed) }, struct{}{})
		return Pin(b)
	}
	p := pin()
	for range 3 {
		runtime.GC()
	}
	select {
	case <-freed:
		t.Fatal("pinned memory was collected")
	default:
	}
	p.Unpin()
	for done := false; !done; {
		runtime.GC()
		select {
		case <-freed:
			done = true
		default:
		}
	}
	m, err := Alloc(100, nil)
	if err != nil {
		t.Fatal(err)
	}
	Pin(m.Bytes()).Unpin()
	if err := m.Free(); err != nil {
		t.Error(err)
	}
	(*Pinned)(nil).Unpin()
}
