package ibv

import (
	"errors"
	"testing"
)

// TestFake_DeviceFatalWakes ends who waits for completions, on CQs of each kind, when somebody reads that the device
// failed.
func TestFake_DeviceFatalWakes(t *testing.T) {
	for name, opt := range map[string]*CQOptions{"channel": {Spin: None}, "no channel": {NoEvents: true}} {
		t.Run(name, func(t *testing.T) {
			s := fakeLoop(t, opt, nil)
			waits := make(chan error, 2)
			for range 2 {
				go func() {
					_, err := s.cq.Wait(timeout(t), make([]WC, 1))
					waits <- err
				}()
			}
			ok(t, needFake(t).Void("fv_async", s.dev.handle, uintptr(EventDeviceFatal), 0))
			if ev := must(s.dev.AsyncEvent(timeout(t)))(t); ev.Type != EventDeviceFatal {
				t.Fatalf("event %v", ev)
			}
			for range 2 {
				if err := <-waits; !errors.Is(err, ErrDeviceRemoved) {
					t.Errorf("wait: %v", err)
				}
			}
		})
	}
}
