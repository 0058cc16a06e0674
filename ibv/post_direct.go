package ibv

// postDirect posts on the rings of an mlx5 device. The first n work requests are already built,
// each in one block.
// Preconditions: qp.sq.mu is held, the QP is open and may send.
func (sq *sender) postDirect(wrs []SendWR, n int, whole bool) (int, error) {
	q := &sq.direct.SQ
	before := q.MarkBefore(n)
	plain, seen := sq.direct.Sends(), uint32(0)
	var err, bad error
	for n < len(wrs) {
		if plain {
			if k := q.Build(request(&wrs[n]), len(wrs)-n); k > 0 {
				n += k
				continue
			}
		}
		if err = sq.addDirect(&wrs[n]); err != nil {
			break
		}
		seen |= 1 << wrs[n].Opcode
		n++
	}
	switch {
	case err == ErrQueueFull:
		err = sq.directFull()
		if whole {
			bad = sq.checkAll(wrs, n)
		}
	case err != nil:
		err = sq.badSend(n, err)
		bad = err
	}
	if whole && bad != nil {
		q.Rollback(before)
		for i := range n {
			undoKind(q, &wrs[i])
		}
		return 0, bad
	}
	q.Ring()
	if seen&addOps != 0 {
		for i := range n {
			postedKind(&wrs[i])
		}
	}
	return n, err
}

// directFull returns the error of a full queue.
func (sq *sender) directFull() error {
	if !sq.direct.SQ.Signaled() {
		return sq.errs.unsignaled
	}
	return sq.errs.full
}

// addDirect builds a work request of any kind.
// Preconditions: qp.sq.mu is held.
func (sq *sender) addDirect(wr *SendWR) error {
	inline, err := sq.checkSend(wr)
	if err != nil {
		return err
	}
	ok := false
	if sq.naming>>wr.Opcode&1 != 0 {
		ok, err = addKind(sq.qp, wr, inline)
	} else {
		ok = sq.direct.SQ.Add(request(wr), inline, 0)
	}
	if err == nil && !ok {
		err = ErrQueueFull
	}
	return err
}
