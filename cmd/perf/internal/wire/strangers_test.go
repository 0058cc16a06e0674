package wire

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestStrangers: one too many waits until the oldest has had its time, or another one proves itself.
func TestStrangers_Room(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Strangers{Most: 2, Time: 2 * time.Second}
		began := time.Now()
		conn := func() net.Conn {
			here, there := net.Pipe()
			t.Cleanup(func() { here.Close(); there.Close() })
			s.Admit(here)
			return here
		}
		first, second := conn(), conn()
		if spent := time.Since(began); spent != 0 {
			t.Errorf("the first two wait for %v", spent)
		}
		conn()
		if spent := time.Since(began); spent < s.Time || spent > s.Time+100*time.Millisecond {
			t.Errorf("the third waits for %v, want %v", spent, s.Time)
		}
		if _, err := first.Write([]byte{0}); err == nil {
			t.Error("the first one is still there")
		}
		began = time.Now()
		time.AfterFunc(time.Second, func() { s.Known(second) })
		conn()
		if spent := time.Since(began); spent > s.Time/2+100*time.Millisecond {
			t.Errorf("with one that proves itself, the fourth waits for %v", spent)
		}
	})
}
