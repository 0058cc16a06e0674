package ibv

// postDirect posts on the rings of an mlx5 device. The first n work requests are already built,
// each in one block.
// Preconditions: qp.sqMu is held, the QP is open and may send.
func (qp *QP) postDirect(wrs []SendWR, n int, whole bool) (int, error) {
	q := &qp.direct.SQ
	before := q.MarkBefore(n)
	var err error
	binds, plain := false, qp.direct.Sends()
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
		binds = binds || wrs[n].Opcode == OpBindMW
		n++
	}
	if err == ErrQueueFull {
		err = qp.directFull()
		if whole {
			if bad := qp.checkAll(wrs, n); bad != nil {
				q.Rollback(before)
				undoChanges(q, wrs[:n])
				return 0, bad
			}
		}
	} else if err != nil {
		err = qp.badSend(n, err)
		if whole {
			q.Rollback(before)
			undoChanges(q, wrs[:n])
			return 0, err
		}
	}
	q.Ring()
	if binds {
		noteKeys(wrs[:n])
	}
	return n, err
}

// noteKeys gives the windows that wrs bind their new keys.
func noteKeys(wrs []SendWR) {
	for i := range wrs {
		if b := wrs[i].bindOf(); b != nil {
			b.MW.key.Store(b.RKey)
		}
	}
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
	if bind := wr.bindOf(); bind != nil {
		w, err := bind.acquire()
		if err != nil {
			return err
		}
		ok := qp.direct.SQ.Bind(wr.ID, uint32(wr.Flags), &w)
		bind.release()
		if !ok {
			return ErrQueueFull
		}
		return nil
	}
	if c := wr.mkeyOf(); c != nil {
		if err := c.acquire(); err != nil {
			return err
		}
		ok := qp.direct.SQ.Mkey(wr.ID, uint32(wr.Flags), c.w, c.mkey.signed)
		c.release()
		if !ok {
			return ErrQueueFull
		}
		return nil
	}
	if wr.Opcode == OpMemcpy {
		n := qp.make.mlx5.Notes
		if !qp.direct.SQ.Memcpy(request(wr), n.lkey, n.iova) {
			return ErrQueueFull
		}
		return nil
	}
	if qp.typ == RawPacket {
		return qp.addFrame(wr, inline)
	}
	var av uintptr
	if wr.AH != nil {
		if !wr.AH.acquire() {
			return wr.AH.errClosed()
		}
		av = wr.AH.av // libmlx5 keeps it until the AH is closed
	}
	ok := qp.direct.SQ.Add(request(wr), inline, av)
	if wr.AH != nil {
		wr.AH.release()
	}
	if !ok {
		return ErrQueueFull
	}
	return nil
}
