package rdma

import (
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/leak"
)

// TestRXE_LeaksRecorded: each kind of object that the program has to close is recorded, with the place that made it,
// until it is closed.
func TestRXE_LeaksRecorded(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, nil)
	recorded := func(want int, what string) {
		t.Helper()
		n := 0
		for _, open := range leak.Open() {
			if strings.HasPrefix(open, what) && strings.Contains(open, t.Name()) {
				n++
			}
		}
		if n != want {
			t.Errorf("%d objects recorded as %q, want %d", n, what, want)
		}
	}
	recorded(2, "engine of ")
	a, b := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
	recorded(2, "connection to ")
	recorded(0, "listener at ")
	lease, region := lend(t, a, b, buffer(t, client, 100), MayRead, time.Minute)
	recorded(1, "lease to ")
	recorded(1, "region of ")
	ok(t, region.Return(timeout(t)))
	if _, err := lease.Wait(timeout(t)); err != nil {
		t.Error(err)
	}
	recorded(0, "lease to ")
	recorded(0, "region of ")
	_, region = lend(t, a, b, buffer(t, client, 100), MayRead, time.Minute)
	ok(t, a.Close())
	<-region.Done()
	recorded(0, "region of ")
	recorded(1, "connection to ")
	ok(t, b.CloseNow())
	recorded(0, "connection to ")
	s, r := streams(t, server, client)
	recorded(2, "stream to ")
	ok(t, s.Close())
	ok(t, r.Close())
	recorded(0, "stream to ")
	p, q := packets(t, server, client)
	recorded(2, "packet socket at ")
	ok(t, p.Close())
	ok(t, q.Close())
	recorded(0, "packet socket at ")
}
