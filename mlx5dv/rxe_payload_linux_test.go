package mlx5dv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// A payload in a completion is copied by the CPU, which also swaps the previous value of a masked atomic.
// TestRXE_PayloadInCQE has them sent to memory that is not at the address in the SGE, or that is not there any more, by
// each queue that can carry one.

const (
	payloadMR = 4096
	targetAt  = 1024 // in the canary: what an SGE says about memory that is elsewhere
)

// target is memory to which a short payload is sent.
type target struct {
	kind string
	sge  func(n int) ibv.SGE
	read func(n int) []byte // what the device's memory has; nil: the payload is lost
	gone func()             // takes the memory away after posting

	takesAlways bool // a QP that existed before takes it as well
	any         bool // the work request may also fail
}

// payloads is what the rows share.
type payloads struct {
	*testing.T
	dev    *ibv.Device
	pd     *ibv.PD
	canary *ibv.MR // 4096 bytes that nothing may write
	mr     *ibv.MR // 4096 bytes: the sender's
}

// memory returns mapped memory that no Go program knows.
func (p *payloads) memory() (mem []byte, unmap func()) {
	mem = must(unix.Mmap(-1, 0, payloadMR, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(p)
	return mem, func() {
		if mem != nil {
			ok(p, unix.Munmap(mem))
			mem = nil
		}
	}
}

// of is a target that is a range of an MR.
func of(kind string, mr *ibv.MR, read func(n int) []byte) *target {
	return &target{kind: kind, sge: func(n int) ibv.SGE { return mr.SGE(0, n) }, read: read}
}

// targets has a function for each kind of key. It returns nil where a library lacks it.
var targets = map[string]func(p *payloads) *target{
	"null": func(p *payloads) *target {
		null := closing(p, must(p.pd.AllocNullMR())(p))
		return &target{takesAlways: true, sge: func(n int) ibv.SGE {
			return ibv.SGE{Addr: p.canary.Addr() + targetAt, Length: uint32(n), LKey: null.LKey()}
		}}
	},
	"plain": func(p *payloads) *target {
		mr := closing(p, must(p.pd.AllocMR(payloadMR, ibv.LocalWrite, nil))(p))
		t := of("", mr, func(n int) []byte { return mr.Bytes()[:n] })
		t.takesAlways = true
		return t
	},
	"window": func(p *payloads) *target {
		mr := closing(p, must(p.pd.AllocMR(payloadMR, ibv.LocalWrite|ibv.MWBind, nil))(p))
		mw := closing(p, must(p.pd.AllocMW(ibv.MWType1))(p))
		cq := closing(p, must(p.dev.CreateCQ(4, nil))(p))
		qp := closing(p, must(p.pd.CreateQP(cq, cq, nil))(p))
		loop(p, qp)
		err := qp.BindMW(1, ibv.Signaled, &ibv.BindMW{MW: mw, MR: mr, Addr: mr.Addr(), Length: payloadMR,
			Access: ibv.RemoteWrite})
		if errors.Is(err, ibv.ErrNotSupported) { // DataPathOps with libmlx5 before v41
			return nil
		}
		ok(p, err)
		p.wait(cq, 1)
		return &target{takesAlways: true, any: true, read: func(n int) []byte { return mr.Bytes()[:n] },
			sge: func(n int) ibv.SGE { return ibv.SGE{Addr: mr.Addr(), Length: uint32(n), LKey: mw.RKey()} }}
	},
	"mkey": func(p *payloads) *target {
		mr := closing(p, must(p.pd.AllocMR(payloadMR, ibv.LocalWrite, nil))(p))
		cq := closing(p, must(p.dev.CreateCQ(4, nil))(p))
		qp, err := CreateQP(p.pd, cq, cq, &QPOptions{QPOptions: ibv.QPOptions{MaxInline: 160}, DriverOps: WithMRList})
		if errors.Is(err, ibv.ErrNotSupported) {
			return nil
		}
		closing(p, must(qp, err)(p))
		loop(p, qp)
		key := closing(p, must(CreateMkey(p.pd, nil))(p))
		change := must(key.Change(&MkeyConfig{Access: ibv.LocalWrite, List: []ibv.SGE{mr.SGE(0, payloadMR)}}))(p)
		must(qp.PostSend([]ibv.SendWR{{ID: 1, Opcode: ibv.OpDriver1, Flags: ibv.Signaled, Mkey: change}}))(p)
		p.wait(cq, 1)
		return &target{sge: func(n int) ibv.SGE { return ibv.SGE{Addr: 0, Length: uint32(n), LKey: key.LKey()} },
			read: func(n int) []byte { return mr.Bytes()[:n] }}
	},
	"DM": func(p *payloads) *target {
		dm := closing(p, must(p.dev.AllocDM(payloadMR, nil))(p))
		mr := closing(p, must(p.pd.RegDM(dm, 0, payloadMR, ibv.LocalWrite))(p))
		return of("", mr, func(n int) []byte { return readAt(p, dm, n) })
	},
	"dma-buf": func(p *payloads) *target {
		f := closing(p, os.NewFile(uintptr(must(unix.MemfdCreate("buffer", unix.MFD_CLOEXEC))(p)), "buffer"))
		ok(p, f.Truncate(payloadMR))
		// On page 0 of the canary, as if it were there.
		mr, err := p.pd.RegDmabuf(int(f.Fd()), 0, payloadMR, p.canary.Addr(), ibv.LocalWrite)
		if errors.Is(err, ibv.ErrNotSupported) || testutil.NeedRXE(p).Hardware {
			return nil
		}
		closing(p, must(mr, err)(p))
		return of("", mr, func(n int) []byte { return readAt(p, f, n) })
	},
	"imported": func(p *payloads) *target {
		// As another process would have it: its address is not one of the memory here.
		mem, unmap := p.memory()
		p.Cleanup(unmap)
		theirs := closing(p, must(p.pd.RegMemory(cmem.SliceAddr(mem), payloadMR, p.canary.Addr(), ibv.LocalWrite))(p))
		mr, err := p.pd.ImportMR(theirs.Handle(), theirs.Addr())
		if errors.Is(err, ibv.ErrNotSupported) {
			return nil
		}
		closing(p, must(mr, err)(p))
		return of("", mr, func(n int) []byte { return mem[:n] })
	},
	"IOVA": func(p *payloads) *target {
		mem, unmap := p.memory()
		p.Cleanup(unmap)
		mr := closing(p, must(p.pd.RegMemory(cmem.SliceAddr(mem), payloadMR, p.canary.Addr(), ibv.LocalWrite))(p))
		return of("", mr, func(n int) []byte { return mem[:n] })
	},
	"ODP": func(p *payloads) *target {
		mem, unmap := p.memory()
		p.Cleanup(unmap)
		mr := closing(p, must(p.pd.RegMemory(cmem.SliceAddr(mem), payloadMR, uint64(cmem.SliceAddr(mem)),
			ibv.LocalWrite|ibv.OnDemand))(p))
		t := of("", mr, func(n int) []byte { return mem[:n] })
		t.takesAlways = true
		return t
	},
	"implicit": func(p *payloads) *target {
		mem, unmap := p.memory()
		p.Cleanup(unmap)
		mr := closing(p, must(p.pd.RegImplicit(ibv.LocalWrite))(p))
		return &target{takesAlways: true, read: func(n int) []byte { return mem[:n] },
			sge: func(n int) ibv.SGE { return mr.SGE(int(cmem.SliceAddr(mem)), n) }}
	},
	"unmapped": func(p *payloads) *target {
		mem, unmap := p.memory()
		mr := closing(p, must(p.pd.RegMemory(cmem.SliceAddr(mem), payloadMR, uint64(cmem.SliceAddr(mem)),
			ibv.LocalWrite|ibv.OnDemand))(p))
		t := of("", mr, nil)
		t.takesAlways, t.any, t.gone = true, true, unmap
		return t
	},
}

func readAt(t testing.TB, r io.ReaderAt, n int) []byte {
	b := make([]byte, n)
	must(r.ReadAt(b, 0))(t)
	return b
}

// wait returns the completion of a work request.
func (p *payloads) wait(cq *ibv.CQ, id uint64) ibv.WC {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), testutil.Patience)
	defer cancel()
	var wc [1]ibv.WC
	for {
		if _, err := cq.Wait(ctx, wc[:]); err != nil {
			p.Fatal(err)
		}
		if wc[0].ID == id {
			return wc[0]
		}
	}
}

func TestRXE_PayloadInCQE(t *testing.T) {
	if open(t, 0) == nil {
		return
	}
	for _, engine := range []ibv.DataPath{ibv.DataPathDirect, ibv.DataPathOps} {
		for _, size := range []int{64, 128} {
			for _, queue := range []string{"RQ", "SRQ", "read", "atomic", "masked"} {
				if queue == "masked" && (engine == ibv.DataPathOps || size == 128) { // its result is in no completion
					continue
				}
				for kind, make := range targets {
					for _, before := range []bool{true, false} {
						when := map[bool]string{true: "first", false: "later"}[before]
						t.Run(fmt.Sprintf("%v/%d/%s/%s/%s", engine, size, queue, kind, when), func(t *testing.T) {
							testPayload(t, engine, size, queue, kind, make, before)
						})
					}
				}
			}
		}
	}
}

func testPayload(t *testing.T, engine ibv.DataPath, size int, queue, kind string, make func(*payloads) *target,
	before bool) {
	if engine == ibv.DataPathOps && kind == "unmapped" && !before {
		return // libmlx5 copies, and the process dies, as it does in C
	}
	dev := closing(t, must(ibv.Open(testutil.NeedRXE(t).Dev[0]))(t))
	p := &payloads{T: t, dev: dev, pd: closing(t, must(dev.AllocPD())(t))}
	p.canary = closing(t, must(p.pd.AllocMR(payloadMR, ibv.LocalWrite, nil))(t))
	p.mr = closing(t, must(p.pd.AllocMR(payloadMR, ibv.LocalWrite|ibv.RemoteRead|ibv.RemoteAtomic, nil))(t))
	for i := range p.canary.Bytes() {
		p.canary.Bytes()[i], p.mr.Bytes()[i] = 0xcc, byte(i)*7+1
	}
	var to *target
	if before {
		if to = make(p); to == nil {
			return
		}
	}
	cq, err := CreateCQ(dev, 16, &CQOptions{EntrySize: size, CQOptions: ibv.CQOptions{DataPath: engine}})
	closing(t, must(cq, err)(t))
	results := queue == "read" || queue == "atomic" // are in completions if all send work requests have one
	opt := &QPOptions{QPOptions: ibv.QPOptions{SignalAll: results, MaxRecvSGE: 2, MaxSendSGE: 2}}
	if queue == "SRQ" {
		opt.SRQ = closing(t, must(p.pd.CreateSRQ(&ibv.SRQOptions{MaxSGE: 2, DataPath: engine}))(t))
	}
	var qp *ibv.QP
	if before || kind == "plain" { // as most programs create it
		qp, err = p.pd.CreateQP(cq, cq, &opt.QPOptions)
	} else {
		qp, err = CreateQP(p.pd, cq, cq, opt)
	}
	closing(t, must(qp, err)(t))
	loop(t, qp)
	if !before {
		if to = make(p); to == nil {
			return
		}
	}

	n := map[int]int{64: 24, 128: 60}[size]
	send := ibv.SendWR{ID: 2, Opcode: ibv.OpSend, SGEs: []ibv.SGE{p.mr.SGE(0, n)}}
	want := append([]byte(nil), p.mr.Bytes()[:n]...)
	id := uint64(1)
	switch queue {
	case "RQ":
		_, err = qp.PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{to.sge(n)}}})
	case "SRQ":
		_, err = opt.SRQ.PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{to.sge(n)}}})
	case "read":
		if kind == "unmapped" && engine == ibv.DataPathOps {
			return
		}
		send.Opcode, send.SGEs, send.Remote, id = ibv.OpRead, []ibv.SGE{to.sge(n)}, p.mr.Remote().At(0), 2
	case "atomic":
		n = 8
		send.Opcode, send.SGEs, send.Remote, id = ibv.OpFetchAdd, []ibv.SGE{to.sge(n)}, p.mr.Remote().At(0), 2
		want = want[:n]
	case "masked": // the CPU swaps its words, whatever completions carry
		n = 16
		send.Opcode, send.SGEs, send.Remote, id = ibv.OpMaskedFetchAdd, []ibv.SGE{to.sge(n)}, p.mr.Remote().At(0), 2
		send.Flags, send.Masked = ibv.Signaled, &ibv.MaskedAtomic{Size: 16}
		want, before = want[:n], false
	}
	if id == 2 && to.gone != nil {
		to.gone() // the work request is executed at once
	}
	if err == nil {
		if id == 1 && to.gone != nil {
			to.gone()
		}
		_, err = qp.PostSend([]ibv.SendWR{send})
	}
	var arg *ibv.ArgError
	if kind == "null" && queue == "SRQ" && engine == ibv.DataPathOps {
		to.takesAlways = false // libmlx5 does not know the key there
	}
	if engine == ibv.DataPathOps && size == 128 && results && err == nil {
		to.takesAlways = true // libmlx5 before v64 puts no results in completions, since it would misplace them
	}
	if !before && !to.takesAlways {
		if !errors.As(err, &arg) || arg.Arg != "SGEs" {
			t.Errorf("%v, want an ArgError of SGEs", err)
		}
		return
	}
	ok(t, err)
	wc := p.wait(cq, id)
	if err := wc.Err(); err != nil && !to.any {
		t.Fatal(err)
	}
	if to.read != nil && wc.Status == ibv.WCSuccess {
		if got := to.read(n); !bytes.Equal(got, want) {
			t.Errorf("the memory has % x, want % x", got, want)
		}
	}
	for i, b := range p.canary.Bytes() {
		if b != 0xcc {
			t.Fatalf("byte %d at the SGE's address was written", i)
		}
	}
}

// A QP whose results are in completions of 128 bytes is refused if libmlx5 takes them from the wrong bytes. Otherwise
// they arrive.
func TestRXE_MisplacedResults(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	p := &payloads{T: t, dev: dev, pd: closing(t, must(dev.AllocPD())(t))}
	const access = ibv.LocalWrite | ibv.RemoteRead | ibv.RemoteAtomic
	p.mr = closing(t, must(p.pd.AllocMR(payloadMR, access, nil))(t))
	mem := p.mr.Bytes()
	for _, path := range []ibv.DataPath{ibv.DataPathOps, ibv.DataPathDirect} {
		t.Run(path.String(), func(t *testing.T) {
			testutil.NeedControl(t)
			for _, size := range []int{0, 64, 128} {
				for _, all := range []bool{false, true} {
					cq, err := CreateCQ(dev, 16, &CQOptions{EntrySize: size, CQOptions: ibv.CQOptions{DataPath: path}})
					closing(t, must(cq, err)(t))
					o := &QPOptions{Flags: AllowScatterToCQE}
					if o.SignalAll = all; all {
						o.Flags = 0
					}
					qp, err := CreateQP(p.pd, cq, cq, o)
					mayRefuse := path == ibv.DataPathOps && size == 128 && !all
					if u := (*ibv.UnsupportedError)(nil); mayRefuse && errors.As(err, &u) {
						if !strings.Contains(u.Need, "v64") {
							t.Error(err)
						}
						continue
					}
					closing(t, must(qp, err)(t))
					loop(t, qp)
					for n := 1; n <= 70; n++ {
						clear(mem)
						for i := range n {
							mem[1024+i] = byte(i + n)
						}
						must(qp.PostSend([]ibv.SendWR{{ID: 1, Opcode: ibv.OpRead, Flags: ibv.Signaled,
							SGEs: []ibv.SGE{p.mr.SGE(0, n)}, Remote: p.mr.Remote().At(1024)}}))(t)
						if wc := p.wait(cq, 1); wc.Status != ibv.WCSuccess || !bytes.Equal(mem[:n], mem[1024:][:n]) {
							t.Fatalf("%v, %d, all %v: %v, % x instead of % x", path, size, all, wc.Status, mem[:n],
								mem[1024:][:n])
						}
					}
				}
			}
		})
	}
}
