package rsocket

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// TestRXERsocketCredentials changes the credentials of a process that has rsockets. They cannot go on, but the errors
// say so, data that needs no call of rdma_cm arrives, and closing leaves no descriptor.
func TestRXERsocketCredentials(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !testutil.Alone(t) {
		return
	}
	t.Run("first", func(t *testing.T) {
		a, _ := pair(t)
		// A wait opens a descriptor that librdmacm keeps from then on, and so do its devices.
		if n, err := Poll([]Item{{Socket: a, Events: PollIn}}, time.Millisecond); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	_, release, err := rdmacm.Devices()
	ok(t, err)
	release()
	files := descriptors(t)
	t.Run("changed", func(t *testing.T) {
		a, b := pair(t)
		_, at := newTest(t, Stream)
		ok(t, syscall.Setgroups(nil))
		credentials := func(op string, err error) {
			t.Helper()
			var e *ibv.CredentialsError
			if !errors.As(err, &e) || e.File != "rdma_cm" || !errors.Is(err, syscall.EACCES) {
				t.Errorf("%s: %v", op, err)
			}
		}
		s := closing(t, must(New(DomainINET, Stream))(t))
		testutil.OnThread(func() {
			credentials("bind", s.Bind(at))
			credentials("connect", s.Connect(must(a.RemoteAddr())(t)))
			credentials("option", s.SetReuseAddr())
			if r.Emulated {
				sendAll(t, a, []byte("goes on"))
				got := make([]byte, 7)
				recvAll(t, b, got)
				if string(got) != "goes on" {
					t.Errorf("received %q", got)
				}
			} else { // librxe writes its doorbells
				_, err := a.Send([]byte("stops"))
				credentials("send", err)
			}
		})
	})
	testutil.Eventually(t, "the descriptors are closed", func() bool { return descriptors(t) <= files })
}

func descriptors(t *testing.T) int {
	t.Helper()
	return len(must(os.ReadDir("/proc/self/fd"))(t))
}
