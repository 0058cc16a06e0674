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
	id := newIDOn(t, ch, PortSpaceTCP)
	ok(t, id.Bind(addr))
	dev := must(id.Verbs())(t)
	// One more that rdma_cm knows nothing of, and a CQ that has no channel.
	plain := must(ibv.Open(r.Dev[1]))(t)
	quiet := must(plain.CreateCQ(8, &ibv.CQOptions{NoEvents: true}))(t)
	loud := must(plain.CreateCQ(8, nil))(t)
	waits := make(map[string]chan error)
	for what, cq := range map[string]*ibv.CQ{"who dialed": a.CQ(), "who accepted": b.CQ(), "with ibv alone": loud} {
		ended := make(chan error, 1)
		waits[what] = ended
		go func() {
			_, err := cq.Wait(timeout(t), make([]ibv.WC, 1))
			ended <- err
		}()
	}
	if out, err := exec.Command(emu, "control", "remove", r.Dev[1]).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ev := event(t, ch, EventDeviceRemoval)
	if ev.ID != id || !errors.Is(ev.Err(), ErrDeviceRemoved) {
		t.Errorf("event of %v: %v", ev.ID, ev.Err())
	}
	for _, c := range []*Conn{a, b} {
		<-c.Done()
		if !errors.Is(c.Err(), ErrDeviceRemoved) {
			t.Errorf("the connection ended with %v", c.Err())
		}
	}
	for what, ch := range waits {
		if err := <-ch; !errors.Is(err, ErrDeviceRemoved) {
			t.Errorf("waiting for completions, %s: %v", what, err)
		}
	}
	if _, err := quiet.Wait(timeout(t), make([]ibv.WC, 1)); !errors.Is(err, ErrDeviceRemoved) {
		t.Errorf("waiting for completions without a channel: %v", err)
	}
	if _, err := a.CQ().Wait(timeout(t), make([]ibv.WC, 1)); !errors.Is(err, ErrDeviceRemoved) {
		t.Errorf("waiting once more: %v", err)
	}
	ok(t, quiet.Close())
	ok(t, loud.Close())
	ok(t, plain.Close())
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
