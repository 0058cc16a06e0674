package link

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
	l       *Link
	Turn    turn.Turn
	Wake    progress.Signal
	sender  blocks.Sender // of blocks to send from
	ahead   int           // of the blocks of staged frames, these were taken ahead of credits; guarded by link.Mu
	Parched bool          // it waits for a credit; guarded by link.Mu
	scratch scratchMem    // of link.Queue; guarded by link.Mu
	OneSGE  bool          // a frame is in one piece: what is not behind its header is copied there
}

// writeBytes stages p. A frame that is not sent at once is filled up by later writes.
// Preconditions: the caller has wr.Turn.
func (wr *writing) writeBytes(b turn.Bound, p []byte) (n int, err error) {
	n, starved, err := wr.stageBytes(b, p)
	if starved {
		wr.l.Shard.Blocks.Leave(&wr.sender)
	}
	return n, err
}

// stageBytes is writeBytes, and reports whether there was no block at some time.
// Preconditions: the caller has wr.Turn.
func (wr *writing) stageBytes(b turn.Bound, p []byte) (n int, starved bool, err error) {
	l := wr.l
	most := l.FrameMost()
	for {
		l.Mu.Lock()
		if err := l.writeError(); err != nil {
			l.Mu.Unlock()
			return n, starved, err
		}
		n += l.Queue.Fill(p[n:], most)
		room, ahead := l.Queue.MayStage(), !wr.hasCredit()
		l.Mu.Unlock()
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

// FrameMost is the most payload of a frame to the peer.
func (l *Link) FrameMost() int { return min(l.Shard.Options.Block, int(l.Peer.Block)) }

// stage sends a frame as soon as it may be sent. It takes the block over.
// Preconditions: the caller has wr.Turn.
func (wr *writing) stage(f sendq.Frame[Held]) error {
	l := wr.l
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err := l.writeError(); err != nil {
		l.GiveUp(f.Held)
		return err
	}
	if f.Held.b != nil && f.Held.b.Staged() {
		wr.ahead++
	}
	if l.Queue.Stage(f) {
		l.Pump()
	}
	return nil
}

// waitBlock waits until a frame may be staged, and returns a block for n bytes of it.
// Preconditions: the caller has wr.Turn.
func (wr *writing) waitBlock(b turn.Bound, n int) (*Block, error) {
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
				wr.l.Shard.Blocks.Leave(&wr.sender)
			}
			return nil, err
		}
	}
}

// waitRoom waits until a frame may be staged, and reports whether that is ahead of a credit.
// Preconditions: the caller has wr.Turn.
func (wr *writing) waitRoom(b turn.Bound) (ahead bool, err error) {
	l := wr.l
	for {
		l.Mu.Lock()
		err, room, ahead := l.writeError(), l.Queue.MayStage(), !wr.hasCredit()
		l.Mu.Unlock()
		if err != nil || room {
			return ahead, err
		}
		if err := wr.waitWrite(b); err != nil {
			return false, err
		}
	}
}

// waitWrite waits until there may be room, a block or a credit. Held data is posted before.
// Preconditions: the caller has wr.Turn.
func (wr *writing) waitWrite(b turn.Bound) error {
	l := wr.l
	l.Mu.Lock()
	if l.Queue.Held() {
		l.Pump()
	}
	l.Mu.Unlock()
	return l.Shard.Progress.WaitSignal(b, &wr.Wake, nil)
}

// mayWrite reports why a write would fail now, without waiting.
func (l *Link) mayWrite(b turn.Bound) error {
	if err := b.Expired(); err != nil {
		return err
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.writeError()
}

// Write is Stream.Write.
func (l *Link) Write(b turn.Bound, p []byte) (int, error) {
	if err := l.Writer.Turn.Enter(b); err != nil {
		return 0, err
	}
	defer l.Writer.Turn.Leave()
	return l.Writer.writeBytes(b, p)
}

// WriteAll writes slices one after another: see Stream.WriteBuffers.
func (wr *writing) WriteAll(b turn.Bound, v [][]byte) (total int64, err error) {
	if err := wr.Turn.Enter(b); err != nil {
		return 0, err
	}
	defer wr.Turn.Leave()
	wr.hold()
	defer wr.letGo()
	for _, p := range v {
		if len(p) == 0 && total > 0 {
			continue // a peer may have closed after all bytes
		}
		n, err := wr.writeBytes(b, p)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// hasCredit reports whether another frame has a credit.
// Preconditions: l.Mu is held.
func (wr *writing) hasCredit() bool { return int(wr.l.Send.Left()) > wr.l.Queue.Credits() }

// sendBlock returns a block to send n bytes from. Without one it returns nil, and l is woken when there may be one: if
// it has no credit, and so is ahead, when it has one.
// Preconditions: the caller has wr.Turn.
func (wr *writing) sendBlock(ahead bool, n int) (*Block, error) {
	l := wr.l
	if !ahead {
		return l.Shard.Blocks.Take(&wr.sender, n)
	}
	b := l.Shard.Blocks.TakeAhead(&wr.sender)
	if b == nil {
		l.Mu.Lock()
		if wr.Parched = !wr.hasCredit(); !wr.Parched { // meanwhile
			l.WakeWriter()
		}
		l.Mu.Unlock()
	}
	return b, nil
}

// caughtUp discounts the frames that no longer wait for credits, and wakes a writer that has one.
// Preconditions: l.Mu is held.
func (wr *writing) caughtUp() {
	l := wr.l
	wait := max(l.Queue.Staged()-int(l.Send.Left()), 0)
	if wr.ahead > wait {
		l.Shard.Blocks.Caught(wr.ahead - wait)
		wr.ahead = wait
	}
	if wr.Parched && wr.hasCredit() {
		wr.Parched = false
		l.WakeWriter()
	}
}

// takeBack takes the staged frames of an unfinished message back. If some have been posted, the peer is asked to drop
// the message.
// Preconditions: the caller has wr.Turn.
func (wr *writing) takeBack() {
	l := wr.l
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for f, ok := l.Queue.TakeBack(); ok; f, ok = l.Queue.TakeBack() {
		l.GiveUp(f.Held)
	}
	l.Pump()
}

// Flush waits until all that was staged is in the peer's memory.
func (wr *writing) Flush(ctx context.Context) error {
	l := wr.l
	b := turn.Bound{Ctx: ctx}
	if err := wr.Turn.Enter(b); err != nil {
		return err
	}
	defer wr.Turn.Leave()
	for {
		l.Mu.Lock()
		if l.End.Ending || l.End.Closed() {
			err := l.writeError()
			l.Mu.Unlock()
			return err
		}
		if l.Queue.Staged() == 0 {
			break
		}
		l.Mu.Unlock()
		if err := l.Shard.Progress.WaitSignal(b, &wr.Wake, nil); err != nil {
			return err
		}
	}
	w := l.Queue.Await()
	l.Pump()
	l.Mu.Unlock()
	if w == nil {
		return nil
	}
	err := l.Shard.Progress.Wait(b, w.C)
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err != nil {
		l.Queue.Forget(w)
		return err
	}
	if wire.Before(l.Queue.Acked, w.UpTo) {
		return l.Reason()
	}
	return nil
}

// hold lets frames be staged without being posted, until there are as many as one doorbell takes.
// Preconditions: the caller has wr.Turn, and calls letGo.
func (wr *writing) hold() {
	l := wr.l
	l.Mu.Lock()
	l.Queue.Hold()
	l.Mu.Unlock()
}

// letGo posts what was held.
func (wr *writing) letGo() {
	l := wr.l
	l.Mu.Lock()
	l.Queue.LetGo()
	l.Pump()
	l.Mu.Unlock()
}

// NeedScratch gives the connection scratch memory, if it has none.
// Preconditions: l.Mu is held, or the connection has not begun.
func (wr *writing) NeedScratch() error {
	l := wr.l
	if l.Queue.HasScratch() {
		return nil
	}
	s, err := l.Shard.Engine.scratches.get(l.Shard.Engine.NIC)
	if err == nil {
		wr.scratch = s
		l.Queue.PutScratch(s.mem, s.at)
	}
	return err
}

// dropScratch gives it back, unless the device may still use it.
// Preconditions: l.Mu is held, the QP is gone.
func (wr *writing) dropScratch() {
	if wr.scratch.mem != nil && wr.l.End.CloseErr == nil {
		wr.l.Shard.Engine.scratches.put(wr.scratch)
		wr.scratch = scratchMem{}
	}
}
