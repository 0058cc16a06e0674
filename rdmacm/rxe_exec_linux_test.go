package rdmacm

import (
	"maps"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// files returns what this process has open, by descriptor.
func files(t *testing.T) map[int]string {
	t.Helper()
	list := must(os.ReadDir("/proc/self/fd"))(t)
	open := make(map[int]string)
	for _, f := range list {
		n := must(strconv.Atoi(f.Name()))(t)
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil { // not the folder itself
			open[n] = to
		}
	}
	return open
}

// TestRXE_CM_CloseOnExec: a program that this one executes gets no file of a device, of its events or of rdma_cm.
func TestRXE_CM_CloseOnExec(t *testing.T) {
	r := testutil.NeedRXE(t)
	before := files(t)
	dev := must(ibv.Open(r.Dev[0]))(t)
	ch := must(dev.CreateCompChannel())(t)
	cq := must(dev.CreateCQ(8, nil))(t)
	events := newChannel(t)
	id := newIDOn(t, events, PortSpaceTCP)
	after := files(t)
	maps.DeleteFunc(after, func(n int, to string) bool { return before[n] == to })
	if len(after) < 4 {
		t.Errorf("new files %v, want those of the device, of two kinds of events and of rdma_cm", after)
	}
	for n, to := range after {
		if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s stays open on exec: flags %#x, %v", to, flags, err)
		}
	}
	ok(t, id.Close())
	ok(t, cq.Close())
	ok(t, ch.Close())
	ok(t, dev.Close())
}
