package rdma

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_ZZRemoval takes the second device away, for good: it is the last test.
func TestRXE_ZZRemoval(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("takes a device away: runs on the emulated device only (make test-emu)")
	}
	server, client := newEngines(t, nil)
	a, b := connsAlive(t, server, client, time.Second) // of the removal b hears nothing but that
	defer a.Close()
	defer b.Close()
	echo(t, a, b)
	p, err := ListenPacket(timeout(t), net.JoinHostPort(r.IP[1], "0"), &Options{Engine: client})
	ok(t, err)
	defer func() { ok(t, p.Close()) }()
	r.Fault(t, "device-removal:count=1,device="+r.Dev[1])
	if _, _, err := p.ReadFrom(make([]byte, 1)); err == nil || errors.Is(err, net.ErrClosed) {
		t.Errorf("a datagram: %v", err)
	}
	for err := error(nil); err == nil; {
		err = a.Send(timeout(t), make([]byte, 1000))
	}
	<-a.Done()
	<-b.Done()
	var own *DeviceError
	if !errors.As(a.Err(), &own) || own.Device != r.Dev[1] || errors.Is(a.Err(), ErrPeerGone) {
		t.Errorf("the end on the device: %v, want a *DeviceError of %s", a.Err(), r.Dev[1])
	}
	if !errors.Is(b.Err(), ErrPeerGone) {
		t.Errorf("the other end: %v, want ErrPeerGone", b.Err())
	}
}
