//go:build linux

package engine

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/emu/internal/await"
	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// TestLoop runs the real loop: latency, idleness, stopping, and commands that want the lock while it works.
func TestLoop(t *testing.T) {
	p := newPair(t, qpOpts{sq: 256}, nil)
	e := p.r.e
	p.r.broken = nil
	go e.Run()
	p.r.f.Unlock()
	poll := func() {
		for end := time.Now().Add(await.Limit); ; runtime.Gosched() {
			if _, ok := p.acq.poll(); ok {
				return
			}
			if time.Now().After(end) {
				t.Error("no completion")
				return
			}
		}
	}
	addr, key := p.mb.at(0)
	for range 200 {
		p.qa.send(opWrite, signaled, 0, raddr(addr, key), inlineSeg(p.ma.buf[:8]))
		poll()
	}
	// A command's wait for the lock.
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 50 {
			p.qa.send(opWrite, signaled, 0, raddr(addr, key), p.ma.sge(0, 1<<20))
			poll()
		}
	})
	var worst time.Duration
	for range 100 {
		s := time.Now()
		p.r.f.Lock()
		worst = max(worst, time.Since(s))
		p.r.f.Unlock()
		time.Sleep(200 * time.Microsecond)
	}
	wg.Wait()
	t.Logf("longest wait for the lock %v", worst)
	time.Sleep(1200 * time.Millisecond)
	cpu := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	c, s := cpu(), time.Now()
	time.Sleep(time.Second)
	load := 100 * float64(cpu()-c) / float64(time.Since(s))
	t.Logf("idle: %.2f %% of a core", load)
	if load > 5 && !raceEnabled {
		t.Errorf("%.1f %% of a core when idle", load)
	}
	e.Stop()
	p.r.f.Lock()
	p.r.clean()
}

const raceEnabled = false

// FuzzWQE feeds arbitrary bytes to every transport; nothing may panic or hang.
func FuzzWQE(f *testing.F) {
	f.Add([]byte{0, 0, 0, opWrite, 0, 0, 0x40, 3, 0, 0, 0, 8, 0, 0, 0, 0}, uint8(2))
	f.Add(append([]byte{0, 0, 0, opSend, 0, 0, 0x40, 2, 0, 0, 0, 8, 0, 0, 0, 0}, inlineSeg([]byte("abc"))...), uint8(4))
	f.Add([]byte{0, 0, 0, opUMR, 0, 0, 0x40, 9, 0, 0, 0, 8, 0, 0, 0, 0}, uint8(2))
	for op := range 64 {
		f.Add([]byte{0, 0, 0, byte(op), 0, 0, 0x40, 12, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1}, uint8(8))
	}
	f.Fuzz(func(t *testing.T, b []byte, typ uint8) {
		types := []hca.QPType{hca.RC, hca.UC, hca.UD, hca.XRCSend, hca.DriverQP}
		var w wqe
		copy(w.raw[:], b)
		w.control()
		if w.size >= 16 {
			if w.parse(types[int(typ)%len(types)]) == "" && (w.nsge > len(w.sges) || w.n > 1<<40) {
				t.Errorf("%d segments, %d bytes", w.nsge, w.n)
			}
			_ = w.apply(operand{7})
			if len(w.av) == 48 {
				_ = addressOf(w.av, &hca.Port{Config: new(config.Port)})
			}
		}
	})
}

// FuzzEngine posts arbitrary bytes as WQEs and receives to connected QPs.
func FuzzEngine(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0, 0, 0, opSend, 0, 0, 0x40, 2, 0, 0, 0, 8, 0, 0, 0, 0}, 8),
		bytes.Repeat([]byte{0, 0, 0, 8}, 8), uint8(0))
	f.Add(bytes.Repeat([]byte{0, 0, 0, opRead, 0, 0, 0x40, 4, 0, 0, 0, 8, 0, 0, 0, 0}, 8),
		[]byte(strings.Repeat("x", 64)), uint8(1))
	c := config.Default()
	f.Fuzz(func(t *testing.T, wqes, recvs []byte, typ uint8) {
		r := newRigOf(t, c, 1<<20)
		n := r.node(0)
		cq := n.cq(16, 64)
		o := qpOpts{typ: []hca.QPType{hca.RC, hca.UC, hca.UD}[typ%3], sq: 16}
		a, b := n.qp(cq, cq, o), n.qp(cq, cq, o)
		connect(defaults(), a, b)
		m := n.mr(4096, anyAccess)
		b.recv(m.sge(0, 64))
		copy(b.rq, recvs)
		copy(a.sq, wqes)
		be.PutUint32(a.sq[4:], a.q.Num<<8|be.Uint32(a.sq[4:])&0x3f)
		a.pi, a.last = 1+uint32(len(wqes)/64)%20, a.sq[:8]
		if be.Uint64(a.last) != 0 {
			a.ring()
		}
		for range 20 {
			r.e.turn()
		}
	})
}
