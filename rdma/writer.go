package rdma

import (
	"context"

	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// writing is the state of the goroutine that writes to a link, one at a time: the one that has the turn.
type writing struct {
	l       *link
	turn    turn.Turn
	wake    progress.Signal
	sender  blocks.Sender // of blocks to send from
	ahead   int           // of the blocks of staged frames, these were taken ahead of credits; guarded by link.mu
	parched bool          // it waits for a credit; guarded by link.mu
	scratch scratchMem    // of link.q; guarded by link.mu
	oneSGE  bool          // a frame is in one piece: what is not behind its header is copied there
}

// writeBytes stages p. A frame that is not sent at once is filled up by later writes.
// Preconditions: the caller has wr.turn.
func (wr *writing) writeBytes(b bound, p []byte) (n int, err error) {
	n, starved, err := wr.stageBytes(b, p)
	if starved {
		wr.l.e.passOn(wr.l)
	}
	return n, err
}

// stageBytes is writeBytes, and reports whether there was no block at some time.
// Preconditions: the caller has wr.turn.
func (wr *writing) stageBytes(b bound, p []byte) (n int, starved bool, err error) {
	l := wr.l
	most := l.frameMost()
	for {
		l.mu.Lock()
		if err := l.writeError(); err != nil {
			l.mu.Unlock()
			return n, starved, err
		}
		n += l.q.Fill(p[n:], most)
		room, ahead := l.q.MayStage(), !wr.hasCredit()
		l.mu.Unlock()
		if n == len(p) {
			return n, starved, nil
		}
		if room {
			buf, err := wr.sendBlock(ahead, min(len(p)-n, most))
			if err != nil {
				return n, starved, err
			}
			if buf != nil {
				c := copy(buf.Payload(), p[n:min(n+most, len(p))])
				if err := wr.stage(inBlock(buf, c)); err != nil {
					return n, starved, err
				}
				if n += c; n == len(p) { // now the peer may read and close, which is no failure of this write
					return n, starved, nil
				}
				continue
			}
			starved = true
		}
		if err := wr.waitWrite(b); err != nil {
			return n, starved, err
		}
	}
}

// frameMost is the most payload of a frame to the peer.
func (l *link) frameMost() int { return min(l.e.opt.Block, int(l.peer.Block)) }

// stage sends a frame as soon as it may be sent. It takes the block over.
// Preconditions: the caller has wr.turn.
func (wr *writing) stage(f sendq.Frame[held]) error {
	l := wr.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writeError(); err != nil {
		l.giveUp(f.Held)
		return err
	}
	if f.Held.b != nil && f.Held.b.Staged() {
		wr.ahead++
	}
	if l.q.Stage(f) {
		l.pump()
	}
	return nil
}

// waitBlock waits until a frame may be staged, and returns a block for n bytes of it.
// Preconditions: the caller has wr.turn.
func (wr *writing) waitBlock(b bound, n int) (*block, error) {
	starved := false
	for {
		ahead, err := wr.waitRoom(b)
		if err == nil {
			buf, berr := wr.sendBlock(ahead, n)
			if buf != nil || berr != nil {
				return buf, berr
			}
			starved = true
			err = wr.waitWrite(b)
		}
		if err != nil {
			if starved {
				wr.l.e.passOn(wr.l)
			}
			return nil, err
		}
	}
}

// waitRoom waits until a frame may be staged, and reports whether that is ahead of a credit.
// Preconditions: the caller has wr.turn.
func (wr *writing) waitRoom(b bound) (ahead bool, err error) {
	l := wr.l
	for {
		l.mu.Lock()
		err, room, ahead := l.writeError(), l.q.MayStage(), !wr.hasCredit()
		l.mu.Unlock()
		if err != nil || room {
			return ahead, err
		}
		if err := wr.waitWrite(b); err != nil {
			return false, err
		}
	}
}

// waitWrite waits until there may be room, a block or a credit. Held data is posted before.
// Preconditions: the caller has wr.turn.
func (wr *writing) waitWrite(b bound) error {
	l := wr.l
	l.mu.Lock()
	if l.q.Held() {
		l.pump()
	}
	l.mu.Unlock()
	return l.e.waitData(b, &wr.wake, nil)
}

// mayWrite reports why a write would fail now, without waiting.
func (l *link) mayWrite(b bound) error {
	if err := b.Expired(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writeError()
}

// write is Stream.Write.
func (l *link) write(b bound, p []byte) (int, error) {
	if err := l.wr.turn.Enter(b); err != nil {
		return 0, err
	}
	defer l.wr.turn.Leave()
	return l.wr.writeBytes(b, p)
}

// hasCredit reports whether another frame has a credit.
// Preconditions: l.mu is held.
func (wr *writing) hasCredit() bool { return int(wr.l.send.Left()) > wr.l.q.Credits() }

// sendBlock returns a block to send n bytes from. Without one it returns nil, and l is woken when there may be one: if
// it has no credit, and so is ahead, when it has one.
// Preconditions: the caller has wr.turn.
func (wr *writing) sendBlock(ahead bool, n int) (*block, error) {
	l := wr.l
	if !ahead {
		return l.e.blocks.Take(&wr.sender, n)
	}
	b := l.e.blocks.TakeAhead(&wr.sender)
	if b == nil {
		l.mu.Lock()
		if wr.parched = !wr.hasCredit(); !wr.parched { // meanwhile
			l.wakeWriter()
		}
		l.mu.Unlock()
	}
	return b, nil
}

// caughtUp discounts the frames that no longer wait for credits, and wakes a writer that has one.
// Preconditions: l.mu is held.
func (wr *writing) caughtUp() {
	l := wr.l
	wait := max(l.q.Staged()-int(l.send.Left()), 0)
	if wr.ahead > wait {
		l.e.blocks.Caught(wr.ahead - wait)
		wr.ahead = wait
	}
	if wr.parched && wr.hasCredit() {
		wr.parched = false
		l.wakeWriter()
	}
}

// takeBack takes the staged frames of an unfinished message back. If some have been posted, the peer is asked to drop
// the message.
// Preconditions: the caller has wr.turn.
func (wr *writing) takeBack() {
	l := wr.l
	l.mu.Lock()
	defer l.mu.Unlock()
	for f, ok := l.q.TakeBack(); ok; f, ok = l.q.TakeBack() {
		l.giveUp(f.Held)
	}
	l.pump()
}

func (wr *writing) flush(ctx context.Context) error {
	l := wr.l
	b := bound{Ctx: ctx}
	if err := wr.turn.Enter(b); err != nil {
		return err
	}
	defer wr.turn.Leave()
	for {
		l.mu.Lock()
		if l.end.Ending() || l.end.Closed() {
			err := l.writeError()
			l.mu.Unlock()
			return err
		}
		if l.q.Staged() == 0 {
			break
		}
		l.mu.Unlock()
		if err := l.e.waitData(b, &wr.wake, nil); err != nil {
			return err
		}
	}
	w := l.q.Await()
	l.pump()
	l.mu.Unlock()
	if w == nil {
		return nil
	}
	err := l.e.wait(b, w.C)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.q.Forget(w)
		return err
	}
	if wire.Before(l.q.Acked(), w.UpTo) {
		return l.reason()
	}
	return nil
}

// hold lets frames be staged without being posted, until there are as many as one doorbell takes.
// Preconditions: the caller has wr.turn, and calls letGo.
func (wr *writing) hold() {
	l := wr.l
	l.mu.Lock()
	l.q.Hold()
	l.mu.Unlock()
}

// letGo posts what was held.
func (wr *writing) letGo() {
	l := wr.l
	l.mu.Lock()
	l.q.LetGo()
	l.pump()
	l.mu.Unlock()
}

// passOn is called when l no longer needs a block. If it was woken for one, another connection is.
func (e *shard) passOn(l *link) { e.blocks.Leave(&l.wr.sender) }

// needScratch gives the connection scratch memory, if it has none.
// Preconditions: l.mu is held, or the connection has not begun.
func (wr *writing) needScratch() error {
	l := wr.l
	if l.q.HasScratch() {
		return nil
	}
	s, err := l.e.eng.scratches.get(l.e.eng.nic)
	if err == nil {
		wr.scratch = s
		l.q.PutScratch(s.mem, s.at)
	}
	return err
}

// dropScratch gives it back, unless the device may still use it.
// Preconditions: l.mu is held, the QP is gone.
func (wr *writing) dropScratch() {
	if wr.scratch.mem != nil && wr.l.end.CloseErr() == nil {
		wr.l.e.eng.scratches.put(wr.scratch)
		wr.scratch = scratchMem{}
	}
}
