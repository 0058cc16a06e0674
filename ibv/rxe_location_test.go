package ibv

import (
	"net/netip"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// A device is found by its address, and its counters tell of what was sent.
func TestRXE_OpenByAddress(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rxe.NeedIP(t)
	for i, ip := range rxe.IP {
		dev, e, err := OpenAddr(netip.MustParseAddr(ip))
		ok(t, err)
		if dev.Name() != rxe.Dev[i] || e.Port != rxe.Port || e.Index != rxe.GIDs[i] || e.Netdev != rxe.Net[i] {
			t.Errorf("%s is %s, %+v", ip, dev.Name(), e)
		}
		if best := must(dev.BestGID(rxe.Port))(t); best != e {
			t.Errorf("best is %+v, of the address %+v", best, e)
		}
		v6 := must(dev.BestGIDFunc(rxe.Port, func(e GIDEntry) bool { return !e.GID.IsIPv4Mapped() }))(t)
		if v6.GID.IsIPv4Mapped() || v6.Type != GIDTypeRoCEv2 || v6.Netdev != e.Netdev {
			t.Errorf("best of IPv6 is %+v", v6)
		}
		ok(t, dev.Close())
		dev, same, err := OpenNetdev(rxe.Net[i])
		ok(t, err)
		if dev.Name() != rxe.Dev[i] || same != e {
			t.Errorf("%s is %s, %+v, want %+v", rxe.Net[i], dev.Name(), same, e)
		}
		ok(t, dev.Close())
	}
	_, _, err := OpenNetdev("lo")
	wantErr(t, err, ErrNoDevice, "lo", rxe.Dev[0])

	a, b := newPair(t, nil, nil)
	before := must(a.dev.Counters(rxe.Port))(t)
	batch := a.qp.Batch()
	batch.Write(1, Signaled, a.mr.SGE(0, 4096), b.mr.Remote().At(0))
	ok(t, batch.Post())
	a.good(t, 1)
	testutil.Eventually(t, "a counter has risen by the write", func() bool { // the kernel keeps them for 10 ms
		for name, n := range must(a.dev.Counters(rxe.Port))(t) {
			if n > before[name] {
				return true
			}
		}
		return false
	})
}
