//go:build linux

package cm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRandom lets programs do whatever they like and wants nothing to remain, and the signals to agree with the queues.
func TestRandom(t *testing.T) {
	established := 0
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			established += random(t, rand.New(rand.NewPCG(seed, 1)), 3000)
		})
	}
	if established < 20 {
		t.Errorf("%d connections came about: the test tests little", established)
	}
}

type id_ = id

// random does some steps and counts the connections that came about.
func random(t *testing.T, r *rand.Rand, steps int) (established int) {
	s := world(t)
	var ps []*prog
	for n := range 3 {
		p := newProg(t, s, fmt.Sprint("p", n))
		p.fds[4] = fmt.Sprint("p", (n+1)%3)
		ps = append(ps, p)
	}
	addrs := []string{"10.0.0.1:7000", "10.0.0.2:7000", "127.0.0.1:7001", "0.0.0.0:7002", "[fd00::1]:7000",
		"239.0.0.1:1"}
	for range steps {
		p := ps[r.IntN(len(ps))]
		// Mostly one of its own ids, which are few.
		id, addr := uint32(r.IntN(s.ids.used+1)), sockaddr(addrs[r.IntN(len(addrs))])
		if own := slices.Collect(maps.Keys(p.fl.ids)); len(own) > 0 && r.IntN(8) > 0 {
			slices.SortFunc(own, func(a, b *id_) int { return int(a.num) - int(b.num) })
			id = own[r.IntN(len(own))].num
		}
		switch r.IntN(18) {
		case 0, 1:
			p.create(uint64(r.IntN(9)), []uint16{psTCP, psTCP, psUDP}[r.IntN(3)])
		case 2:
			if len(p.fl.ids) < 4 {
				break
			}
			cmd(p, 1, destroyID{Response: respAt, ID: id}, 4)
		case 3:
			cmd(p, 2, bindIP{Addr: addr, ID: id}, 0)
		case 4:
			cmd(p, 3, resolveIP{Dst: addr, ID: id, Timeout: 1}, 0)
		case 5:
			cmd(p, 4, idAndNumber{id, 1}, 0)
		case 6, 7:
			cmd(p, 3, resolveIP{Dst: addr, ID: id, Timeout: 1}, 0)
			cmd(p, 4, idAndNumber{id, 1}, 0)
			cmd(p, 6, connect{Param: param(1, "x"), ID: id}, 0)
		case 8:
			cmd(p, 7, idAndNumber{id, uint32(r.IntN(3))}, 0)
		case 9, 10:
			cmd(p, 6, connect{Param: param(1, "x"), ID: id}, 0)
		case 11, 12:
			c := accept{UID: 5, ID: id}
			if r.IntN(2) == 0 {
				c.Param = param(1, "y")
			}
			cmd(p, 8, c, 0)
		case 13:
			cmd(p, []uint32{9, 10}[r.IntN(2)], reject{ID: id}, 0)
		case 14, 15: // fetch what there is, and sometimes answer as one should
			for range 3 {
				if cmd(p, 12, getEvent{respAt}, 336) != 0 {
					break
				}
				ev := answer[eventResp](p)
				if ev.Event == evEstablished {
					established++
				}
				if r.IntN(2) == 0 && (ev.Event == evConnectRequest || ev.Event == evConnectResponse) {
					c := accept{UID: 5, ID: ev.ID}
					if ev.Event == evConnectRequest {
						c.Param = param(1, "y")
					}
					cmd(p, 8, c, 0)
				}
			}
		case 16:
			cmd(p, 16, joinIP{Response: respAt, UID: 3, Addr: addr, ID: id}, 4)
			cmd(p, 17, destroyID{Response: respAt, ID: uint32(r.IntN(3))}, 4)
		case 17:
			if r.IntN(4) == 0 {
				cmd(p, 18, migrateID{respAt, id, 4}, 4)
			} else if r.IntN(80) == 0 {
				s.f.Lock()
				s.DeviceRemoved(s.f.Devices[r.IntN(2)])
				s.f.Unlock()
			}
		}
		for _, p := range ps {
			if p.sig != len(p.fl.events) {
				t.Fatalf("%s: %d bytes in the pipe for %d events", p.name, p.sig, len(p.fl.events))
			}
		}
	}
	for _, p := range ps {
		p.exit()
	}
	idle(t, s)
	return established
}
