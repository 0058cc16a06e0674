//go:build linux

package engine

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/await"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/strict"
)

// TestAuditLater has a record that was rung for on a page that the engine looks at later, because many QPs have work:
// this is no doorbell that was forgotten.
func TestAuditLater(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	e := p.r.e
	p.qa.post(opNOP, signaled, 0)
	be.PutUint32(p.qa.db[4:], p.qa.pi)
	audits := func() {
		for range 3 {
			e.turns.now += auditPatient
			e.strict.audit(e.pages)
		}
	}
	p.a.uar.Run.Rung = true
	if audits(); len(p.r.broken) > 0 {
		t.Errorf("rung for: %v", p.r.broken)
	}
	p.a.uar.Run.Rung = false
	if audits(); len(p.r.broken) != 1 || p.r.broken[0].rule != RuleSQNoDoorbell {
		t.Errorf("not rung for: %v", p.r.broken)
	}
}

// TestRules breaks each rule of strict mode once.
func TestRules(t *testing.T) {
	write := func(p *pair) [][]byte { a, k := p.mb.at(0); return [][]byte{raddr(a, k), p.ma.sge(0, 64)} }
	tests := map[string]func(p *pair){
		RuleWQEIndex: func(p *pair) {
			p.qa.post(opWrite, signaled, 0, write(p)...)
			p.qa.sq[2]++
			p.qa.ring()
		},
		RuleWQEQPN: func(p *pair) {
			p.qa.post(opWrite, signaled, 0, write(p)...)
			p.qa.sq[6] ^= 1
			p.qa.ring()
		},
		RuleWQESize: func(p *pair) {
			p.qa.post(opWrite, signaled, 0, write(p)...)
			p.qa.sq[7] = 9 // three blocks
			p.qa.ring()
		},
		RuleWQEOpcode: func(p *pair) { p.qa.send(0x3f, signaled, 0, write(p)...) },
		RuleWQEInline: func(p *pair) {
			p.r.f.Devices[0].Config.Limits.MaxInline = 7
			p.qa.send(opSend, signaled, 0, inlineSeg(make([]byte, 8)))
		},
		RuleWQEFormat:  func(p *pair) { p.qa.send(opAtomicCS, signaled, 0, write(p)[0]) },
		RuleEthSegment: func(p *pair) { rawOf(p).send(opSend, signaled, 0, ethSeg(1, 0, nil), p.ma.sge(0, 100)) },
		RuleEthInline: func(p *pair) {
			p.r.f.Devices[0].Config.MinInline = 18
			rawOf(p).send(opSend, signaled, 0, ethSeg(0, 0, nil), p.ma.sge(0, 100))
		},
		RuleFrameSize: func(p *pair) { rawOf(p).send(opSend, signaled, 0, ethSeg(0, 0, nil), p.ma.sge(0, 13)) },
		RuleWQEChanged: func(p *pair) {
			p.qa.send(opSend, signaled, 0, p.ma.sge(0, 64)) // waits: no receive
			p.r.settle()
			p.qa.sq[19] = 32
		},
		RuleUnsignaled: func(p *pair) {
			for range 80 {
				p.qa.send(opNOP, 0, 0)
				p.r.settle()
			}
		},
		RuleSQAhead: func(p *pair) {
			p.qa.post(opNOP, signaled, 0)
			p.qa.pi += 100
			p.qa.ring()
		},
		RuleSQNoDoorbell: func(p *pair) {
			p.qa.post(opNOP, signaled, 0)
			be.PutUint32(p.qa.db[4:], p.qa.pi)
		},
		RuleSQNoRecord: func(p *pair) {
			p.qa.post(opNOP, signaled, 0)
			copy(p.a.uar.Page[0x800:], p.qa.last)
		},
		RuleDoorbellQPN: func(p *pair) { copy(p.a.uar.Page[0x800:], seg(uint32(0), uint32(0x77701))) },
		RuleBlueFlame: func(p *pair) {
			for i := range 3 { // once or twice may be an accident
				p.qa.post(opWrite, signaled, 0, write(p)...)
				slot := p.a.uar.Page[0x800+p.a.slot*0x100:]
				copy(slot[8:], p.qa.sq[64*i+8:64*i+64])
				slot[0x1f] ^= 1
				p.qa.ring()
				p.r.settle()
			}
		},
		RulePostState: func(p *pair) {
			p.qa.modify(&hca.QPAttr{}, 0, hca.Reset)
			p.qa.send(opNOP, signaled, 0)
		},
		RuleRdAtomic: func(p *pair) {
			p.qb.q.Attr.MaxDestRdAtomic = 1
			p.qa.post(opRead, signaled, 0, write(p)...)
			p.qa.send(opRead, signaled, 0, write(p)...)
		},
		RuleRQAhead: func(p *pair) {
			p.qb.head = 100
			p.qb.recv(p.mb.sge(0, 64))
			p.qa.send(opSend, signaled, 0, p.ma.sge(0, 64))
		},
		RuleRQNoRoom: func(p *pair) {
			p.bcq.q.Entries = 4
			for range 6 {
				p.qb.recv(p.mb.sge(0, 64))
			}
			p.qa.send(opSend, signaled, 0, p.ma.sge(0, 64))
		},
		RuleSRQEmpty: func(p *pair) {
			s := p.b.srq(4, 0, nil)
			qa, qb := p.a.qp(p.acq, p.acq, qpOpts{}), p.b.qp(p.bcq, p.bcq, qpOpts{srq: s})
			connect(p.attributes, qa, qb)
			s.recv(p.mb.sge(0, 0))
			qa.send(opSend, signaled, 0)
		},
		RuleMRUnmapped: func(p *pair) {
			p.ma.buf = p.r.a.alloc(1 << 20)
			m := p.a.mr(8192, anyAccess)
			if err := unix.Mprotect(m.buf, unix.PROT_NONE); err != nil {
				t.Fatal(err)
			}
			p.r.t.Cleanup(func() { _ = unix.Mprotect(m.buf, unix.PROT_READ|unix.PROT_WRITE) })
			p.qa.send(opWrite, signaled, 0, write(p)[0], m.sge(0, 64))
		},
		RuleMRRemapped: func(p *pair) {
			p.qa.send(opWrite, signaled, 0, write(p)...)
			p.r.settle()
			fd, err := unix.MemfdCreate("other", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			_ = unix.Ftruncate(fd, 4096)
			_, _, e := unix.Syscall6(unix.SYS_MMAP, uintptr(va(p.ma.buf)), 4096, unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_SHARED|unix.MAP_FIXED, uintptr(fd), 0)
			if e != 0 {
				t.Fatal(e)
			}
			if e := hca.Destroy[*hca.MKey](p.a.ctx, p.ma.key.Handle); e != 0 {
				t.Fatal(e)
			}
		},
		RuleCQConsumer: func(p *pair) {
			be.PutUint32(p.acq.db, 5)
			p.acq.arm(false)
		},
		RuleCQOverrun: func(p *pair) {
			p.acq.q.Entries = 4
			for range 5 {
				p.qa.post(opNOP, signaled, 0)
			}
			p.qa.ring()
		},
		RuleCQBlock: func(p *pair) {
			p.acq.q.Format = hca.FormatHash
			for range p.acq.ents / 2 { // three laps
				for range 6 {
					p.qa.post(opNOP, signaled, 0)
				}
				p.qa.ring()
				p.r.settle()
				p.acq.ci += 6
				be.PutUint32(p.acq.db, p.acq.ci&0xffffff)
			}
		},
		RuleCQArmSequence: func(p *pair) { p.acq.sn = 2; p.acq.arm(false) },
		RuleRingUnmapped: func(p *pair) {
			off := va(p.qb.db) - va(p.r.a.mem)
			protect(t, p.r.a.mem[off:off+4096])
			p.qa.send(opSend, signaled, 0, p.ma.sge(0, 64))
		},
		RuleTagCount: func(p *pair) {
			_, cmd := p.b.tags(16, p.bcq)
			cmd.send(opTagMatch, 0, 0, tagSeg(tagNOP, tagCount, 0, 1, 0, 0))
		},
		RuleTagList: func(p *pair) {
			_, cmd := p.b.tags(16, p.bcq)
			for range 2 { // at place 0, the second time too
				cmd.send(opTagMatch, 0, 0, tagSeg(tagAppend, 0, 0, 0, 1, 1), p.mb.sge(0, 64))
			}
		},
	}
	const others = 3 // which the device model checks
	if len(tests) != len(strict.Rules)-others {
		t.Errorf("%d rules, %d tests", len(strict.Rules)-others, len(tests))
	}
	for _, r := range strict.Rules[:len(strict.Rules)-others] {
		if tests[r.Name] == nil {
			t.Errorf("no test for %s", r.Name)
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			p := newPair(t, qpOpts{}, nil)
			tests[r.Name](p)
			end := time.Now().Add(await.Limit)
			for ; !p.r.violated(r.Name) && time.Now().Before(end); time.Sleep(time.Millisecond) {
				p.r.e.turn()
			}
			if !p.r.violated(r.Name) {
				t.Errorf("not noticed; noticed: %v", p.r.broken)
			}
		})
	}
}

// TestRules_Removed gives memory back after the device was removed: it uses none any more, though no program could
// deregister the region.
func TestRules_Removed(t *testing.T) {
	p := newPair(t, qpOpts{}, nil)
	m := p.a.mr(4096, anyAccess)
	at, key := p.mb.at(0)
	p.qa.send(opWrite, signaled, 0, raddr(at, key), m.sge(0, 64))
	p.r.settle()
	p.a.ctx.Device.Remove()
	_, _, e := unix.Syscall6(unix.SYS_MMAP, uintptr(va(m.buf)), 4096, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_FIXED|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
	if e != 0 {
		t.Fatal(e)
	}
	if e := hca.Destroy[*hca.MKey](p.a.ctx, m.key.Handle); e != 0 { // as when the program ends
		t.Fatal(e)
	}
	p.r.clean()
}

// TestRules_Flushed damages WQEs of a QP in ERR: none executes them, and all are told.
func TestRules_Flushed(t *testing.T) {
	for _, c := range []struct {
		rule    string
		at      int // the byte that is damaged
		flushed int // completions
	}{{RuleWQEIndex, 2, 3}, {RuleWQEQPN, 6, 3}, {RuleWQESize, 7, 1}} {
		t.Run(c.rule, func(t *testing.T) {
			p := newPair(t, qpOpts{}, nil)
			p.qa.modify(&hca.QPAttr{}, 0, hca.Err)
			for range 3 {
				p.qa.post(opNOP, signaled, 0)
			}
			p.qa.sq[64+c.at] ^= 0x39 // of the second
			p.qa.ring()
			p.r.settle()
			for range c.flushed {
				p.acq.wantErr(cqeReqErr, synFlush)
			}
			p.acq.none()
			if !p.r.violated(c.rule) {
				t.Errorf("not noticed; noticed: %v", p.r.broken)
			}
		})
	}
}

// TestBlueFlameTorn sends copies that lack what lies behind the end of the ring: the first may be one under way, all of
// them are not.
func TestBlueFlameTorn(t *testing.T) {
	p := newPair(t, qpOpts{sq: 16}, nil)
	a, k := p.mb.at(0)
	data := make([]byte, 150)
	fill(data, 1)
	for i := range 60 { // two of each 16 wrap
		at := p.qa.post(opWrite, signaled, 0, raddr(a, k), inlineSeg(data))
		for o := 8; o < int(p.qa.pi-at)*64 && int(at%16)*64+o < len(p.qa.sq); o += 8 {
			copy(p.a.uar.Page[0x800+p.a.slot*0x100+o:], p.qa.sq[int(at%16)*64+o:][:8])
		}
		p.qa.ring()
		p.acq.want(0, -1)
		if p.r.violated(RuleBlueFlame) {
			if i < 16 {
				t.Errorf("noticed at WQE %d, when two copies at most were torn", i)
			}
			return
		}
	}
	t.Error("not noticed")
}

// TestBlueFlameGood sends WQEs by copies and by plain doorbells in turn: no false alarm.
func TestBlueFlameGood(t *testing.T) {
	p := newPair(t, qpOpts{sq: 16}, nil)
	a, k := p.mb.at(0)
	for i := range 100 {
		data := make([]byte, 40+i)
		fill(data, byte(i))
		at := p.qa.post(opWrite, signaled, 0, raddr(a, k), inlineSeg(data))
		if i%3 != 0 {
			n := int(p.qa.pi-at) * 64
			for o := 8; o < n; o += 8 {
				copy(p.a.uar.Page[0x800+p.a.slot*0x100+o:], p.qa.sq[(int(at)*64+o)%len(p.qa.sq):][:8])
			}
		}
		p.qa.ring()
		p.acq.want(0, -1)
	}
	p.r.clean()
}

// TestBlueFlameOverwritten rings by copies that nobody sees, because an 8-byte doorbell in the same slot follows, and
// overwrites their WQEs, which are executed, before anybody looks at the slot.
func TestBlueFlameOverwritten(t *testing.T) {
	p := newPair(t, qpOpts{sq: 16}, nil)
	a, k := p.mb.at(0)
	post := func() []byte {
		data := make([]byte, 28)
		fill(data, byte(p.qa.pi))
		at := int(p.qa.post(opWrite, signaled, 0, raddr(a, k), inlineSeg(data))) % 16
		return p.qa.sq[at*64:][:64]
	}
	for range 10 {
		copy(p.a.uar.Page[0x808:0x840], post()[8:])
		p.a.slot = 1
		p.qa.ring()
		p.acq.want(0, -1)
		p.a.slot = 0
		first := int(p.qa.pi-1) % 16
		post()
		p.qa.ring()
		fill(p.qa.sq[first*64+8:][:56], 0xee) // as the next WQE that comes there
		p.acq.want(0, -1)
	}
	p.r.clean()
}

// TestBlueFlameLate has WQEs executed, because the record announced them, and half overwritten before their copies are
// looked at: the control segment is written last.
func TestBlueFlameLate(t *testing.T) {
	p := newPair(t, qpOpts{sq: 16}, nil)
	a, k := p.mb.at(0)
	for range 10 {
		data := make([]byte, 28)
		fill(data, byte(p.qa.pi))
		p.qa.post(opWrite, signaled, 0, raddr(a, k), inlineSeg(data))
		first := p.qa.last
		fill(data, byte(p.qa.pi+100))
		p.qa.post(opWrite, signaled, 0, raddr(a, k), inlineSeg(data))
		second := p.qa.last
		p.qa.last = first
		p.qa.ring()
		p.acq.want(0, -1)
		p.acq.want(0, -1)
		p.qa.last = second
		late := p.qa.sq[int(p.qa.pi-1)%16*64:][:64]
		copy(p.a.uar.Page[0x808+p.a.slot*0x100:], late[8:])
		fill(late[16:], 0xee)
		p.qa.ring()
		p.r.settle()
	}
	p.r.clean()
}

// TestBlueFlameBusy copies WQEs of two cache lines on a busy machine: the program loses its processor between the two
// lines, or the engine looks when only the first word has come, and erases a part of the rest as it clears the
// register, which an 8-byte doorbell follows. Neither is a fault of the program.
func TestBlueFlameBusy(t *testing.T) {
	p := newPair(t, qpOpts{sq: 16}, nil)
	a, k := p.mb.at(0)
	data := make([]byte, 60)
	fill(data, 1)
	p.qa.post(opWrite, signaled, 0, raddr(a, k), inlineSeg(data))
	be.PutUint32(p.qa.db[4:], p.qa.pi)
	reg := words(p.a.uar.Page)[firstSlot:][:12]
	write := func(from, to int) {
		for i := from; i < to; i++ {
			atomic.StoreUint64(&reg[i], binary.NativeEndian.Uint64(p.qa.sq[i*8:]))
		}
	}
	look := func() { p.r.e.strict.doorbell(p.a.uar, 0, atomic.SwapUint64(&reg[0], 0)) }
	for range 10 {
		write(1, 8)
		write(0, 1)
		time.AfterFunc(2*time.Millisecond, func() { write(8, 12) })
		look()
	}
	for range 10 {
		write(0, 1)
		look()
		write(1, 8)
		write(0, 1)
		look()
	}
	p.r.clean()
}
