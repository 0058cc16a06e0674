package rdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/lease"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Region is memory of the peer that this side may access, until Return, or until the lease ends.
//
// Its methods are safe for concurrent use. Operations on it run in the order in which they are
// started, but those that wait at the same time may complete together; they are not ordered with
// messages, unless they have completed or the message is a Transfer's Notify. If ctx ends, an
// operation that has begun may still read or write: the buffer is kept until it has ended, whatever
// is released.
type Region struct {
	l      *link.Link
	number uint32
	addr   uint64
	rkey   uint32
	n      int64
	access Access

	// Under link.Mu.
	ends   time.Time
	timer  *time.Timer
	use    lease.Use
	opened *leak.Record  // of a region that the program has
	done   chan struct{} // closed when the peer is informed that there are none any more
}

// margin is how long before the end of a lease its holder stops: for what is under way then.
func margin(d time.Duration) time.Duration { return min(20*time.Millisecond, d/4) }

// borrowed makes a region of what the peer lends.
// Preconditions: l.Mu is held.
func (m *leasing) borrowed(number uint32, f *wire.LendFrame) {
	r := &Region{l: m.l, number: number, addr: f.Addr, rkey: f.RKey, n: int64(f.Length), access: Access(f.Access),
		done: make(chan struct{})}
	m.borrows.regions[number] = r
	m.borrows.next++
	r.extend(time.Duration(f.Milliseconds) * time.Millisecond)
	if f.Request == 0 {
		m.borrows.offered = append(m.borrows.offered, r)
		progress.Token(m.borrows.wake)
		return
	}
	if !m.borrows.asks.Take(f.Request).answer(r, nil) {
		r.end(ErrReturned)
	}
}

// extend makes the region end after d.
// Preconditions: link.Mu is held.
func (r *Region) extend(d time.Duration) {
	if r.use.Cause != nil {
		return
	}
	d -= margin(d)
	r.ends = time.Now().Add(d)
	if r.timer == nil {
		r.timer = time.AfterFunc(d, r.expire)
	} else {
		r.timer.Reset(d)
	}
}

func (r *Region) expire() {
	r.l.Mu.Lock()
	defer r.l.Mu.Unlock()
	if time.Until(r.ends) <= 0 { // else it was extended
		r.end(ErrExpired)
	}
}

// end begins no operation any more, and gives the region back when none is under way.
// Preconditions: link.Mu is held.
func (r *Region) end(cause error) {
	if !r.use.End(cause) {
		return
	}
	r.timer.Stop()
	r.opened.Done()
	m := &leasingOf(r.l).borrows
	m.offered = slices.DeleteFunc(m.offered, func(o *Region) bool { return o == r })
	leasingOf(r.l).dropOps(r, cause)
	r.left()
}

// left counts an operation as ended.
// Preconditions: link.Mu is held.
func (r *Region) left() {
	if !r.use.Done() {
		return
	}
	delete(leasingOf(r.l).borrows.regions, r.number)
	leasingOf(r.l).tell(wire.NumberFrame(wire.Return, r.number, reasonOf(r.use.Cause)))
	close(r.done)
}

// track records that the program has the region, unless it has ended.
// Preconditions: link.Mu is held.
func (r *Region) track() {
	if r.use.Cause == nil {
		r.opened = leak.Track("region of " + r.l.Remote.String())
	}
}

// Borrow waits for memory that the peer lends. Each lease is delivered to one goroutine.
func (c *Conn) Borrow(ctx context.Context) (*Region, error) {
	r, err := borrow(ctx, c.l)
	return r, c.fail("borrow", err)
}

func borrow(ctx context.Context, l *link.Link) (*Region, error) {
	m, err := leasesOf(l)
	if err != nil {
		return nil, err
	}
	for {
		l.Mu.Lock()
		var r *Region
		if err = l.LeaseError(); err == nil && len(m.borrows.offered) > 0 {
			r = m.borrows.offered[0]
			m.borrows.offered = slices.Delete(m.borrows.offered, 0, 1)
			r.track()
		}
		if err != nil || len(m.borrows.offered) > 0 {
			progress.Token(m.borrows.wake) // others also wait
		}
		l.Mu.Unlock()
		if r != nil || err != nil {
			return r, err
		}
		if err := l.Shard.Progress.Wait(turn.Bound{Ctx: ctx}, m.borrows.wake); err != nil {
			return nil, err
		}
	}
}

// asking is a Request that waits for its reply.
type asking struct {
	ch   chan asked // with room for the reply
	slot *turn.Turn
	gone bool // no goroutine waits any more
}

type asked struct {
	r   *Region
	err error
}

// answer passes the reply on, and reports whether it is taken.
// Preconditions: link.Mu is held.
func (a *asking) answer(r *Region, err error) bool {
	a.slot.Leave()
	a.ch <- asked{r, err}
	return !a.gone
}

// Request asks the peer for n bytes of its memory, with the rights a, for the duration d; a d of 0
// leaves that to the peer. The peer may grant less: see Region.Len and Access. If it refuses, the error is a
// *RefusedError. If ctx ends, memory that the peer lends is returned.
func (c *Conn) Request(ctx context.Context, n int64, a Access, d time.Duration) (*Region, error) {
	r, err := request(ctx, c.l, n, a, d)
	return r, c.fail("request", err)
}

func request(ctx context.Context, l *link.Link, n int64, a Access, d time.Duration) (*Region, error) {
	m, err := leasesOf(l)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(a.check(), refuse(n < 1, "n", n, "1 or more"),
		refuse(d < 0 || d > 0 && d < time.Millisecond || d > durationMost, "duration", d,
			fmt.Sprintf("1ms to %v, or 0", durationMost))); err != nil {
		return nil, err
	}
	b := turn.Bound{Ctx: ctx}
	if err := m.borrows.places.Enter(b); err != nil {
		return nil, err
	}
	w := &asking{ch: make(chan asked, 1), slot: &m.borrows.places}
	l.Mu.Lock()
	if err := l.LeaseError(); err != nil {
		l.Mu.Unlock()
		m.borrows.places.Leave()
		return nil, err
	}
	number := m.borrows.asks.Add(w)
	f := wire.RequestFrame{Bytes: uint64(n), Milliseconds: milliseconds(d), Access: uint8(a)}
	leasingOf(l).tell(f.Encode(number))
	l.Mu.Unlock()
	defer l.Shard.Progress.Meanwhile()()
	select {
	case got := <-w.ch:
		if got.r != nil {
			l.Mu.Lock()
			got.r.track()
			l.Mu.Unlock()
		}
		return got.r, got.err
	case <-l.Stopped.Done():
	case <-ctx.Done():
	}
	ended := ctx.Err() // which may be the program's function
	l.Mu.Lock()
	defer l.Mu.Unlock()
	w.gone = true
	select {
	case got := <-w.ch: // it came meanwhile
		if got.r != nil {
			got.r.end(ErrReturned)
		}
	default:
	}
	if err := l.LeaseError(); err != nil {
		return nil, err
	}
	return nil, ended
}

// Len returns how many bytes the region has.
func (r *Region) Len() int64 { return r.n }

// Access returns what may be done with the region.
func (r *Region) Access() Access { return r.access }

// Ends returns when operations are not begun any more, unless the peer revokes or extends the lease. That is 20 ms
// before its end, or a quarter of the duration if that is less. Each side measures the duration by its own clock.
func (r *Region) Ends() time.Time {
	r.l.Mu.Lock()
	defer r.l.Mu.Unlock()
	return r.ends
}

// Done returns a channel that is closed when the region was returned, by Return, or because the lease
// has ended and no operation is under way any more.
func (r *Region) Done() <-chan struct{} { return r.done }

// Return gives the memory back to the peer, once the operations that are under way have completed;
// others fail with ErrReturned. If ctx ends first, it is still given back.
func (r *Region) Return(ctx context.Context) error {
	r.l.Mu.Lock()
	err := r.l.LeaseError()
	if err == nil {
		r.end(ErrReturned)
	}
	r.l.Mu.Unlock()
	if err != nil {
		return r.fail("return", err)
	}
	defer r.l.Shard.Progress.Meanwhile()()
	select {
	case <-r.done:
		return nil
	case <-r.l.End.Done():
		r.l.Mu.Lock()
		defer r.l.Mu.Unlock()
		return r.fail("return", r.l.Reason())
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Region) fail(op string, err error) error {
	err = public(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &ibv.OpError{Op: op + " region", Object: "of " + r.l.Remote.String(), Err: err}
}

// Read reads the region from byte off on into b, all of its length.
func (r *Region) Read(ctx context.Context, b *Buffer, off int64) error {
	_, err := r.single(ctx, stepOf(ibv.OpRead, b, 0, -1, off))
	return r.fail("read", err)
}

// Write writes the bytes of b to the region, from byte off on. When it returns nil, they are there.
func (r *Region) Write(ctx context.Context, b *Buffer, off int64) error {
	_, err := r.single(ctx, stepOf(ibv.OpWrite, b, 0, -1, off))
	return r.fail("write", err)
}

// WriteImm is Write; afterwards the peer receives a message of no bytes with the number imm, which is
// sent behind the bytes.
func (r *Region) WriteImm(ctx context.Context, b *Buffer, off int64, imm uint32) error {
	t := r.Transfer()
	t.Write(b, 0, len(b.Bytes()), off)
	t.NotifyImm(imm, nil)
	return t.Do(ctx)
}

// CompareSwap replaces the 8 bytes at off by swap if they are old, as one step, and returns what they
// were: numbers in the peer's byte order. off leads to an address that is a multiple of 8.
func (r *Region) CompareSwap(ctx context.Context, off int64, old, swap uint64) (was uint64, err error) {
	was, err = r.single(ctx, step{op: ibv.OpCompareSwap, off: off, to: 8, add: old, swap: swap})
	return was, r.fail("compare and swap", err)
}

// FetchAdd adds to the 8 bytes at off, as one step, and returns what they were.
func (r *Region) FetchAdd(ctx context.Context, off int64, add uint64) (was uint64, err error) {
	was, err = r.single(ctx, step{op: ibv.OpFetchAdd, off: off, to: 8, add: add})
	return was, r.fail("fetch and add", err)
}

// single runs one operation.
func (r *Region) single(ctx context.Context, st step) (uint64, error) {
	if err := r.check(&st); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	o := ops.Get().(*op)
	o.r, o.steps = r, append(o.steps, st)
	if err := leasingOf(r.l).submit(o); err != nil {
		o.recycle()
		return 0, err
	}
	finished, err := leasingOf(r.l).await1(ctx, o)
	if !finished {
		return 0, err // the goroutine that finishes it recycles it
	}
	was := o.Result
	o.recycle()
	return was, err
}

// check checks an operation, and fills in its length.
func (r *Region) check(st *step) error {
	need := MayAtomic
	switch st.op {
	case ibv.OpRead:
		need = MayRead
	case ibv.OpWrite:
		need = MayWrite
	}
	if r.access&need == 0 {
		return &RightError{need, r.access}
	}
	if need == MayAtomic {
		if (r.addr+uint64(st.off))%8 != 0 {
			return &ibv.ArgError{Arg: "off", Got: fmt.Sprintf("%d, address %#x", st.off, r.addr+uint64(st.off)),
				Want: "an address that is a multiple of 8"}
		}
	} else {
		if err := checkLocal(r.l, st.buf, st.from, st.to); err != nil {
			return err
		}
		if st.to < 0 {
			st.to = st.buf.Len()
		}
	}
	if n := int64(st.to - st.from); st.off < 0 || st.off > r.n || n > r.n-st.off {
		return &ibv.ArgError{Arg: "off", Got: fmt.Sprintf("%d bytes at %d", n, st.off),
			Want: fmt.Sprintf("a range of the region, which has %d bytes", r.n)}
	}
	return nil
}

// checkLocal checks a range of a buffer of this side. A to below 0 means its end.
func checkLocal(l *link.Link, b *pool.Buf, from, to int) error {
	if b == nil {
		return &ibv.ArgError{Arg: "buffer", Got: "nil", Want: "one of Pool"}
	}
	n := b.Len()
	if to < 0 {
		to = n
	}
	if b.Pool != l.Shard.Engine.Pool {
		return &ibv.ArgError{Arg: "buffer", Got: "one of the engine of " + b.Pool.Name(),
			Want: "one of the connection's engine, of " + l.Shard.Engine.Name()}
	}
	if from < 0 || from >= to || to > n {
		return &ibv.ArgError{Arg: "buffer", Got: fmt.Sprintf("bytes %d to %d", from, to),
			Want: fmt.Sprintf("1 byte or more of its %d", n)}
	}
	return nil
}
