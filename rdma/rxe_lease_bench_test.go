package rdma

import "testing"

// BenchmarkRXE_Lease lends 64 KiB and gets it back, by each kind of key. "alone" is the connection's only lease, so
// that its queue pair's rights change, too.
func BenchmarkRXE_Lease(b *testing.B) {
	for _, keys := range []LeaseKeys{KeysMR, KeysWindow} {
		for _, how := range []string{"alone", "with another"} {
			b.Run(keys.String()+"/"+how, func(b *testing.B) {
				server, client := keyEngines(b, EngineOptions{}, keys, keys)
				x, y := leaseConns(b, server, client, &LeaseOptions{}, &LeaseOptions{})
				defer x.Close()
				defer y.Close()
				mem := buffer(b, client, 64<<10)
				if how != "alone" {
					s, r := lend(b, x, y, mem, everything(client), 0)
					defer func() { ok(b, r.Return(timeout(b))); ok(b, s.Revoke(timeout(b))) }()
				}
				ctx, access := timeout(b), everything(client)
				for b.Loop() {
					s, err := x.Lend(ctx, mem, access, 0)
					ok(b, err)
					r, err := y.Borrow(ctx)
					ok(b, err)
					ok(b, r.Return(ctx))
					_, err = s.Wait(ctx)
					ok(b, err)
				}
			})
		}
	}
}
