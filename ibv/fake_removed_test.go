package ibv

import (
	"errors"
	"strings"
	"syscall"
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

// TestFake_RemovedByAnyCall names the removal in the error of every call that fails because of it, whichever comes
// first, and wakes those that wait. Linux's uverbs returns EIO from every command then. A device that is there may
// return EIO also.
func TestFake_RemovedByAnyCall(t *testing.T) {
	s := fakeLoop(t, &CQOptions{Spin: None}, nil)
	srq := closing(t, must(s.pd.CreateSRQ(nil))(t))
	calls := map[string]func() error{
		"ibv_alloc_pd":   func() error { return closed(s.dev.AllocPD()) },
		"ibv_create_cq":  func() error { return closed(s.dev.CreateCQ(8, nil)) },
		"ibv_create_qp":  func() error { return closed(s.pd.CreateQP(s.cq, s.cq, nil)) },
		"ibv_create_srq": func() error { return closed(s.pd.CreateSRQ(nil)) },
		"ibv_modify_qp":  func() error { return s.qp.Modify(&QPAttr{State: StateErr}, MaskState) },
		"ibv_query_qp":   func() error { _, err := s.qp.Query(MaskState); return err },
		"ibv_modify_srq": func() error { return srq.SetLimit(1) },
		"ibv_query_srq":  func() error { _, err := srq.Query(); return err },
		"ibv_reg_mr":     func() error { return closed(s.pd.AllocMR(4096, LocalWrite, nil)) },
		"query_port":     func() error { _, err := s.dev.QueryPort(1); return err },
	}
	for name, call := range calls {
		failing(t, name, syscall.EIO)
		err := call()
		wantErr(t, err, syscall.EIO)
		if errors.Is(err, ErrDeviceRemoved) {
			t.Errorf("%s on a device that is there: %v", name, err)
		}
	}
	wait := make(chan error)
	go func() {
		_, err := s.cq.Wait(timeout(t), make([]WC, 1))
		wait <- err
	}()
	failing(t, "ibv_query_device", syscall.EIO)
	for name, call := range calls {
		err := call()
		wantErr(t, err, syscall.EIO)
		if !errors.Is(err, ErrDeviceRemoved) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(err.Error(), "refused") {
			t.Errorf("%s blames something else: %v", name, err)
		}
	}
	wantErr(t, <-wait, ErrDeviceRemoved)
}
