package ibv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// reconnect resets a pair and connects it again.
func reconnect(t testing.TB, a, b *side) {
	t.Helper()
	for _, s := range []*side{a, b} {
		ok(t, s.qp.Modify(&QPAttr{State: StateReset}, MaskState))
	}
	connectRXE(t, a.qp, b.qp)
}

// A Batch that is built, posted or forgotten while the QP is in RESET brings
// nothing of the connection before into the next one.
func TestRXE_BatchAfterReset(t *testing.T) {
	a, b := newPair(t, nil, nil)
	to := b.mr.Remote()
	write := func(id uint64, v byte) {
		t.Helper()
		a.mr.Bytes()[0] = v
		q := a.qp.Batch()
		q.Write(id, Signaled, a.mr.SGE(0, 1), to.At(id*8))
		ok(t, q.Post())
		a.good(t, id)
	}
	old := a.qp.Batch() // of the first connection
	for round := range uint64(4) {
		for i := range uint64(5) {
			write(i, byte(i+1))
		}
		if round == 0 {
			old.Write(50, Signaled, a.mr.SGE(0, 1), to.At(400))
		}
		for _, s := range []*side{a, b} {
			ok(t, s.qp.Modify(&QPAttr{State: StateReset}, MaskState))
		}
		q := a.qp.Batch()
		if round > 0 {
			q.Write(100, Signaled, a.mr.SGE(0, 1), to.At(0))
		}
		var se *StateError
		if err := q.Post(); !errors.As(err, &se) || se.State != StateReset {
			t.Errorf("a batch posted in RESET: %v", err)
		}
		connectRXE(t, a.qp, b.qp)
		clear(b.mr.Bytes()[:4096])
		write(200, 0x77)
		for i, v := range b.mr.Bytes()[:4096] {
			if v != 0 && i != 1600 {
				t.Fatalf("round %d: byte %d of the peer is %#x: only 1600 was written on this connection", round, i, v)
			}
		}
		if n := drain(t, a.cq); n != 0 {
			t.Fatalf("round %d: %d completions more", round, n)
		}
	}
	// What was built before is posted where the QP is now.
	ok(t, old.Post())
	a.good(t, 50)
	if b.mr.Bytes()[400] != 0x77 {
		t.Error("the batch of the first connection wrote nothing")
	}
}

// The flag Inline copies the data when the work request is posted, in each
// method of Batch: its memory is free then, and its key is not looked at.
func TestRXE_BatchInlineFlag(t *testing.T) {
	a, b := newPair(t, &QPOptions{MaxInline: 64, MaxSendSGE: 2}, nil)
	to := b.mr.Remote().At(0)
	const flags = Signaled | Inline
	for _, m := range []struct {
		name     string
		receives bool
		add      func(q *Batch, s SGE)
	}{
		{"Write", false, func(q *Batch, s SGE) { q.Write(1, flags, s, to) }},
		{"WriteImm", true, func(q *Batch, s SGE) { q.WriteImm(1, flags, s, to, 2) }},
		{"Send", true, func(q *Batch, s SGE) { q.Send(1, flags, s) }},
		{"SendImm", true, func(q *Batch, s SGE) { q.SendImm(1, flags, s, 2) }},
		{"Add", false, func(q *Batch, s SGE) {
			q.Add(&SendWR{ID: 1, Opcode: OpWrite, Flags: flags, SGEs: []SGE{s}, Remote: to})
		}},
		{"Add of two SGEs", false, func(q *Batch, s SGE) {
			two := []SGE{s, s}
			two[0].Length, two[1].Length, two[1].Addr = 2, 3, s.Addr+2
			q.Add(&SendWR{ID: 1, Opcode: OpWrite, Flags: flags, SGEs: two, Remote: to})
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			for range 20 {
				copy(a.mr.Bytes(), "RIGHT")
				clear(b.mr.Bytes()[:8])
				if m.receives {
					recv(t, b.qp, RecvWR{ID: 9, SGEs: []SGE{b.mr.SGE(0, 64)}})
				}
				s := a.mr.SGE(0, 5)
				s.LKey = 0
				q := a.qp.Batch()
				m.add(q, s)
				ok(t, q.Post())
				copy(a.mr.Bytes(), "WRONG")
				a.good(t, 1)
				if m.receives {
					b.good(t, 9)
				}
				if got := b.mr.Bytes()[:5]; string(got) != "RIGHT" {
					t.Fatalf("%q arrived", got)
				}
			}
		})
	}
}

// Opcodes of another transport are refused by a typed error, in whatever way
// they come, and so is a datagram without an address. The QP is as it was.
func TestRXE_BatchOfAnotherTransport(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, typ := range []QPType{UD, UC} {
		t.Run(typ.String(), func(t *testing.T) {
			a, b := newPair(t, &QPOptions{Type: typ, MaxInline: 32}, nil)
			s, to := a.mr.SGE(0, 8), b.mr.Remote().At(0)
			opcodes := map[string]func(q *Batch){
				"Read":        func(q *Batch) { q.Read(1, Signaled, s, to) },
				"CompareSwap": func(q *Batch) { q.CompareSwap(1, Signaled, s, to, 1, 2) },
				"FetchAdd":    func(q *Batch) { q.FetchAdd(1, Signaled, s, to, 1) },
				"SendInv":     func(q *Batch) { q.SendInv(1, Signaled, s, 5) },
			}
			addresses := map[string]func(q *Batch){}
			if typ == UD {
				opcodes["Write"] = func(q *Batch) { q.Write(1, Signaled, s, to) }
				opcodes["WriteImm"] = func(q *Batch) { q.WriteImm(1, Signaled, s, to, 1) }
				opcodes["WriteInline"] = func(q *Batch) { q.WriteInline(1, Signaled, []byte("x"), to) }
				opcodes["LocalInv"] = func(q *Batch) { q.LocalInv(1, Signaled, 5) }
				addresses["Send"] = func(q *Batch) { q.Send(1, Signaled, s) }
				addresses["SendImm"] = func(q *Batch) { q.SendImm(1, Signaled, s, 1) }
				addresses["SendInline"] = func(q *Batch) { q.SendInline(1, Signaled, []byte("x")) }
			}
			for arg, methods := range map[string]map[string]func(q *Batch){"Opcode": opcodes, "AH": addresses} {
				for name, add := range methods {
					q := a.qp.Batch()
					add(q)
					var ae *ArgError
					if err := q.Post(); !errors.As(err, &ae) || ae.Arg != arg {
						t.Errorf("Batch.%s: %v, want an ArgError of %s", name, err, arg)
					}
				}
			}
			for _, n := range []int{1, 3} { // one is posted otherwise than several
				wrs := make([]SendWR, n)
				for i := range wrs {
					wrs[i] = SendWR{Opcode: OpRead, Flags: Signaled, SGEs: []SGE{s}, Remote: to}
					if typ == UD {
						wrs[i] = SendWR{Opcode: OpSend, Flags: Signaled, SGEs: []SGE{s}}
					}
				}
				var ae *ArgError
				if k, err := a.qp.PostSend(wrs); k != 0 || !errors.As(err, &ae) {
					t.Errorf("PostSend of %d: %d, %v", n, k, err)
				}
			}
			recv(t, b.qp, RecvWR{ID: 7, SGEs: []SGE{b.mr.SGE(0, 100)}})
			wr := SendWR{ID: 8, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{s}}
			if typ == UD {
				ah := closing(t,
					must(a.pd.CreateAH(must(a.qp.Address(must(b.qp.Endpoint(rxe.Port, rxe.GID))(t), nil))(t)))(t))
				wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, b.qp.Num(), DefaultQKey
			}
			post(t, a.qp, wr)
			a.good(t, 8)
			b.good(t, 7)
		})
	}
}

// Where a Read takes its data is not inline data, however it is posted.
func TestRXE_ReadInline(t *testing.T) {
	a, b := newPair(t, &QPOptions{MaxInline: 32}, nil)
	wr := SendWR{ID: 1, Opcode: OpRead, Flags: Signaled, Inline: []byte("x"), Remote: b.mr.Remote().At(0)}
	for n := 1; n <= 3; n++ {
		var ae *ArgError
		if k, err := a.qp.PostSend([]SendWR{wr, wr, wr}[:n]); k != 0 || !errors.As(err, &ae) || ae.Arg != "Inline" {
			t.Errorf("PostSend of %d: %d, %v", n, k, err)
		}
	}
	post(t, a.qp, SendWR{ID: 2, Opcode: OpRead, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)},
		Remote: b.mr.Remote().At(0)})
	a.good(t, 2)
}

// What of a Batch finds no room stays in it; everything arrives, in order.
func TestRXE_BatchLargerThanQueue(t *testing.T) {
	a, b := newPair(t, &QPOptions{MaxSendWR: 8, MaxInline: 16}, nil)
	total := 3*a.qp.Cap().MaxSendWR + 5
	// Other devices complete requests, which frees their places in the queue, while Post still adds some.
	slow := testutil.NeedRXE(t).Emulated
	q := a.qp.Batch()
	for i := range total {
		if i%3 == 0 {
			q.WriteInline(uint64(i), Signaled, []byte{byte(i)}, b.mr.Remote().At(uint64(i)))
		} else {
			a.mr.Bytes()[i] = byte(i)
			q.Write(uint64(i), Signaled, a.mr.SGE(i, 1), b.mr.Remote().At(uint64(i)))
		}
	}
	done, posts := 0, 0
	for q.Len() > 0 {
		before := q.Len()
		err := q.Post()
		posts++
		n := before
		if err != nil {
			var pe *PostError
			if !errors.Is(err, ErrQueueFull) || !errors.As(err, &pe) || pe.Total != before {
				t.Fatal(err)
			}
			if n = pe.Accepted; posts == 1 && (n == 0 || slow && n > a.qp.Cap().MaxSendWR) {
				t.Errorf("%d of %d were taken by a queue of %d", n, before, a.qp.Cap().MaxSendWR)
			}
		}
		if q.Len() != before-n {
			t.Fatalf("%d stay, want %d: %v", q.Len(), before-n, err)
		}
		for range n {
			a.good(t, uint64(done))
			done++
		}
	}
	if done != total || slow && posts < 4 {
		t.Errorf("%d of %d came, after %d posts", done, total, posts)
	}
	for i, v := range b.mr.Bytes()[:total] {
		if v != byte(i) {
			t.Fatalf("byte %d is %d", i, v)
		}
	}
}

func TestRXE_BatchReuse(t *testing.T) {
	testutil.NeedLogic(t)
	opt := &QPOptions{MaxSendWR: 16, MaxRecvWR: 128, MaxInline: 64, MaxSendSGE: 3}
	a, b := newPair(t, opt, nil)
	c, d := newPair(t, opt, nil)
	for _, s := range []*side{a, b, c, d} {
		clear(s.mr.Bytes())
	}
	flags := Fence | Signaled | Solicited
	rxe := testutil.NeedRXE(t)
	repeats := func() uint64 { return 0 }
	if !rxe.Emulated && !rxe.Hardware {
		flags &^= Fence // SoftRoCE's requester goes to sleep at a fence now and then
		repeats = func() (sum uint64) {
			for _, dev := range rxe.Dev {
				for _, name := range []string{"duplicate_request", "out_of_seq_request"} {
					n := must(os.ReadFile("/sys/class/infiniband/" + dev + "/ports/1/hw_counters/" + name))(t)
					sum += must(strconv.ParseUint(strings.TrimSpace(string(n)), 10, 64))(t)
				}
			}
			return sum
		}
	}
	for seed := range uint64(3) {
		testBatchReuse(t, seed, flags, !rxe.Emulated, repeats, [2]*side{a, b}, [2]*side{c, d})
	}
}

// TestRXE_FullOfUnsignaled: polling cannot empty a queue that is full of unsignaled
// work requests, and the error says so. With one signaled request it can.
func TestRXE_FullOfUnsignaled(t *testing.T) {
	if rxe := testutil.NeedRXE(t); !rxe.Emulated && !rxe.Hardware {
		t.Skip("SoftRoCE's queue holds more than it says, and sends while it is posted to")
	}
	a, b := newPair(t, &QPOptions{MaxSendWR: 8}, nil)
	const hint = "asked for a completion"
	most := a.qp.Cap().MaxSendWR
	for round, signaled := range []int{-1, 0, most / 2, most - 1, -1} { // which one is signaled
		t.Run(fmt.Sprintf("round %d, signaled %d", round, signaled), func(t *testing.T) {
			// The responder is slow: nothing completes. It has no receive.
			wrs := make([]SendWR, most+1)
			for i := range wrs {
				wrs[i] = SendWR{ID: uint64(i), Opcode: OpSend, SGEs: []SGE{a.mr.SGE(0, 8)}}
				if i == signaled {
					wrs[i].Flags = Signaled
				}
			}
			n, err := a.qp.PostSend(wrs)
			if n != most || !errors.Is(err, ErrQueueFull) {
				t.Fatalf("%d of %d: %v", n, most, err)
			}
			q := a.qp.Batch()
			q.Send(99, Signaled, a.mr.SGE(0, 8))
			for _, err := range []error{err, q.Post()} {
				if !errors.Is(err, ErrQueueFull) || bytes.Contains([]byte(err.Error()),
					[]byte(hint)) != (signaled < 0) {
					t.Errorf("full: %v", err)
				}
			}
			if signaled >= 0 { // it is polled, and there is room
				for range most {
					recv(t, b.qp, RecvWR{ID: 1, SGEs: []SGE{b.mr.SGE(0, 8)}})
				}
				a.good(t, uint64(signaled))
				for range most {
					b.good(t, 1)
				}
				recv(t, b.qp, RecvWR{ID: 2, SGEs: []SGE{b.mr.SGE(0, 8)}})
				post(t, a.qp, SendWR{ID: 77, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}})
				a.good(t, 77)
				b.good(t, 2)
			}
			reconnect(t, a, b) // which the error says frees it
			recv(t, b.qp, RecvWR{ID: 3, SGEs: []SGE{b.mr.SGE(0, 8)}})
			post(t, a.qp, SendWR{ID: 78, Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}})
			a.good(t, 78)
			b.good(t, 3)
		})
	}
}
