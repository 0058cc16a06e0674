package rdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
)

// leaseConns makes a pair of connections with leases.
func leaseConns(t testing.TB, server, client *Engine, so, co *LeaseOptions) (a, b *Conn) {
	t.Helper()
	return leaseConnsAlive(t, server, client, so, co, 0)
}

// buffer returns a buffer of an engine, which is released when the test ends.
func buffer(t testing.TB, e *Engine, n int) *Buffer {
	t.Helper()
	b, err := e.Pool().Get(n)
	ok(t, err)
	t.Cleanup(b.Release)
	return b
}

func scramble(b *Buffer, seed uint64) []byte {
	rnd := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = rnd.Read(b.Bytes())
	return bytes.Clone(b.Bytes())
}

// doorbells returns how often a connection has posted.
func doorbells(c *Conn) uint32 {
	c.l.Mu.Lock()
	defer c.l.Mu.Unlock()
	return uint32(c.l.Shard.Stat.Doorbells.Load())
}

// lend lends b from one side to the other.
func lend(t testing.TB, owner, holder *Conn, b *Buffer, a Access, d time.Duration) (*Lease, *Region) {
	t.Helper()
	s, err := owner.Lend(timeout(t), b, a, d)
	ok(t, err)
	r, err := holder.Borrow(timeout(t))
	ok(t, err)
	return s, r
}

// TestRXE_Lease does each operation in both directions, and compares the memory.
func TestRXE_Lease(t *testing.T) {
	server, client := keyEngines(t, EngineOptions{}, KeysMR, KeysWindow)
	a, b := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
	defer a.Close()
	defer b.Close()
	sizes := []int{1, 8, 4096, 100_001, 3<<20 + 17}
	if !testutil.NeedRXE(t).Emulated && !testutil.Full() {
		sizes = []int{1, 9000, sendq.PieceMost + 1}
	}
	for k, way := range [][2]*Conn{{a, b}, {b, a}} {
		owner, holder := way[0], way[1]
		for _, n := range sizes {
			mem, local := buffer(t, owner.Engine(), n), buffer(t, holder.Engine(), n)
			was, now := scramble(mem, uint64(n)), scramble(local, uint64(n+1))
			s, r := lend(t, owner, holder, mem, MayRead|MayWrite, time.Minute)
			if r.Len() != int64(n) || r.Access() != MayRead|MayWrite || time.Until(r.Ends()) > time.Minute {
				t.Errorf("a region of %d bytes, %v, until %v", r.Len(), r.Access(), r.Ends())
			}
			ok(t, r.Write(timeout(t), local, 0))
			if !bytes.Equal(mem.Bytes(), now) {
				t.Errorf("way %d: %d bytes were not written", k, n)
			}
			copy(mem.Bytes(), was)
			ok(t, r.Read(timeout(t), local, 0))
			if !bytes.Equal(local.Bytes(), was) {
				t.Errorf("way %d: %d bytes were not read", k, n)
			}
			ok(t, r.Return(timeout(t)))
			got, err := s.Wait(timeout(t))
			ok(t, err)
			if got != mem {
				t.Error("Wait returned another buffer")
			}
			if err := r.Write(timeout(t), local, 0); !errors.Is(err, ErrReturned) {
				t.Errorf("writing to a region that was returned: %v", err)
			}
			ok(t, s.Revoke(timeout(t)))
		}
		if hasAtomics(server) {
			leaseAtomics(t, owner, holder)
		}
		leaseTransfer(t, owner, holder)
	}
	echo(t, a, b)
}

func leaseAtomics(t *testing.T, owner, holder *Conn) {
	mem := buffer(t, owner.Engine(), 64)
	clear(mem.Bytes())
	s, r := lend(t, owner, holder, mem, MayAtomic, time.Minute)
	const each = 20
	errs := make(chan error)
	for range 4 {
		go func() {
			var err error
			for range each {
				if _, e := r.FetchAdd(timeout(t), 8, 3); e != nil {
					err = e
				}
			}
			errs <- err
		}()
	}
	for range 4 {
		ok(t, <-errs)
	}
	was, err := r.CompareSwap(timeout(t), 8, 4*each*3, 1<<60)
	ok(t, err)
	if was != 4*each*3 {
		t.Errorf("the sum is %d, want %d", was, 4*each*3)
	}
	if was, err = r.CompareSwap(timeout(t), 8, 7, 7); err != nil || was != 1<<60 {
		t.Errorf("a swap that does not match returned %#x, %v", was, err)
	}
	if got := binary.NativeEndian.Uint64(mem.Bytes()[8:]); got != 1<<60 {
		t.Errorf("the number is %#x", got)
	}
	ok(t, r.Return(timeout(t)))
	_, err = s.Wait(timeout(t))
	ok(t, err)
}

// leaseTransfer writes and reads many pieces at once, with messages behind the writes.
func leaseTransfer(t *testing.T, owner, holder *Conn) {
	const piece, pieces = 3000, 20
	mem, local := buffer(t, owner.Engine(), piece*pieces), buffer(t, holder.Engine(), piece*pieces)
	scramble(mem, 1)
	want := scramble(local, 2)
	s, r := lend(t, owner, holder, mem, MayRead|MayWrite, 0)
	tr := r.Transfer()
	for i := range pieces {
		tr.Write(local, i*piece, (i+1)*piece, int64(pieces-1-i)*piece)
	}
	tr.Notify([]byte("it is there"))
	before := doorbells(holder)
	ok(t, tr.Start(timeout(t)))
	if n := doorbells(holder) - before; n > 2 { // and the message
		t.Errorf("a transfer of %d pieces took %d doorbells", pieces, n)
	}
	m, err := owner.Recv(timeout(t))
	ok(t, err)
	if string(m.Bytes()) != "it is there" {
		t.Errorf("the message is %q", m.Bytes())
	}
	m.Release()
	for i := range pieces { // before Wait
		if !bytes.Equal(mem.Bytes()[(pieces-1-i)*piece:][:piece], want[i*piece:][:piece]) {
			t.Fatalf("piece %d differs when the message has come", i)
		}
	}
	ok(t, tr.Wait(timeout(t)))
	scramble(local, 3)
	for i := range pieces {
		tr.Read(local, i*piece, (i+1)*piece, int64(pieces-1-i)*piece)
	}
	ok(t, tr.Do(timeout(t)))
	if !bytes.Equal(local.Bytes(), want) {
		t.Error("what was read differs from what was written")
	}
	ok(t, r.WriteImm(timeout(t), local, 0, 77))
	m, err = owner.Recv(timeout(t))
	ok(t, err)
	if imm, has := m.Imm(); !has || imm != 77 || m.Len() != 0 || !bytes.Equal(mem.Bytes(), want) {
		t.Errorf("WriteImm: %d, %v, %d bytes", imm, has, m.Len())
	}
	m.Release()
	ok(t, r.Return(timeout(t)))
	_, err = s.Wait(timeout(t))
	ok(t, err)
}

// TestRXE_LeaseRefuses has bad input, and what rights, caps and ends of leases refuse.
func TestRXE_LeaseRefuses(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, nil)
	a, b := leaseConns(t, server, client, &LeaseOptions{},
		&LeaseOptions{MaxBytes: 10_000, MaxLeases: 2, MaxDuration: time.Minute})
	defer a.Close()
	defer b.Close()
	mem, local, other := buffer(t, client, 4096), buffer(t, server, 4096), buffer(t, server, 8)
	s, r := lend(t, a, b, mem, MayRead, 0)
	_, w := lend(t, a, b, mem, everything(client)&^MayRead, 0)
	ctx := timeout(t)
	over, cancel := context.WithCancel(ctx)
	cancel()
	var arg *ibv.ArgError
	var limit *ibv.LimitError
	var right *RightError
	swapped := any(&arg)
	if !hasAtomics(client) {
		swapped = &right
	}
	tr := func(add func(*Transfer)) error {
		x := r.Transfer()
		add(x)
		return x.Do(ctx)
	}
	swap := func(r *Region, off int64) error { _, err := r.CompareSwap(ctx, off, 0, 0); return err }
	lent := func(b *Buffer, a2 Access, d time.Duration) error { _, err := a.Lend(ctx, b, a2, d); return err }
	asked := func(n int64, a Access, d time.Duration) error { _, err := b.Request(ctx, n, a, d); return err }
	for _, c := range []struct {
		name   string
		err    error
		target any
		is     error
	}{
		{"a write to what may be read", r.Write(ctx, local, 0), &right, nil},
		{"an atomic on what may be read", swap(r, 0), &right, nil},
		{"a read of what may be written", w.Read(ctx, local, 0), &right, nil},
		{"a byte beyond the end", r.Read(ctx, local, 1), &arg, nil},
		{"an offset below 0", r.Read(ctx, other, -1), &arg, nil},
		{"an offset near 2^63", r.Read(ctx, other, 1<<63-4), &arg, nil},
		{"no buffer", r.Read(ctx, nil, 0), &arg, nil},
		{"a buffer of another engine", r.Read(ctx, mem, 0), &arg, nil},
		{"an atomic that is not aligned", swap(w, 4), swapped, nil},
		{"an atomic beyond the end", swap(w, 4096), swapped, nil},
		{"a context that has ended", r.Read(over, local, 0), nil, context.Canceled},
		{"an empty transfer", tr(func(*Transfer) {}), &arg, nil},
		{"a piece beyond the buffer", tr(func(x *Transfer) { x.Read(local, 0, 4097, 0) }), &arg, nil},
		{"an empty piece", tr(func(x *Transfer) { x.Read(local, 5, 5, 0) }), &arg, nil},
		{"a piece that goes back", tr(func(x *Transfer) { x.Read(local, 5, -1, 0) }), &arg, nil},
		{"a long notification", tr(func(x *Transfer) {
			x.Read(local, 0, 8, 0)
			x.Notify(make([]byte, 1<<20))
		}), &limit, nil},
		{"no rights", lent(mem, 0, 0), &arg, nil},
		{"unknown rights", lent(mem, 0x80, 0), &arg, nil},
		{"a duration below 0", lent(mem, MayRead, -1), &arg, nil},
		{"too long a duration", lent(mem, MayRead, time.Hour), &limit, nil},
		{"a third lease", lent(mem, MayRead, 0), &limit, nil},
		{"no buffer to lend", lent(nil, MayRead, 0), &arg, nil},
		{"another engine's buffer to lend", lent(local, MayRead, 0), &arg, nil},
		{"a request for 0 bytes", asked(0, MayRead, 0), &arg, nil},
		{"a request without rights", asked(8, 0, 0), &arg, nil},
		{"a request for -1 ns", asked(8, MayRead, -1), &arg, nil},
		{"a request without a handler", asked(8, MayRead, 0), nil, ErrRefused},
		{"a shorter duration", s.Extend(ctx, time.Millisecond), &arg, nil},
	} {
		switch {
		case c.target != nil && (c.err == nil || !errors.As(c.err, c.target)):
			t.Errorf("%s: %v, want a %T", c.name, c.err, c.target)
		case c.is != nil && !errors.Is(c.err, c.is):
			t.Errorf("%s: %v, want %v", c.name, c.err, c.is)
		}
	}
	ok(t, s.Revoke(ctx))
	if err := r.Read(ctx, local, 0); !errors.Is(err, ErrRevoked) {
		t.Errorf("reading after Revoke: %v", err)
	}
	if err := s.Extend(ctx, 0); !errors.Is(err, ErrRevoked) {
		t.Errorf("extending after Revoke: %v", err)
	}
	big := buffer(t, client, 10_000)
	if err := lent(big, MayRead, 0); !errors.As(err, &limit) {
		t.Errorf("lending more than Most: %v", err)
	}

	none, plain := conns(t, server, client)
	defer none.Close()
	defer plain.Close()
	var unsupported *ibv.UnsupportedError
	if _, err := plain.Lend(ctx, local, MayRead, 0); !errors.As(err, &unsupported) {
		t.Errorf("lending on a connection without leases: %v", err)
	}
	if _, err := none.Borrow(ctx); !errors.As(err, &unsupported) {
		t.Errorf("borrowing on a connection without leases: %v", err)
	}
	half, whole := leaseConns(t, server, client, nil, &LeaseOptions{})
	defer half.Close()
	defer whole.Close()
	if _, err := half.Borrow(ctx); !errors.As(err, &unsupported) {
		t.Errorf("borrowing from a peer without leases: %v", err)
	}
	echo(t, half, whole)
}

// TestRXE_LeaseRequest asks the peer for memory, which its handler grants or refuses.
func TestRXE_LeaseRequest(t *testing.T) {
	server, client := newEngines(t, nil)
	mem := buffer(t, server, 5000)
	leases := make(chan *Lease, 100)
	onRequest := func(ctx context.Context, r *LeaseRequest) (*Lease, error) {
		if r.Bytes > 5000 {
			return nil, errors.New("too much")
		}
		s, err := r.Lend(ctx, mem, r.Access, 0)
		if err == nil {
			leases <- s
		}
		return s, err
	}
	a, b := leaseConns(t, server, client, &LeaseOptions{MaxLeases: 3, OnRequest: onRequest},
		&LeaseOptions{MaxBytes: None})
	defer a.Close()
	defer b.Close()
	ctx := timeout(t)
	var held []*Region
	for range 3 {
		r, err := a.Request(ctx, 4000, MayWrite, time.Minute)
		ok(t, err)
		held = append(held, r)
	}
	var refused *RefusedError
	if _, err := a.Request(ctx, 5001, MayRead, 0); !errors.As(err, &refused) || refused.Reason != RefusedByHandler {
		t.Errorf("a request for too much: %v", err)
	}
	if _, err := a.Request(ctx, 10, MayRead, 0); !errors.As(err, &refused) || refused.Reason != RefusedLimit {
		t.Errorf("a fourth lease: %v", err)
	}
	if _, err := b.Request(ctx, 10, MayRead, 0); !errors.As(err, &refused) || refused.Reason != RefusedNoHandler {
		t.Errorf("a request to a side without handler: %v", err)
	}
	if _, err := a.Lend(ctx, buffer(t, client, 1), MayRead, 0); err == nil {
		t.Error("a side that only borrows has lent")
	}
	local := buffer(t, client, 5000)
	want := scramble(local, 5)
	ok(t, held[1].Write(ctx, local, 0))
	if !bytes.Equal(mem.Bytes(), want) {
		t.Error("the memory differs")
	}
	for _, r := range held {
		ok(t, r.Return(ctx))
		_, err := (<-leases).Wait(ctx)
		ok(t, err)
	}
	// What waits when the connection is closed.
	onRequest = func(_ context.Context, r *LeaseRequest) (*Lease, error) {
		<-r.Conn.Done()
		return nil, errors.New("too late")
	}
	x, y := leaseConns(t, server, client, &LeaseOptions{OnRequest: onRequest}, &LeaseOptions{})
	waits := make(chan error)
	go func() { _, err := x.Borrow(ctx); waits <- err }()
	go func() { _, err := x.Borrow(ctx); waits <- err }()
	go func() { _, err := x.Request(ctx, 1, MayRead, 0); waits <- err }()
	testutil.Eventually(t, "a request", func() bool {
		y.l.Mu.Lock()
		defer y.l.Mu.Unlock()
		return leasingOf(y.l).lends.desk.Open == 1
	})
	ok(t, x.Close())
	for range 3 {
		if err := <-waits; !errors.Is(err, net.ErrClosed) {
			t.Errorf("waiting when the connection is closed: %v", err)
		}
	}
	ok(t, y.Close())

	// Requests whose context ends: what is lent comes back.
	for i := range 40 {
		short, cancel := context.WithTimeout(ctx, time.Duration(i)*100*time.Microsecond)
		r, err := a.Request(short, 100, MayRead, 0)
		if err == nil {
			ok(t, r.Return(ctx))
		}
		cancel()
	}
	testutil.Eventually(t, "all leases returned", func() bool {
		b.l.Mu.Lock()
		defer b.l.Mu.Unlock()
		return len(leasingOf(b.l).lends.open) == 0 && leasingOf(b.l).lends.desk.Open == 0
	})
	attr, err := b.l.Port.Conn.(interface{ QP() *ibv.QP }).QP().Query(ibv.MaskAccessFlags)
	ok(t, err)
	if attr.Access&(ibv.RemoteRead|ibv.RemoteWrite|ibv.RemoteAtomic) != 0 {
		t.Errorf("the QP permits %v without a lease", attr.Access)
	}
}

// TestRXE_LeaseExpires lets leases end by time, extends one, and revokes them while operations wait.
func TestRXE_LeaseExpires(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
	defer a.Close()
	defer b.Close()
	ctx := timeout(t)
	mem, local := buffer(t, client, 1<<20), buffer(t, server, 1<<20)
	s, r := lend(t, a, b, mem, MayWrite, 60*time.Millisecond)
	ok(t, s.Extend(ctx, 200*time.Millisecond))
	var err error
	for err == nil {
		err = r.Write(ctx, local, 0)
	}
	if !errors.Is(err, ErrExpired) {
		t.Errorf("writing until the end: %v", err)
	}
	if got, err := s.Wait(ctx); got != mem || !errors.Is(err, ErrExpired) {
		t.Errorf("Wait after the end: %v", err)
	}
	if err := a.Err(); err != nil {
		t.Errorf("the connection has ended: %v", err)
	}
	// One that nobody borrows.
	s, err = a.Lend(ctx, mem, MayWrite, 5*time.Millisecond)
	ok(t, err)
	if _, err := s.Wait(ctx); !errors.Is(err, ErrExpired) {
		t.Errorf("a lease that nobody borrowed: %v", err)
	}
	echo(t, a, b)
}

// TestRXE_LeaseRevoked revokes leases while the peer writes, and compares the memory afterwards. The connection goes
// on, as the peer is honest.
func TestRXE_LeaseRevoked(t *testing.T) {
	server, client := keyEngines(t, EngineOptions{}, KeysWindow, KeysMR)
	rounds := 100
	switch {
	case testutil.Full():
		rounds = 10_000
	case !testutil.NeedRXE(t).Emulated:
		rounds = 5
	}
	for _, how := range []string{"Revoke", "expiry"} {
		if how == "expiry" && rounds >= 100 {
			rounds /= 10
		}
		eachKeys(t, func(t *testing.T, keys LeaseKeys) {
			t.Run(how, func(t *testing.T) {
				grace := &LeaseOptions{Grace: testutil.Patience} // nothing is taken away from a peer that is slow
				a, b := leaseConns(t, server, client, grace, grace)
				defer a.Close()
				defer b.Close()
				if keys == KeysWindow {
					a, b = b, a
				}
				writer(t, a, b, rounds, how)
				echo(t, a, b)
			})
		})
	}
}

func writer(t *testing.T, owner, holder *Conn, rounds int, how string) {
	ctx := timeout(t)
	const n = 256 << 10
	mem := buffer(t, owner.Engine(), n)
	var local [3]*Buffer
	for i := range local {
		local[i] = buffer(t, holder.Engine(), n)
	}
	for round := range rounds {
		d := time.Minute
		if how == "expiry" {
			d = time.Duration(2+round%30) * time.Millisecond
		}
		s, err := owner.Lend(ctx, mem, MayWrite, d)
		ok(t, err)
		live, cancel := context.WithCancel(ctx)
		go func() { // a short one may end before somebody borrows it
			<-s.Done()
			cancel()
		}()
		r, err := holder.Borrow(live)
		if how == "expiry" && err != nil {
			continue
		}
		ok(t, err)
		began := make(chan struct{}, 2*len(local))
		ended := make(chan error, len(local))
		for i := range local {
			go func() {
				for k := uint64(0); ; k++ {
					binary.NativeEndian.PutUint64(local[i].Bytes(), k)
					binary.NativeEndian.PutUint64(local[i].Bytes()[n-8:], k)
					if err := r.Write(ctx, local[i], 0); err != nil {
						began <- struct{}{}
						ended <- err
						return
					}
					if k == 0 {
						began <- struct{}{}
					}
				}
			}()
		}
		want := ErrExpired
		if how == "Revoke" {
			want = ErrRevoked
			<-began
			ok(t, s.Revoke(ctx))
		} else if _, err := s.Wait(ctx); !errors.Is(err, want) {
			t.Fatalf("round %d: Wait: %v", round, err)
		}
		was := bytes.Clone(mem.Bytes())
		for range local {
			if err := <-ended; !errors.Is(err, want) {
				t.Fatalf("round %d: the writer: %v, want %v", round, err, want)
			}
		}
		if !bytes.Equal(was, mem.Bytes()) {
			t.Fatalf("round %d: the memory has changed after %s", round, how)
		}
	}
}

// TestRXE_LeaseCancel ends the contexts of operations: the buffers stay registered until the device has let go.
func TestRXE_LeaseCancel(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
	defer a.Close()
	defer b.Close()
	ctx := timeout(t)
	const n = 1 << 20
	mem := buffer(t, client, n)
	s, r := lend(t, a, b, mem, MayRead|MayWrite, 0)
	rnd := rand.New(rand.NewPCG(1, 2))
	done := 0
	const rounds = 60
	for range rounds {
		local, err := b.Engine().Pool().Get(n)
		ok(t, err)
		short, cancel := context.WithCancel(ctx)
		go func() {
			time.Sleep(time.Duration(rnd.IntN(1000)) * time.Microsecond)
			cancel()
		}()
		err = r.Read(short, local, 0)
		local.Release() // under way or not
		<-short.Done()
		switch {
		case err == nil:
			done++
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d had completed", done, rounds)
	ok(t, r.Return(ctx))
	_, err := s.Wait(ctx)
	ok(t, err)
	echo(t, a, b)
}

// TestRXE_LeaseEnds ends connections while leases are in use: the operations and the leases end, and then the memory
// does not change.
func TestRXE_LeaseEnds(t *testing.T) {
	server, client := keyEngines(t, EngineOptions{}, KeysWindow, KeysMR)
	rounds := 8
	switch {
	case testutil.Full():
		rounds = 1000
	case !testutil.NeedRXE(t).Emulated:
		rounds = 4
	}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			ctx := timeout(t)
			a, b := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
			if round/4%2 == 1 {
				a, b = b, a
			}
			mem, local := buffer(t, a.Engine(), 1<<20), buffer(t, b.Engine(), 1<<20)
			s, r := lend(t, a, b, mem, MayWrite, 0)
			began, ended := make(chan struct{}), make(chan error)
			go func() {
				var err error
				for k := 0; err == nil; k++ {
					if k == 1 {
						close(began)
					}
					local.Bytes()[k]++
					err = r.Write(ctx, local, 0)
				}
				ended <- err
			}()
			<-began
			switch round % 4 {
			case 0:
				ok(t, a.Close())
			case 1:
				ok(t, b.Close())
			case 2:
				a.l.Fail(errors.New("test"))
			case 3:
				b.l.Fail(errors.New("test"))
			}
			if got, err := s.Wait(ctx); got != mem || err == nil {
				t.Errorf("Wait: %v", err)
			}
			was := bytes.Clone(mem.Bytes())
			if err := <-ended; err == nil {
				t.Error("the writer has no error")
			}
			ok(t, a.Close())
			ok(t, b.Close())
			<-a.Done()
			<-b.Done()
			if !bytes.Equal(was, mem.Bytes()) {
				t.Error("the memory has changed")
			}
			ok(t, s.Revoke(ctx))
		})
	}
}
