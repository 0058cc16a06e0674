package ibv

import (
	"errors"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Credentials changes the credentials of a process that has opened a device, by each call that can: all verbs
// go on, on whatever thread.
func TestRXE_Credentials(t *testing.T) {
	testutil.NeedRXE(t)
	if !testutil.Alone(t) {
		return
	}
	testutil.OnThreads(t)
	for _, opt := range []QPOptions{{MaxSendWR: 8}, {MaxSendWR: 8, SendOps: SendOpWrite}} {
		s := newSide(t, 0, nil)
		qp := s.loop(t, &opt)
		id := uint64(0)
		for i, change := range testutil.Changes {
			ok(t, change.Do())
			testutil.OnThread(func() {
				ok(t, s.cq.Resize(100<<(i%2)))
				for range 20 { // more than the queue holds
					post(t, qp, SendWR{ID: id, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 8)},
						Remote: s.mr.Remote().At(64)})
					s.good(t, id)
					id++
				}
				ok(t, s.newQP(t, nil).Close())
			})
		}
	}
}

// TestRXE_CredentialsWrite resizes a CQ on a kernel without the ioctl, which refuses a write by other threads after a
// change.
func TestRXE_CredentialsWrite(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("injects faults: runs on the emulated device only")
	}
	if !testutil.Alone(t) {
		return
	}
	s := newSide(t, 0, &CQOptions{DataPath: DataPathDirect}) // whose CQs libmlx5 does not resize
	const none = "errno=ENOTTY:cmd=resize_cq,count=1"
	r.Fault(t, none)
	ok(t, s.cq.Resize(5000)) // written
	r.Fault(t, none)
	ok(t, syscall.Setgroups(nil))
	testutil.OnThread(func() {
		err := s.cq.Resize(9000)
		if e := (*CredentialsError)(nil); !errors.As(err, &e) || e.File != "uverbs of "+r.Dev[0] ||
			!errors.Is(err, syscall.EACCES) {
			t.Errorf("a resize that must be written: %v", err)
		}
		ok(t, s.cq.Resize(9000))
	})
}
