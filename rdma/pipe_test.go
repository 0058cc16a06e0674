package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// memoryEngines makes two engines that can be connected without a device.
func memoryEngines(t testing.TB, opt func(i int) *EngineOptions) (list [2]*Engine) {
	t.Helper()
	mem := inmem.New()
	switch {
	case strings.HasPrefix(t.Name(), "TestMemory/least/"):
		grantLeast(&mem.Granted)
	case strings.HasPrefix(t.Name(), "TestMemory/iWARP/"):
		mem = inmem.NewIWARP()
	}
	for i := range list {
		e, err := newMemoryEngine(opt(i), mem)
		ok(t, err)
		list[i] = e
		t.Cleanup(func() { atEnd(t, e) })
	}
	return list
}

// both has the same options for two engines.
func both(opt *EngineOptions) func(int) *EngineOptions {
	return func(int) *EngineOptions { return opt }
}

// inMemory makes a connection of two engines without a device.
func inMemory(t testing.TB, engines [2]*Engine, kind wire.ConnKind, opt [2]*Options) (a, b *link.Link) {
	t.Helper()
	ends, err := pipe(kind, engines, opt)
	ok(t, err)
	return ends[0], ends[1]
}

// sharing are tests of receives that connections share, and of what they take from each other. On iWARP they share
// none.
var sharing = []string{"KeptMessages", "LargeBlocksOfOneEnd", "LargeGrown", "LargeMostConns",
	"LargeStreams", "NoLargeBlocks", "Stalled", "Unread"}

// TestMemory runs tests that others run on devices on engines in memory.
func TestMemory(t *testing.T) {
	for name, f := range map[string]func(*testing.T){
		"ActiveWindows":       TestRXE_ActiveWindows,
		"Batch":               TestRXE_Batch,
		"Busy":                TestRXE_Busy,
		"Calls":               TestRXE_Calls,
		"Cancelled":           TestRXE_Cancelled,
		"CloseBeside":         TestRXE_CloseBeside,
		"CopyBesides":         TestRXE_CopyBesides,
		"CopyDeadlines":       TestRXE_CopyDeadlines,
		"CopyIdle":            TestRXE_CopyIdle,
		"GetWaitSends":        TestRXE_GetWaitSends,
		"KeptMessages":        TestRXE_KeptMessages,
		"NoBlocks":            TestRXE_NoBlocks,
		"Stalled":             TestRXE_Stalled,
		"RequestContext":      TestRXE_RequestContext,
		"RequestContextEnds":  TestRXE_RequestContextEnds,
		"LargeBlocksOfOneEnd": TestRXE_LargeBlocksOfOneEnd,
		"LargeGrown":          TestRXE_LargeGrown,
		"LargeMostConns":      TestRXE_LargeMostConns,
		"LargeStreams":        TestRXE_LargeStreams,
		"Manual":              TestRXE_Manual,
		"ManualClosed":        TestRXE_ManualClosed,
		"ManualLease":         TestRXE_ManualLease,
		"ManyLongMessages":    TestRXE_ManyLongMessages,
		"Messages":            TestRXE_Messages,
		"NetConn":             TestRXE_NetConn,
		"NoLargeBlocks":       TestRXE_NoLargeBlocks,
		"Packed":              TestRXE_Packed,
		"PackedClosed":        TestRXE_PackedClosed,
		"PackedHeld":          TestRXE_PackedHeld,
		"Pollers":             TestRXE_Pollers,
		"SendBuffer":          TestRXE_SendBuffer,
		"ServeEnds":           TestRXE_ServeEnds,
		"ServeFull":           TestRXE_ServeFull,
		"ServeLongPolls":      TestRXE_ServeLongPolls,
		"ServeReleases":       TestRXE_ServeReleases,
		"Stream":              TestRXE_Stream,
		"StreamDone":          TestRXE_StreamDone,
		"Unread":              TestRXE_Unread,
		"WaitersPoll":         TestRXE_WaitersPoll,
		"WaitersStress":       TestRXE_WaitersStress,
		"WriteBuffers":        TestRXE_WriteBuffers,
	} {
		t.Run(name, f)
		if !slices.Contains(sharing, name) {
			t.Run("iWARP/"+name, f)
		}
	}
	for name, f := range map[string]func(*testing.T){
		"Batch":        TestRXE_Batch,
		"Calls":        TestRXE_Calls,
		"LargeStreams": TestRXE_LargeStreams,
		"ManualLease":  TestRXE_ManualLease,
		"Messages":     TestRXE_Messages,
		"Packed":       TestRXE_Packed,
		"PackedHeld":   TestRXE_PackedHeld,
		"SendBuffer":   TestRXE_SendBuffer,
		"Stream":       TestRXE_Stream,
		"WriteBuffers": TestRXE_WriteBuffers,
	} {
		t.Run("least/"+name, f)
	}
}

// TestPipe sends messages of many lengths both ways at once; they arrive in order, and then io.EOF.
func TestPipe(t *testing.T) {
	engines := memoryEngines(t, both(nil))
	la, lb := inMemory(t, engines, wire.Messages, [2]*Options{{MaxMessage: 1 << 20}, {}})
	ends := [2]*Conn{{la}, {lb}}
	const n = 500
	message := func(from, i int) []byte {
		r := rand.New(rand.NewPCG(uint64(from), uint64(i)))
		p := make([]byte, r.IntN([]int{64, 5000, 200_000}[r.IntN(3)]))
		for k := range p {
			p[k] = byte(r.Uint32())
		}
		return p
	}
	var all sync.WaitGroup
	for i, c := range ends {
		all.Go(func() {
			for k := range n {
				if err := c.SendImm(timeout(t), uint32(k), message(i, k)); err != nil {
					t.Error(err)
					return
				}
			}
			if err := c.CloseWrite(); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			for k := range n {
				m, err := c.Recv(timeout(t))
				if err != nil {
					t.Error(err)
					return
				}
				if imm, _ := m.Imm(); imm != uint32(k) || !bytes.Equal(m.Bytes(), message(1-i, k)) {
					t.Errorf("message %d of end %d is another", k, 1-i)
				}
				m.Release()
			}
			if _, err := c.Recv(timeout(t)); err != io.EOF {
				t.Errorf("after the last message: %v, want io.EOF", err)
			}
		})
	}
	all.Wait()
	ok(t, ends[0].Close())
	ok(t, ends[1].Close())
}

// TestPipe_Shared uses the engine that all pipes share.
func TestPipe_Shared(t *testing.T) {
	a, b, err := Pipe(nil)
	ok(t, err)
	if a.Engine() != b.Engine() || a.Engine().Device() != nil {
		t.Error("the ends have engines of their own, or one with a device")
	}
	ok(t, a.Send(timeout(t), []byte("hello")))
	m, err := b.Recv(timeout(t))
	ok(t, err)
	if string(m.Bytes()) != "hello" {
		t.Errorf("%q", m.Bytes())
	}
	m.Release()
	if got := fmt.Sprint(a.LocalAddr(), " ", b.RemoteAddr(), " ", b.LocalAddr(), " ", a.Transport()); got !=
		"127.0.0.1:1 127.0.0.1:1 127.0.0.1:2 a pipe in memory" {
		t.Error(got)
	}
	ok(t, a.Close())
	if _, err := b.Recv(timeout(t)); err != io.EOF {
		t.Errorf("%v, want io.EOF", err)
	}
	ok(t, b.Close())
	var arg *ibv.ArgError
	if _, _, err := Pipe(&Options{Engine: a.Engine()}); !errors.As(err, &arg) || arg.Arg != "Engine" {
		t.Errorf("with an engine: %v", err)
	}
	if _, _, err := Pipe(&Options{MaxMessage: -2}); !errors.As(err, &arg) || arg.Arg != "MaxMessage" {
		t.Errorf("with a bad option: %v", err)
	}
}

// TestPipe_Credit: a Send waits while the peer does not read, until its context ends.
func TestPipe_Credit(t *testing.T) {
	la, lb := inMemory(t, memoryEngines(t, both(nil)), wire.Messages, [2]*Options{{}, {}})
	a, b := &Conn{la}, &Conn{lb}
	ctx, cancel := context.WithCancel(context.Background())
	sent := 0
	done := make(chan error)
	go func() {
		for {
			if err := a.Send(ctx, make([]byte, 32<<10)); err != nil {
				done <- err
				return
			}
			if sent++; sent == 1 { // not earlier: on a busy machine none might be sent
				time.AfterFunc(20*time.Millisecond, cancel)
			}
		}
	}()
	if err := <-done; !errors.Is(err, context.Canceled) || sent == 0 {
		t.Errorf("%d messages, then %v", sent, err)
	}
	for range sent {
		m, err := b.Recv(timeout(t))
		ok(t, err)
		m.Release()
	}
	ok(t, a.Close())
	ok(t, b.Close())
}

// TestPipe_Lease lends memory in both directions, and takes it back.
func TestPipe_Lease(t *testing.T) {
	la, lb := inMemory(t, memoryEngines(t, both(nil)), wire.Messages,
		[2]*Options{{Leases: &LeaseOptions{}}, {Leases: &LeaseOptions{}}})
	for _, ends := range [][2]*Conn{{{la}, {lb}}, {{lb}, {la}}} {
		owner, user := ends[0], ends[1]
		mem := buffer(t, owner.Engine(), 4096)
		copy(mem.Bytes(), "before")
		s, err := owner.Lend(timeout(t), mem, MayRead|MayWrite|MayAtomic, time.Minute)
		ok(t, err)
		r, err := user.Borrow(timeout(t))
		ok(t, err)
		local := buffer(t, user.Engine(), 6)
		ok(t, r.Read(timeout(t), local, 0))
		if string(local.Bytes()) != "before" {
			t.Errorf("%q was read", local.Bytes())
		}
		copy(local.Bytes(), "after!")
		ok(t, r.Write(timeout(t), local, 100))
		was, err := r.FetchAdd(timeout(t), 8, 5)
		ok(t, err)
		if was != 0 {
			t.Errorf("FetchAdd found %d", was)
		}
		ok(t, r.Return(timeout(t)))
		got, err := s.Wait(timeout(t))
		ok(t, err)
		if string(got.Bytes()[100:106]) != "after!" || got.Bytes()[8] != 5 {
			t.Errorf("%q and %d are there", got.Bytes()[100:106], got.Bytes()[8])
		}
	}
	ok(t, (&Conn{la}).Close())
	ok(t, (&Conn{lb}).Close())
}

// TestPipe_Stream carries a stream over two engines without a device.
func TestPipe_Stream(t *testing.T) {
	for _, opt := range []*EngineOptions{{}, {Block: 4096}, {Spin: None}} {
		t.Run(fmt.Sprintf("block %d, spin %v", opt.Block, opt.Spin), func(t *testing.T) {
			la, lb := inMemory(t, memoryEngines(t, both(opt)), wire.Stream, [2]*Options{{}, {}})
			a, b := newStream(la), newStream(lb)
			carry(t, a, b, 3<<20, 7)
			carry(t, b, a, 1<<20, 8)
			ok(t, a.Close())
			ok(t, b.Close())
		})
	}
}

// TestUseShared uses a shared engine that CloseIdle closes at this moment: there is a new one.
func TestUseShared(t *testing.T) {
	create := func() (*Engine, error) { return newMemoryEngine(nil, inmem.New()) }
	tries := 0
	var ends [2]*link.Link
	e, err := useShared(t.Name(), create, func(e *link.Engine) (err error) {
		if tries++; tries == 1 {
			ok(t, e.Close())
		}
		own := e.Owner.(*Engine)
		ends, err = pipe(wire.Messages, [2]*Engine{own, own}, [2]*Options{{}, {}})
		return err
	})
	ok(t, err)
	if tries != 2 {
		t.Errorf("%d tries, want 2", tries)
	}
	for _, l := range ends {
		ok(t, (&Conn{l}).Close())
	}
	ok(t, e.Close())
	forgetEngine(e.Owner.(*Engine))
}

// TestPipe_OneFull: a pipe whose second engine has no place gives back the place in the first.
func TestPipe_OneFull(t *testing.T) {
	engines := memoryEngines(t, func(i int) *EngineOptions { return &EngineOptions{MaxConns: 2 - i} })
	a, b := inMemory(t, engines, wire.Messages, [2]*Options{{}, {}})
	var limit *ibv.LimitError
	for range 3 {
		if _, err := pipe(wire.Messages, engines, [2]*Options{{}, {}}); !errors.As(err, &limit) || limit.Limit != 1 {
			t.Errorf("%v, want the limit of 1", err)
		}
	}
	if n := engines[0].e.Shards[0].Places(); n != 1 {
		t.Errorf("%d places are taken, want 1", n)
	}
	ok(t, (&Conn{a}).Close())
	ok(t, (&Conn{b}).Close())
}
