package inmem

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// end is one end of a connection, with memory.
type end struct {
	cq  *CQ
	rq  *RQ
	qp  *QP
	mem *Memory
}

func pair() (a *Adapter, ends [2]*end) {
	a = New()
	for i := range ends {
		e := &end{cq: a.NewCQ(), rq: a.NewRQ()}
		e.qp = a.NewQP(e.cq, e.rq)
		e.mem = a.Register(make([]byte, 4096), ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead|ibv.RemoteAtomic)
		ends[i] = e
	}
	ends[0].qp.Connect(ends[1].qp)
	return a, ends
}

func (e *end) sge(off, n int) ibv.SGE {
	return ibv.SGE{Addr: e.mem.Addr() + uint64(off), Length: uint32(n), LKey: e.mem.LKey()}
}

func (e *end) remote(off int) ibv.RemoteAddr {
	return ibv.RemoteAddr{Addr: e.mem.Addr() + uint64(off), RKey: e.mem.LKey()}
}

func (e *end) post(t *testing.T, wrs ...ibv.SendWR) {
	t.Helper()
	if n, err := e.qp.PostSend(wrs); n != len(wrs) || err != nil {
		t.Fatal(n, err)
	}
}

func (e *end) recv(t *testing.T, id uint64, off, n int) {
	t.Helper()
	if _, err := e.rq.PostRecv([]ibv.RecvWR{{ID: id, SGEs: []ibv.SGE{e.sge(off, n)}}}); err != nil {
		t.Fatal(err)
	}
}

// all returns the completions that are there, by ID and status.
func (e *end) all(t *testing.T) (list []ibv.WC) {
	t.Helper()
	var wcs [3]ibv.WC
	for {
		n, err := e.cq.Poll(wcs[:])
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return list
		}
		list = append(list, wcs[:n]...)
	}
}

func statuses(wcs []ibv.WC) (list []ibv.WCStatus) {
	for _, wc := range wcs {
		list = append(list, wc.Status)
	}
	return list
}

// TestSend: a SEND waits for a receive, arrives in order, and completes if it is signaled.
func TestSend(t *testing.T) {
	_, e := pair()
	copy(e[0].mem.Bytes(), "hello")
	e[0].post(t, ibv.SendWR{ID: 1, Opcode: ibv.OpSend, SGEs: []ibv.SGE{e[0].sge(0, 3), e[0].sge(3, 2)}},
		ibv.SendWR{ID: 2, Opcode: ibv.OpSend, Flags: ibv.Signaled, Inline: []byte("inline")})
	if got := e[0].all(t); got != nil {
		t.Fatalf("%+v, before there is a receive", got)
	}
	e[1].recv(t, 7, 100, 64)
	if got := e[0].all(t); got != nil {
		t.Fatalf("%+v: the first is not signaled", got)
	}
	e[1].recv(t, 8, 200, 64)
	if got := e[0].all(t); len(got) != 1 || got[0].ID != 2 || got[0].Status != ibv.WCSuccess || got[0].QPN != 0x11 {
		t.Errorf("%+v", got)
	}
	got := e[1].all(t)
	if len(got) != 2 || got[0].ID != 7 || got[0].ByteLen != 5 || got[1].ID != 8 || got[1].ByteLen != 6 ||
		got[1].Opcode != ibv.WCRecv || got[1].QPN != 0x12 {
		t.Errorf("%+v", got)
	}
	if mem := e[1].mem.Bytes(); string(mem[100:105]) != "hello" || string(mem[200:206]) != "inline" {
		t.Errorf("%q %q", mem[100:105], mem[200:206])
	}
}

// TestRemote reads, writes and changes memory of the other end.
func TestRemote(t *testing.T) {
	_, e := pair()
	_ = e[1].qp.Allow(ibv.RemoteRead | ibv.RemoteWrite | ibv.RemoteAtomic)
	copy(e[0].mem.Bytes(), "data")
	binary.NativeEndian.PutUint64(e[1].mem.Bytes()[64:], 5)
	e[0].post(t,
		ibv.SendWR{ID: 1, Opcode: ibv.OpWrite, SGEs: []ibv.SGE{e[0].sge(0, 4)}, Remote: e[1].remote(10)},
		ibv.SendWR{ID: 2, Opcode: ibv.OpRead, SGEs: []ibv.SGE{e[0].sge(100, 2)}, Remote: e[1].remote(11)},
		ibv.SendWR{ID: 3, Opcode: ibv.OpFetchAdd, SGEs: []ibv.SGE{e[0].sge(200, 8)}, Remote: e[1].remote(64),
			CompareAdd: 3},
		ibv.SendWR{ID: 4, Opcode: ibv.OpCompareSwap, SGEs: []ibv.SGE{e[0].sge(208, 8)}, Remote: e[1].remote(64),
			CompareAdd: 8, Swap: 9},
		ibv.SendWR{ID: 5, Opcode: ibv.OpCompareSwap, SGEs: []ibv.SGE{e[0].sge(216, 8)}, Remote: e[1].remote(64),
			CompareAdd: 8, Swap: 10, Flags: ibv.Signaled})
	if got := e[0].all(t); len(got) != 1 || got[0].ID != 5 || got[0].Status != ibv.WCSuccess {
		t.Fatalf("%+v", got)
	}
	mem := e[0].mem.Bytes()
	if string(mem[100:102]) != "at" || string(e[1].mem.Bytes()[10:14]) != "data" {
		t.Errorf("%q %q", mem[100:102], e[1].mem.Bytes()[10:14])
	}
	for i, want := range []uint64{5, 8, 9} {
		if got := binary.NativeEndian.Uint64(mem[200+8*i:]); got != want {
			t.Errorf("atomic %d found %d, want %d", i, got, want)
		}
	}
}

// TestMistakes: what an adapter refuses ends both queue pairs, and everything else is flushed.
func TestMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		wr    func(e [2]*end) ibv.SendWR
		first ibv.WCStatus
		peer  []ibv.WCStatus // of its completions
	}{
		"no right of the queue pair": {func(e [2]*end) ibv.SendWR {
			return ibv.SendWR{Opcode: ibv.OpRead, SGEs: []ibv.SGE{e[0].sge(0, 1)}, Remote: e[1].remote(0)}
		}, ibv.WCRemAccessErr, nil},
		"beyond the memory": {func(e [2]*end) ibv.SendWR {
			return ibv.SendWR{Opcode: ibv.OpWrite, SGEs: []ibv.SGE{e[0].sge(0, 2)}, Remote: e[1].remote(4095)}
		}, ibv.WCRemAccessErr, nil},
		"another key": {func(e [2]*end) ibv.SendWR {
			return ibv.SendWR{Opcode: ibv.OpWrite, SGEs: []ibv.SGE{e[0].sge(0, 2)},
				Remote: ibv.RemoteAddr{Addr: e[1].mem.Addr(), RKey: 99}}
		}, ibv.WCRemAccessErr, nil},
		"an atomic at an odd address": {func(e [2]*end) ibv.SendWR {
			return ibv.SendWR{Opcode: ibv.OpFetchAdd, SGEs: []ibv.SGE{e[0].sge(0, 8)}, Remote: e[1].remote(4)}
		}, ibv.WCRemAccessErr, nil},
		"too long for the receive": {func(e [2]*end) ibv.SendWR {
			return ibv.SendWR{Opcode: ibv.OpSend, SGEs: []ibv.SGE{e[0].sge(0, 65)}}
		}, ibv.WCRemInvReqErr, []ibv.WCStatus{ibv.WCLocLenErr}},
		"a local key that is none": {func([2]*end) ibv.SendWR {
			return ibv.SendWR{Opcode: ibv.OpSend, SGEs: []ibv.SGE{{Addr: 1, Length: 1, LKey: 1}}}
		}, ibv.WCLocProtErr, []ibv.WCStatus{ibv.WCWRFlushErr}},
	} {
		t.Run(name, func(t *testing.T) {
			_, e := pair()
			if name == "beyond the memory" || name == "another key" || name == "an atomic at an odd address" {
				_ = e[1].qp.Allow(ibv.RemoteWrite | ibv.RemoteAtomic)
			}
			e[1].recv(t, 1, 0, 64)
			e[1].post(t, ibv.SendWR{ID: 50, Opcode: ibv.OpSend, Inline: []byte("x")}) // waits for a receive
			e[0].post(t, tc.wr(e), ibv.SendWR{ID: 2, Opcode: ibv.OpSend, Inline: []byte("y")})
			_ = e[0].qp.Rest(t.Context())
			_, _ = e[0].qp.Mark(t.Context(), 3)
			want := []ibv.WCStatus{tc.first, ibv.WCWRFlushErr, ibv.WCWRFlushErr}
			if got := statuses(e[0].all(t)); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			_ = e[1].qp.Rest(t.Context())
			got := statuses(e[1].all(t))
			if len(got) != 2 || tc.peer == nil && !slices.Contains(got, ibv.WCWRFlushErr) ||
				tc.peer != nil && got[0] != tc.peer[0] && got[1] != tc.peer[0] {
				t.Errorf("the peer: %v, want a receive and a send that failed, with %v", got, tc.peer)
			}
		})
	}
}

// TestClosed: what is posted to an end that is gone fails, and memory that was closed is not touched.
func TestClosed(t *testing.T) {
	_, e := pair()
	e[0].post(t, ibv.SendWR{ID: 1, Opcode: ibv.OpSend, Inline: []byte("x")})
	e[1].qp.Close()
	if got := statuses(e[0].all(t)); !slices.Equal(got, []ibv.WCStatus{ibv.WCRetryExcErr}) {
		t.Errorf("%v", got)
	}
	_, e = pair()
	_ = e[1].qp.Allow(ibv.RemoteWrite)
	if err := e[1].mem.Close(); err != nil {
		t.Fatal(err)
	}
	e[0].post(t, ibv.SendWR{ID: 1, Opcode: ibv.OpWrite, SGEs: []ibv.SGE{e[0].sge(0, 1)}, Remote: e[1].remote(0)})
	if got := statuses(e[0].all(t)); !slices.Equal(got, []ibv.WCStatus{ibv.WCRemAccessErr}) {
		t.Errorf("%v", got)
	}
	if n, err := e[0].qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpBindMW}}); n != 0 || err == nil {
		t.Errorf("a window was bound: %d, %v", n, err)
	}
	if n, err := e[0].qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Inline: make([]byte, 65)}}); n != 0 || err == nil {
		t.Errorf("65 bytes inline: %d, %v", n, err)
	}
}

// TestEvents: there is an event for the first completion after Arm, and none for one that was there.
func TestEvents(t *testing.T) {
	_, e := pair()
	send := func() { e[0].post(t, ibv.SendWR{Opcode: ibv.OpSend, Inline: []byte("x")}) }
	for i := range 3 {
		e[1].recv(t, uint64(i), 0, 8)
	}
	send()
	if err := e[1].cq.Arm(); err != nil {
		t.Fatal(err)
	}
	if len(e[1].cq.event) != 0 {
		t.Error("an event for what was there")
	}
	send()
	send()
	if err := e[1].cq.ReadEvents(); err != nil || e[1].cq.Events() != 1 || len(e[1].cq.event) != 0 {
		t.Errorf("%v, %d events read, %d to come; want one in all", err, e[1].cq.Events(), len(e[1].cq.event))
	}
	e[1].cq.Interrupt()
	e[1].cq.Interrupt()
	if err := e[1].cq.ReadEvents(); err != nil || len(e[1].cq.event) != 0 {
		t.Error("Interrupt does not end ReadEvents once")
	}
}

// TestRandom sends random lengths both ways, with receives that come early and late.
func TestRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	_, e := pair()
	var sent, got [2][]byte
	posted := [2]int{}
	for step := range 20_000 {
		i := rnd.IntN(2)
		switch rnd.IntN(3) {
		case 0:
			if e[i].qp.queue.Len() > 30 {
				continue
			}
			p := make([]byte, rnd.IntN(maxInline))
			for k := range p {
				p[k] = byte(rnd.Uint32())
			}
			sent[i] = append(sent[i], p...)
			e[i].post(t, ibv.SendWR{ID: uint64(step), Opcode: ibv.OpSend, Inline: p})
		case 1:
			e[i].recv(t, uint64(posted[i]%64), posted[i]%64*64, 64)
			posted[i]++
			fallthrough
		default:
			for _, wc := range e[i].all(t) {
				at := int(wc.ID) * 64
				got[i] = append(got[i], e[i].mem.Bytes()[at:at+int(wc.ByteLen)]...)
			}
		}
		if posted[i]%64 == 63 {
			posted[i]++
		}
	}
	for i := range e {
		if want := sent[1-i][:len(got[i])]; !bytes.Equal(got[i], want) || len(got[i]) < 10_000 {
			t.Errorf("end %d got %d bytes of %d, or others", i, len(got[i]), len(sent[1-i]))
		}
	}
}

// TestRQ_Memory: receives that are posted and taken for long, while some are always there, take no more memory.
func TestRQ_Memory(t *testing.T) {
	_, e := pair()
	for range 100 {
		e[1].recv(t, 1, 0, 64)
	}
	sends := []ibv.SendWR{{Opcode: ibv.OpSend, SGEs: []ibv.SGE{e[0].sge(0, 64)}}}
	recvs := []ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{e[1].sge(0, 64)}}}
	var wcs [4]ibv.WC
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 50_000 {
		e[0].post(t, sends...)
		if n, _ := e[1].cq.Poll(wcs[:]); n != 1 {
			t.Fatalf("%d completions", n)
		}
		if _, err := e[1].rq.PostRecv(recvs); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 256<<10 {
		t.Errorf("%d bytes were allocated, want at most %d", n, 256<<10)
	}
}
