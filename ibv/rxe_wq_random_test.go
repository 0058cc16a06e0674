package ibv

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// wqModel is what is to come of a WQ.
type wqModel struct {
	posted []wqRecv // not yet filled
	due    []wqRecv // completions that nobody has polled
	dead   bool     // it takes nothing until it is reset
	next   int      // slot of the next receive
}

// wqRecv is a receive, or what is to come of it.
type wqRecv struct {
	id     uint64
	sges   []SGE
	size   int
	status WCStatus
	frame  []byte
}

// fail ends the first receive with status, if there is one, and flushes the others.
func (m *wqModel) fail(status WCStatus) {
	for _, r := range m.posted {
		r.status = status
		m.due = append(m.due, r)
		status = WCWRFlushErr
	}
	m.posted, m.dead = nil, true
}

// Random frames, receives, polls, errors and resets on four WQs come to what a model says.
func TestRXE_WQRandom(t *testing.T) {
	const n = 4
	a, b := newWQs(t, n, WQOptions{MaxSGE: 3})
	if a == nil {
		return
	}
	b.spreads(t, HashSrcIPv4|HashDstIPv4|HashSrcPortUDP|HashDstPortUDP)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var models [n]wqModel
	reset := func(i int) {
		again, mask := WQAttr{State: WQReset}, MaskWQState
		if models[i].dead {
			again.CurState, mask = WQError, mask|MaskWQCurState
		}
		ok(t, b.wqs[i].Modify(&again, mask))
		ok(t, b.wqs[i].Modify(&WQAttr{State: WQReady}, MaskWQState))
		models[i] = wqModel{next: models[i].next}
	}
	for i := range n {
		reset(i) // of the receives that newWQs posted
	}
	post := func(i int) {
		m := &models[i]
		var wrs []RecvWR
		for range 1 + r.IntN(8) {
			if m.dead || len(m.posted)+len(m.due) == wqRecvs {
				break
			}
			at, slot := 0, (i*2*wqRecvs+m.next%(2*wqRecvs))*rawSlot
			w := wqRecv{id: r.Uint64()}
			for range 1 + r.IntN(3) {
				size := 200 + r.IntN(400)
				if r.IntN(60) == 0 {
					size = 1 + r.IntN(50)
				}
				w.sges = append(w.sges, b.mr.SGE(slot+at, size))
				w.size += size
				at += size + r.IntN(50)
			}
			m.next++
			m.posted = append(m.posted, w)
			wrs = append(wrs, RecvWR{ID: w.id, SGEs: w.sges})
		}
		if got, err := b.wqs[i].PostRecv(wrs); got != len(wrs) || err != nil {
			t.Fatalf("posting %d: %d, %v", len(wrs), got, err)
		}
	}
	send := func() {
		src := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(r.IntN(256)), 1, 2}), uint16(r.Uint32()))
		dst := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 3, byte(r.IntN(256)), 4}), uint16(r.Uint32()))
		in := append(src.Addr().AsSlice(), dst.Addr().AsSlice()...)
		in = append(in, byte(src.Port()>>8), byte(src.Port()), byte(dst.Port()>>8), byte(dst.Port()))
		f := append(b.between(a.mac, src, dst, false), make([]byte, r.IntN(300))...)
		for k := 62; k < len(f); k++ {
			f[k] = byte(r.Uint32())
		}
		a.send(t, f, 0)
		m := &models[modelHash(in)%n]
		switch {
		case m.dead || len(m.posted) == 0:
		case len(f) > m.posted[0].size:
			m.fail(WCLocLenErr)
		default:
			m.posted[0].frame = f
			m.due, m.posted = append(m.due, m.posted[0]), m.posted[1:]
		}
	}
	poll := func(i, most int) {
		m := &models[i]
		for len(m.due) > 0 && most > 0 {
			var wcs [5]WC
			got, err := b.cqs[i].Wait(timeout(t), wcs[:min(most, len(wcs))])
			if err != nil || got > len(m.due) {
				t.Fatalf("WQ %d: %d completions, want %d: %v", i, got, len(m.due), err)
			}
			for k := range got {
				want := m.due[k]
				if wc := &wcs[k]; wc.ID != want.id || wc.Status != want.status ||
					wc.Status == WCSuccess && int(wc.ByteLen) != len(want.frame) {
					t.Fatalf("WQ %d: %+v, want %v of %#x, %d bytes", i, wc, want.status, want.id, len(want.frame))
				}
				rest := want.frame
				for _, s := range want.sges {
					size := min(len(rest), int(s.Length))
					off := s.Addr - b.mr.Addr()
					if !bytes.Equal(b.mr.Bytes()[off:][:size], rest[:size]) {
						t.Fatalf("WQ %d, receive %#x: another frame", i, want.id)
					}
					rest = rest[size:]
				}
			}
			m.due, most = m.due[got:], most-got
		}
	}
	for range 1500 {
		i := r.IntN(n)
		switch k := r.IntN(100); {
		case k < 60:
			send()
		case k < 80:
			post(i)
		case k < 97:
			poll(i, 1+r.IntN(10))
		case k < 98 && !models[i].dead:
			ok(t, b.wqs[i].Modify(&WQAttr{State: WQError}, MaskWQState))
			models[i].fail(WCWRFlushErr)
		case models[i].dead:
			if r.IntN(2) == 0 {
				poll(i, wqRecvs)
			}
			reset(i)
		}
	}
	for i := range n {
		poll(i, wqRecvs)
		var wcs [1]WC
		if got, err := b.cqs[i].Poll(wcs[:]); got != 0 || err != nil {
			t.Errorf("WQ %d: one more, %+v, %v", i, wcs[0], err)
		}
	}
}
