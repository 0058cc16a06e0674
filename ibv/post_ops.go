package ibv

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// plainOps returns the opcodes whose work requests checkSend takes on the ops engine, and which
// have nothing but data, a remote address and 32 bits.
func (sq *sender) plainOps() uint32 { return plainOf(sq.qp.typ) & sq.ops }

// prepareOps completes a new qp.sq.chain.
func (sq *sender) prepareOps() {
	qp := sq.qp
	sq.chain.Plain(sq.plainOps())
	fd, handle := qp.dev.v.Context(qp.dev.handle).CmdFD, ops.KernelHandle(qp.handle)
	sq.chain.Doorbell(func() error { return uverbs.RingSend(fd, handle) })
}

// refused returns the error of the last Run of qp.sq.chain, which stopped at a work request with this opcode.
// Preconditions: qp.sq.mu is held. refused unlocks it.
func (sq *sender) refused(op Opcode) error {
	err := sq.sendErrno(sq.chain.Errno(), op)
	sq.mu.Unlock()
	return err
}

// postOps posts through the provider's post_send.
// Preconditions: qp.sq.mu is held, the QP is open and may send.
func (sq *sender) postOps(wrs []SendWR, whole bool) (done int, err error) {
	if sq.qp.typ == RawPacket {
		switch n := sq.runFrames(wrs); {
		case n == len(wrs):
			return n, nil
		case n >= 0:
			return n, sq.sendErrno(sq.chain.Errno(), OpSend)
		}
	}
	for done < len(wrs) {
		run, took, errno := wrs[done:], 0, 0
		n, naming, bad := sq.fillRun(run)
		if bad != nil {
			bad = sq.badSend(done+n, bad)
		} else if whole && done == 0 {
			bad = sq.checkAll(wrs, n)
		}
		if n > 0 && (bad == nil || !whole) {
			took, errno = sq.chain.Post(n)
		}
		if naming {
			settle(run[:n], took)
		}
		done += took
		switch {
		case errno != 0:
			return done, sq.sendErrno(errno, wrs[min(done, len(wrs)-1)].Opcode)
		case bad != nil:
			return done, bad
		}
	}
	return done, nil
}

// settle releases what fillRun acquired for wrs. The first took work requests were posted.
func settle(wrs []SendWR, took int) {
	for i := range wrs {
		releaseKind(&wrs[i])
		if i < took {
			postedKind(&wrs[i])
		}
	}
}

// fillRun fills the chain with the work requests of one call, the first n of wrs. One that changes a key ends the call,
// because providers find an object by the key in its C struct. naming means that some have to be settled afterwards,
// and err is the mistake in the next one.
// Preconditions: qp.sq.mu is held, the QP is open.
func (sq *sender) fillRun(wrs []SendWR) (n int, naming bool, err error) {
	seen := uint32(0)
	for n < min(len(wrs), sq.chain.Len()) && seen&fillOps == 0 {
		if err = sq.fill(n, &wrs[n]); err != nil {
			break
		}
		seen |= 1 << wrs[n].Opcode
		n++
	}
	return n, seen&sq.naming != 0, err
}

// runFrames posts frames as Run does, if each is long enough: Run checks no length, because each PostSend would pay for
// that. It returns -1 if fill has to check them. A frame costs 6.9 ns instead of 24.5, 16 at a time, and 24.9 instead
// of 42.4 alone (BenchmarkPostFrame: a library that only copies it; AMD EPYC).
// Preconditions: qp.sq.mu is held, the QP is open and may send.
func (sq *sender) runFrames(wrs []SendWR) int {
	least := max(uint32(sq.frameHead), 1)
	for i := range wrs {
		if s := wrs[i].SGEs; len(s) != 1 || s[0].Length < least {
			return -1
		}
	}
	sq.chain.Plain(1 << OpSend)
	n := sq.chain.Run(first(wrs), len(wrs))
	sq.chain.Plain(0)
	return n
}

// fill writes wr into slot i of the chain, and acquires what it names.
// Preconditions: qp.sq.mu is held, the QP is open.
func (sq *sender) fill(i int, wr *SendWR) error {
	if _, err := sq.checkSend(wr); err != nil {
		return err
	}
	if sq.naming>>wr.Opcode&1 != 0 {
		return fillKind(sq.chain, i, wr)
	}
	sq.chain.Fill(i, request(wr), 0)
	return nil
}

func fillSGEs(list []abi.SGE, sges []SGE) {
	for k := range list {
		s, to := &sges[k], &list[k]
		to.Addr, to.Length, to.LKey = s.Addr, s.Length, s.LKey
	}
}

// sendErrno returns the error for an errno of the provider's post_send, which refused a work request with this opcode.
func (sq *sender) sendErrno(e int, op Opcode) error {
	qp := sq.qp
	err := errnoError(e)
	if s := qp.loadState(); err == errInvalid && sq.onlySendOps && s != StateRTS {
		return sq.sendState(s) // from v40 on libmlx5 posts by ibv_wr_* in RTS alone
	}
	if isQueueFull(err) {
		if !sq.signalAll && sq.chain.Unsignaled() >= qp.cap.MaxSendWR {
			return sq.errs.unsignaled
		}
		return sq.errs.full
	}
	if err == syscall.EACCES {
		err = qp.dev.credentialsError()
	}
	return &OpError{Op: opPostSend, Object: qp.name, Err: sq.explainRefusal(err, op),
		Detail: "the provider refused the work request"}
}
