package selftest

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
	"github.com/pureverbs/pureverbs/ibv"
)

// The soak: each goroutine posts on its QPs in turn, which share a doorbell register.
const (
	soakLanes  = 8  // goroutines
	soakQPs    = 8  // QPs of each
	soakDepth  = 64 // work requests in a queue
	soakFlight = 32 // messages of a QP between post and arrival
	soakSlot   = 256
	soakInline = 220 // bytes: WQEs of up to 4 blocks of 64 bytes
	soakSignal = 8   // one completion for so many sends
)

// blueflameStep is step 3.
func blueflameStep(s *stage) {
	few := max(s.opt.Posts/10, 1000)
	s.check("8 goroutines, 64 QPs, thread domains, direct", func(b *box) {
		soak(b, ibv.DataPathDirect, true, s.opt.Posts)
	})
	s.check("8 goroutines, 64 QPs, no thread domains, direct", func(b *box) {
		soak(b, ibv.DataPathDirect, false, few)
	})
	s.check("8 goroutines, 64 QPs, thread domains, ops", func(b *box) { soak(b, ibv.DataPathOps, true, few) })
}

// soak posts inline sends of all lengths, each alone so that the WQE travels with its doorbell, and checks that each
// arrives once, whole and in order.
func soak(b *box, path ibv.DataPath, domains bool, posts uint64) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	x, y := b.side(0, 4096, path, nil), b.side(1, soakLanes*soakQPs*soakDepth*soakSlot, path, nil)
	var lanes [soakLanes]*lane
	for i := range lanes {
		lanes[i] = newLane(x, y, i, path, domains)
	}
	b.engine(lanes[0].qps[0].send)
	var wg sync.WaitGroup
	var errs [soakLanes + 1]error // the last one: of all
	began := time.Now()
	for i, l := range lanes {
		wg.Go(func() {
			if errs[i] = l.run(ctx, posts/soakLanes); errs[i] != nil {
				cancel() // the others need not go on
			}
		})
	}
	arrived := func() (n uint64) {
		for _, l := range lanes {
			n += l.arrived.Load()
		}
		return n
	}
	watch(ctx, &wg, patience, arrived, func(n uint64) {
		errs[soakLanes] = fmt.Errorf("nothing arrived for %v, after %d messages", patience, n)
		cancel()
	})
	b.check.Count = arrived()
	b.figure("posts_per_second", float64(b.check.Count)/time.Since(began).Seconds())
	b.figure("inline_bytes_max", float64(lanes[0].most))
	if b.check.Count < posts/soakLanes*soakLanes {
		b.check.Wanted = posts
	}
	b.ok(cmp.Or(errs[:]...))
}

// watch waits for the goroutines, and calls still when nothing has happened for a while.
func watch(ctx context.Context, wg *sync.WaitGroup, while time.Duration, count func() uint64, still func(n uint64)) {
	last := count()
	stop := tick.Every(while, func() {
		now := count()
		if now == last && ctx.Err() == nil {
			still(now)
		}
		last = now
	})
	wg.Wait()
	stop()
}

// lane has the queues and the memory of one goroutine.
type lane struct {
	number  int
	qps     [soakQPs]link
	scq     *ibv.CQ
	rcq     *ibv.CQ
	mem     []byte // where messages arrive: soakDepth slots for each QP
	mr      *ibv.MR
	off     int // of mem in mr
	most    int // bytes of the longest message
	arrived atomic.Uint64
	payload [2][soakInline]byte
	wcs     [64]ibv.WC
	wrs     [2]ibv.SendWR
	recvs   [1]ibv.RecvWR
	sge     [1]ibv.SGE
}

// link is a connection. Sequence numbers count its messages.
type link struct {
	send, recv *ibv.QP
	posted     uint64
	done       uint64 // of posted, those whose places in the send queue are free again
	want       uint64 // the next to arrive
}

func newLane(x, y *side, number int, path ibv.DataPath, domains bool) *lane {
	b := x.box
	l := &lane{number: number, mr: y.mr, off: number * soakQPs * soakDepth * soakSlot}
	l.mem = y.mr.Bytes()[l.off:][:soakQPs*soakDepth*soakSlot]
	pd := x.pd
	if domains {
		td := own(x.dev.AllocThreadDomain())(b)
		pd = own(x.dev.AllocParentDomain(x.pd, td))(b)
	}
	l.scq, l.rcq = x.newCQ(soakQPs*soakDepth, path, nil), y.newCQ(soakQPs*soakDepth, path, nil)
	for i := range l.qps {
		k := &l.qps[i]
		k.send = own(pd.CreateQP(l.scq, l.scq, &ibv.QPOptions{MaxSendWR: soakDepth, MaxInline: soakInline,
			MaxRecvWR: 1}))(b)
		k.recv = own(y.pd.CreateQP(l.rcq, l.rcq, &ibv.QPOptions{MaxRecvWR: soakDepth}))(b)
		connect(x, y, k.send, k.recv, nil)
		l.most = min(k.send.Cap().MaxInline, soakInline)
		for slot := range soakDepth {
			b.recv(k.recv, l.id(i, slot), l.slot(i, slot))
		}
	}
	l.wrs = [2]ibv.SendWR{{Opcode: ibv.OpSend}, {Opcode: ibv.OpSend}}
	return l
}

// id names a slot of a QP.
func (l *lane) id(qp, slot int) uint64 { return uint64(qp)<<32 | uint64(slot) }

func (l *lane) slot(qp, slot int) ibv.SGE {
	return l.mr.SGE(l.off+(qp*soakDepth+slot)*soakSlot, soakSlot)
}

// length returns how long a message is: each length in turn.
func (l *lane) length(seq uint64) int { return 8 + int(seq%uint64(l.most-7)) }

// message writes a message: its number, and bytes that depend on it and on the QP.
func (l *lane) message(p []byte, qp int, seq uint64) []byte {
	p = p[:l.length(seq)]
	binary.LittleEndian.PutUint64(p, seq)
	for i := 8; i < len(p); i++ {
		p[i] = byte(seq) + byte(i)*3 + byte(qp+l.number*soakQPs)
	}
	return p
}

// run sends and receives until n messages have arrived, the time is over or something is wrong.
func (l *lane) run(ctx context.Context, n uint64) error {
	done := ctx.Done()
	for left := n; l.arrived.Load() < n; {
		select {
		case <-done:
			return nil
		default:
		}
		before, had := left, l.arrived.Load()
		for i := range l.qps {
			if left > 0 {
				count, err := l.post(i, min(left, 2))
				if err != nil {
					return fmt.Errorf("goroutine %d: %w", l.number, err)
				}
				left -= count
			}
		}
		if err := l.poll(); err != nil {
			return fmt.Errorf("goroutine %d: %w", l.number, err)
		}
		if left == before && l.arrived.Load() == had {
			runtime.Gosched() // there may be fewer processors than goroutines
		}
	}
	return nil
}

// post posts the next message of a QP, if there is room. One of sixteen times it posts two at once, whose doorbell is
// not BlueFlame's: both kinds follow each other on the register.
func (l *lane) post(i int, most uint64) (uint64, error) {
	k := &l.qps[i]
	n := uint64(1)
	if k.posted%16 == 7 && most > 1 {
		n = 2
	}
	if k.posted-k.want+n > soakFlight || k.posted-k.done+n > soakDepth-1 {
		return 0, nil
	}
	for j := range n {
		seq := k.posted + j
		wr := &l.wrs[j]
		wr.ID, wr.Flags, wr.Inline = uint64(i)<<56|seq, 0, l.message(l.payload[j][:], i, seq)
		if seq%soakSignal == soakSignal-1 {
			wr.Flags = ibv.Signaled
		}
	}
	if _, err := k.send.PostSend(l.wrs[:n]); err != nil {
		return 0, err
	}
	k.posted += n
	return n, nil
}

// poll takes completions of both ends.
func (l *lane) poll() error {
	n, err := l.scq.Poll(l.wcs[:])
	if err != nil {
		return err
	}
	for i := range l.wcs[:n] {
		wc := &l.wcs[i]
		if wc.Status != ibv.WCSuccess {
			return fmt.Errorf("send: %w", wc.Err())
		}
		k, seq := &l.qps[wc.ID>>56], wc.ID<<8>>8
		if seq < k.done || seq >= k.posted {
			return fmt.Errorf("QP %d: completion of message %d, but %d to %d are in its queue", wc.ID>>56, seq, k.done,
				k.posted)
		}
		k.done = seq + 1
	}
	if n, err = l.rcq.Poll(l.wcs[:]); err != nil {
		return err
	}
	for i := range l.wcs[:n] {
		if err := l.arrival(&l.wcs[i]); err != nil {
			return err
		}
	}
	return nil
}

// arrival checks a message and posts its slot again.
func (l *lane) arrival(wc *ibv.WC) error {
	if wc.Status != ibv.WCSuccess {
		return fmt.Errorf("receive: %w", wc.Err())
	}
	if err := l.compare(wc); err != nil {
		return err
	}
	i, slot := int(wc.ID>>32), int(uint32(wc.ID))
	k := &l.qps[i]
	k.want++
	l.arrived.Add(1)
	l.sge[0] = l.slot(i, slot)
	l.recvs[0] = ibv.RecvWR{ID: wc.ID, SGEs: l.sge[:]}
	_, err := k.recv.PostRecv(l.recvs[:])
	return err
}

// compare compares a message with the one that was sent.
func (l *lane) compare(wc *ibv.WC) error {
	i, slot := int(wc.ID>>32), int(uint32(wc.ID))
	k := &l.qps[i]
	want := l.message(l.payload[0][:], i, k.want)
	have := l.mem[(i*soakDepth+slot)*soakSlot:][:min(wc.ByteLen, soakSlot)]
	if string(have) == string(want) {
		return nil
	}
	seq := ^uint64(0)
	if len(have) >= 8 {
		seq = binary.LittleEndian.Uint64(have)
	}
	return fmt.Errorf("QP %d of %d: message %d of %d bytes arrived as message %#x of %d bytes, sent until then %d: "+
		"have % x, want % x", i, soakQPs, k.want, len(want), seq, wc.ByteLen, k.posted, have, want)
}
