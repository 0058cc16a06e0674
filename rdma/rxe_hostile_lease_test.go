package rdma

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// leaseHello is the hello of a peer that allows leases.
func leaseHello() []byte {
	h := goodHello(wire.Messages)
	h[7] = wire.HelloLeases
	return h
}

// about posts a frame about leases.
func (a *attacker) about(c wire.Control) error {
	n := copy(a.mr.Bytes()[wire.HeaderLen:], c.Payload())
	return a.post(wire.Header{Kind: c.Kind, Aux: c.Aux, Length: uint32(n), Limit: link.StartWindow}, n)
}

// access posts a read, write or atomic of 8 bytes.
func (a *attacker) access(op ibv.Opcode, addr uint64, rkey uint32) error {
	return a.send(ibv.SendWR{Opcode: op, SGEs: []ibv.SGE{a.mr.SGE(1024, 8)},
		Remote: ibv.RemoteAddr{Addr: addr, RKey: rkey}})
}

// TestRXE_HostileLeases has a peer that breaks the rules of leases. Its connection ends with an error that says how,
// the memory that it was not lent stays as it is, and other connections work on.
func TestRXE_HostileLeases(t *testing.T) {
	needEvents(t)
	good := wire.LendFrame{Addr: 4096, Length: 64, RKey: 5, Milliseconds: 60_000, Access: uint8(MayRead)}
	lends := func(number uint32, change func(*wire.LendFrame)) func(*attacker, *Lease) {
		return func(a *attacker, _ *Lease) {
			f := good
			change(&f)
			_ = a.about(f.Encode(number))
		}
	}
	tells := func(n int, c wire.Control) func(*attacker, *Lease) {
		return func(a *attacker, _ *Lease) {
			for range n {
				if a.about(c) != nil {
					return
				}
			}
		}
	}
	request := func(number uint16, rights Access) wire.Control {
		f := wire.RequestFrame{Bytes: 8, Access: uint8(rights)}
		return f.Encode(number)
	}
	limit := func(aux uint32) func(*attacker, *Lease) {
		return func(a *attacker, _ *Lease) {
			_ = a.post(wire.Header{Kind: wire.Limit, Limit: link.StartWindow, Aux: aux}, 0)
		}
	}
	touch := func(op ibv.Opcode, off uint64, key uint32) func(*attacker, *Lease) {
		return func(a *attacker, s *Lease) { _ = a.access(op, s.key.remote.Addr+off, s.key.remote.RKey+key) }
	}
	const remote = "remote access: got"
	rows := []struct {
		name   string
		rights Access
		do     func(*attacker, *Lease)
		want   string
	}{
		{"another number", MayRead, lends(1, func(*wire.LendFrame) {}), "LEND: got lease 1, want 0"},
		{"nothing lent", MayRead, lends(0, func(f *wire.LendFrame) { f.Length = 0 }), "LEND: got 0 bytes"},
		{"beyond all memory", MayRead, lends(0, func(f *wire.LendFrame) { f.Addr = 1<<64 - 8 }), "a range of memory"},
		{"unknown rights", MayRead, lends(0, func(f *wire.LendFrame) { f.Access = 0x48 }), "rights that are known"},
		{"unknown flags", MayRead, lends(0, func(f *wire.LendFrame) { f.Flags = 2 }), "flags 0x2"},
		{"no time", MayRead, lends(0, func(f *wire.LendFrame) { f.Milliseconds = 0 }), "LEND: got 0 ms"},
		{"an answer to nothing", MayRead, lends(0, func(f *wire.LendFrame) { f.Request = 9 }), "request 9"},
		{"a return of what was not lent", MayRead, tells(1, wire.NumberFrame(wire.Return, 1, 0)),
			"RETURN: got lease 1"},
		{"a revocation of nothing", MayRead, tells(1, wire.NumberFrame(wire.Revoke, 0, 0)), "REVOKE: got lease 0"},
		{"an extension of nothing", MayRead, tells(1, wire.NumberFrame(wire.Extend, 0, 9)), "EXTEND: got lease 0"},
		{"a refusal of nothing", MayRead, tells(1, wire.NumberFrame(wire.Refuse, 3, 0)), "request 3"},
		{"request 0", MayRead, tells(1, request(0, MayRead)), "REQUEST: got number 0"},
		{"a request for unknown rights", MayRead, tells(1, request(1, 0x80)), "rights that are known"},
		{"a flood of requests", MayRead, tells(6000, request(1, MayRead)), "the peer broke"},
		{"a short frame", MayRead, func(a *attacker, _ *Lease) {
			_ = a.post(wire.Header{Kind: wire.Lend, Limit: link.StartWindow, Length: 27}, 27)
		}, "length of LEND: got 27, want 28"},
		{"a limit that goes back", MayRead, limit(3), "limit of frames about leases: got 3"},
		{"a limit without bound", MayRead, limit(1 << 20), "limit of frames about leases"},
		{"a write to what is lent for reading", MayRead, touch(ibv.OpWrite, 0, 0), remote},
		{"a read of what is lent for writing", MayWrite, touch(ibv.OpRead, 0, 0), remote},
		{"an atomic on what is lent for writing", MayWrite, touch(ibv.OpFetchAdd, 0, 0), remote},
		{"a read beyond the end", MayRead, touch(ibv.OpRead, 4096-7, 0), remote},
		{"a read before the begin", MayRead, touch(ibv.OpRead, 1<<64-1, 0), remote},
		{"an atomic that is not aligned", MayAtomic, touch(ibv.OpFetchAdd, 4, 0), remote},
		{"a key that was guessed", MayRead | MayWrite, touch(ibv.OpRead, 0, 1), remote},
		{"the address in the process", MayRead | MayWrite, func(a *attacker, s *Lease) {
			addr := s.mem.Addr
			if addr == s.key.remote.Addr { // the library is from before ibv_reg_mr_iova
				addr += 4096
			}
			_ = a.access(ibv.OpRead, addr, s.key.remote.RKey)
		}, remote},
		{"the key of a block", MayRead | MayWrite, func(a *attacker, s *Lease) {
			mr := a.victim.e.Shards[0].Blocks.Slab().(*ibv.MR)
			_ = a.access(ibv.OpWrite, mr.Addr(), mr.RKey())
		}, remote},
		{"a write with a number", MayWrite, touch(ibv.OpWriteImm, 0, 0), "receive: got"},
		{"a write after the return", MayWrite, func(a *attacker, s *Lease) {
			if a.about(wire.NumberFrame(wire.Return, 0, 0)) == nil {
				<-s.Done()
				_ = a.access(ibv.OpWrite, s.key.remote.Addr, s.key.remote.RKey)
			}
		}, remote},
		{"a write after the revocation", MayWrite, func(a *attacker, s *Lease) {
			for a.access(ibv.OpWrite, s.key.remote.Addr+8, s.key.remote.RKey) == nil {
				if a.n == 3 {
					go func() { _ = s.Revoke(timeout(t)) }()
				}
			}
		}, remote},
	}
	eachKeys(t, func(t *testing.T, keys LeaseKeys) {
		server, client := keyEngines(t, EngineOptions{Memory: 16 << 20}, keys, keys)
		for _, c := range rows {
			if strings.HasPrefix(c.name, "an atomic") && !hasAtomics(client) {
				continue // the attacker's device refuses it
			}
			t.Run(c.name, func(t *testing.T) {
				l, err := Listen(timeout(t), testutil.NeedRXE(t).IP[0]+":0", &Options{Engine: server,
					Leases: &LeaseOptions{Grace: 50 * time.Millisecond}})
				ok(t, err)
				defer l.Close()
				a, err := attack(t, l.Addr().String(), leaseHello())
				ok(t, err)
				a.victim = server
				victim, err := l.Accept(timeout(t))
				ok(t, err)
				defer victim.Close()
				mem := buffer(t, server, 3*4096)
				mem.Truncate(4096)
				was := scramble(mem, 7)
				s, err := victim.Lend(timeout(t), mem, c.rights, 0)
				ok(t, err)
				ok(t, victim.Flush(timeout(t))) // a window is bound
				done := make(chan struct{})
				go func() {
					defer close(done)
					c.do(a, s)
				}()
				<-victim.Done()
				<-done
				if err := victim.Err(); err == nil || !strings.Contains(err.Error(), c.want) || !isProtocol(err) {
					t.Errorf("the victim's error: %v, want a *ProtocolError with %q", err, c.want)
				}
				if _, err := s.Wait(timeout(t)); c.name != "a write after the return" && err == nil {
					t.Error("the lease has ended without an error")
				}
				if c.rights&MayWrite == 0 && !bytes.Equal(mem.Bytes(), was) {
					t.Error("the memory has changed")
				}
			})
		}
		x, y := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
		echo(t, x, y)
		ok(t, x.Close())
		ok(t, y.Close())
	})
}

// TestRXE_HostileHolder revokes leases of a peer that does not return them, and goes on writing: not a byte changes
// when Revoke has returned.
func TestRXE_HostileHolder(t *testing.T) {
	if r := testutil.NeedRXE(t); !r.Emulated { // whose windows are not used
		hostileHolder(t, KeysMR)
		return
	}
	eachKeys(t, hostileHolder)
}

func hostileHolder(t *testing.T, keys LeaseKeys) {
	server, _ := keyEngines(t, EngineOptions{Memory: 16 << 20}, keys, keys)
	rounds := 3
	switch {
	case testutil.Full() && testutil.NeedRXE(t).Emulated:
		rounds = 1000
	case testutil.Full():
		rounds = 30
	case !testutil.NeedRXE(t).Emulated:
		rounds = 1 // without an event the victim ends by KeepAlive
	}
	l, err := Listen(timeout(t), testutil.NeedRXE(t).IP[0]+":0", &Options{Engine: server, KeepAlive: time.Second,
		Leases: &LeaseOptions{Grace: time.Millisecond}})
	ok(t, err)
	defer l.Close()
	mem := buffer(t, server, 16<<10)
	for range rounds {
		a, err := attack(t, l.Addr().String(), leaseHello())
		ok(t, err)
		victim, err := l.Accept(timeout(t))
		ok(t, err)
		scramble(mem, 1)
		s, err := victim.Lend(timeout(t), mem, MayWrite, 0)
		ok(t, err)
		ok(t, victim.Flush(timeout(t))) // a window is bound
		ended, began := make(chan error), make(chan struct{})
		go func() {
			var err error
			for n := 0; err == nil; n++ {
				if n == 3 {
					close(began)
				}
				a.mr.Bytes()[0]++
				err = a.send(ibv.SendWR{Opcode: ibv.OpWrite, SGEs: []ibv.SGE{a.mr.SGE(0, 16<<10)},
					Remote: ibv.RemoteAddr{Addr: s.key.remote.Addr, RKey: s.key.remote.RKey}})
			}
			ended <- err
		}()
		<-began
		ok(t, s.Revoke(timeout(t)))
		was := bytes.Clone(mem.Bytes())
		var wc *ibv.WCError
		if err := <-ended; !errors.As(err, &wc) {
			t.Errorf("the writer's end: %v", err)
		}
		<-victim.Done()
		if !bytes.Equal(was, mem.Bytes()) {
			t.Error("the memory has changed after Revoke")
		}
		ok(t, victim.Close())
	}
}
