package rdmacm

import (
	"errors"
	"net/netip"
	"os/exec"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_CM_ZZDeviceRemoved takes the second device away, for good: it is the last
// test.
func TestRXE_CM_ZZDeviceRemoved(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("takes a device away: runs on the emulated device only (make test-emu)")
	}
	emu := testutil.NeedProgram(t, "emu")
	addr := netip.AddrPortFrom(netip.MustParseAddr(r.IP[1]), 0)
	l := must(Listen(timeout(t), addr.String(), nil))(t)
	a, b := pair(t, l, nil)
	ch := newChannel(t)
	id := newIDOn(t, ch, TCP)
	ok(t, id.Bind(addr))
	dev := must(id.Verbs())(t)
	if out, err := exec.Command(emu, "control", "remove", r.Dev[1]).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ev := event(t, ch, DeviceRemoval)
	if ev.ID != id || !errors.Is(ev.Err(), ErrDeviceRemoved) {
		t.Errorf("event of %v: %v", ev.ID, ev.Err())
	}
	for _, c := range []*Conn{a, b} {
		<-c.Done()
		if !errors.Is(c.Err(), ErrDeviceRemoved) {
			t.Errorf("the connection ended with %v", c.Err())
		}
	}
	if _, err := l.Accept(timeout(t)); !errors.Is(err, ErrDeviceRemoved) {
		t.Errorf("accept: %v", err)
	}
	ok(t, l.Close())
	ok(t, a.Close())
	ok(t, b.Close())
	ok(t, id.Close())
	// Nothing crashes that uses it still.
	if _, err := dev.AllocPD(); !errors.Is(err, ErrClosed) {
		t.Errorf("a PD of the device: %v", err)
	}
	if _, err := Listen(timeout(t), addr.String(), nil); err == nil {
		t.Error("listening on a device that is gone")
	}
	if _, err := ibv.Open(r.Dev[1]); !errors.Is(err, ibv.ErrNoDevice) {
		t.Errorf("opening a device that is gone: %v", err)
	}
	// The other device goes on.
	other := must(Listen(timeout(t), netip.AddrPortFrom(netip.MustParseAddr(r.IP[0]), 0).String(), nil))(t)
	closing(t, other)
	x, y := pair(t, other, nil)
	pingpong(t, rigOf(t, x), rigOf(t, y))
}
