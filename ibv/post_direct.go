package ibv

// postDirect posts on the rings of an mlx5 device. The first n work requests are already built,
// each in one block.
// Preconditions: qp.sqMu is held, the QP is open and may send.
func (qp *QP) postDirect(wrs []SendWR, n int, whole bool) (int, error) {
	q := &qp.direct.SQ
	before := q.MarkBefore(n)
	plain, seen := qp.direct.Sends(), uint32(0)
	var err, bad error
	for n < len(wrs) {
		if plain {
			if k := q.Build(request(&wrs[n]), len(wrs)-n); k > 0 {
				n += k
				continue
			}
		}
		if err = qp.addDirect(&wrs[n]); err != nil {
			break
		}
		seen |= 1 << wrs[n].Opcode
		n++
	}
	switch {
	case err == ErrQueueFull:
		err = qp.directFull()
		if whole {
			bad = qp.checkAll(wrs, n)
		}
	case err != nil:
		err = qp.badSend(n, err)
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
func (qp *QP) directFull() error {
	if !qp.direct.SQ.Signaled() {
		return qp.errSend.unsignaled
	}
	return qp.errSend.full
}

// addDirect builds a work request of any kind.
// Preconditions: qp.sqMu is held.
func (qp *QP) addDirect(wr *SendWR) error {
	inline, err := qp.checkSend(wr)
	if err != nil {
		return err
	}
	ok := false
	if qp.naming>>wr.Opcode&1 != 0 {
		ok, err = addKind(qp, wr, inline)
	} else {
		ok = qp.direct.SQ.Add(request(wr), inline, 0)
	}
	if err == nil && !ok {
		err = ErrQueueFull
	}
	return err
}
