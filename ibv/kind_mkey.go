package ibv

import (
	"math"

	"github.com/pureverbs/pureverbs/internal/level"
	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// OpDriver1 is defined by the vendor: with mlx5 it changes an indirect memory key, as package mlx5dv describes.
// C: IBV_WR_DRIVER1.
const OpDriver1 Opcode = 11

// checkChange reports what is wrong with a work request that changes a key.
//
//kind:check OpDriver1
func checkChange(qp *QP, wr *SendWR) error {
	if err := checkBare(wr); err != nil {
		return err
	}
	return wr.Mkey.check(qp)
}

// check reports what is wrong with the change of a key.
func (c *MkeyChange) check(qp *QP) error {
	if c == nil || c.mkey == nil {
		return &ArgError{Arg: "Mkey", Got: "nil", Want: "what mlx5dv.Mkey.Change returned"}
	}
	n, layout := c.w.Entries()
	room := qp.cap.MaxInline + 4 // libmlx5 counts so
	if more := c.extra(); more > 0 {
		room = (room - more) &^ 63
	}
	most := room / 16
	if c.w.Blocks != nil {
		most--
	}
	switch {
	case c.mkey.pd.root != qp.pd.root:
		return &ArgError{Arg: "Mkey", Got: "one of another PD", Want: "one of the QP's PD"}
	case c.mkey.signature && qp.sq.direct != nil && c.mkey.signed == nil:
		return &UnsupportedError{Feature: "changing a key with a signature on the direct data path",
			Need: "CQs made with DataPathOps",
			Have: "a CQ of the direct data path, on which libmlx5 does not see the errors of signatures"}
	case c.mkey.signature && qp.sq.signalAll:
		return &UnsupportedError{Feature: "changing a key with a signature on a QP with SignalAll",
			Need: "the flag Signaled instead", Have: "a QP on which each of the WQEs that it takes would complete"}
	case !qp.make.mlx5.MkeySetup && (c.w.Setup || !layout || !c.w.SetAccess):
		return &UnsupportedError{Feature: "changing a key other than by a layout and rights",
			Need: "a QP with mlx5dv.MkeyConfigure among its SendOps", Have: "one without"}
	case n > most:
		return &LimitError{What: "entries of the layout", Asked: uint64(n), Limit: uint64(max(most, 0)),
			Where: "qp " + qp.name + " (QPOptions.MaxInline: 16 bytes for each, 16 more with Blocks, and 64 more for " +
				"a signature and for an encryption)"}
	case c.mkey.signature && c.w.Length() > math.MaxUint32:
		return &LimitError{What: "bytes under a key with a signature or an encryption", Asked: c.w.Length(),
			Limit: math.MaxUint32, Where: "an mkey"}
	case qp.sq.direct == nil && c.w.Length() > math.MaxUint32 && qp.dev.hasFault(level.LongBlocks):
		return &LimitError{What: "bytes under the key", Asked: c.w.Length(), Limit: math.MaxUint32,
			Where: "libmlx5 before v31; use CQs of the direct data path"}
	case int(c.w.Places) > qp.cap.MaxSendWR:
		return &LimitError{What: "places of the send queue for a signature", Asked: uint64(c.w.Places),
			Limit: uint64(qp.cap.MaxSendWR), Where: "qp " + qp.name + " (QPOptions.MaxSendWR)"}
	}
	if why := c.mkey.signed.Refuses(c.w); why != "" {
		return &UnsupportedError{Feature: why, Need: "another order, or less",
			Have: "the encryption of " + qp.dev.Name()}
	}
	return nil
}

// extra returns the bytes that a change takes in a WQE besides the layout.
func (c *MkeyChange) extra() (n int) {
	if c.w.Signature != nil {
		n = 64
	}
	if c.w.Crypto != nil {
		n += 64
	}
	return n
}

// acquire keeps the key open while the change is posted. It never waits, as AH.acquire.
func (c *MkeyChange) acquire() error {
	if !c.mkey.life.TryEnter() {
		return c.mkey.errClosed("change mkey")
	}
	return nil
}

// addChange builds the change on the direct data path.
//
//kind:add OpDriver1
func addChange(qp *QP, wr *SendWR) (ok bool, err error) {
	c := wr.Mkey
	if err := c.acquire(); err != nil {
		return false, err
	}
	ok = qp.sq.direct.SQ.Mkey(wr.ID, uint32(wr.Flags), c.w, c.mkey.signed)
	c.mkey.life.Leave()
	return ok, nil
}

// fillChange writes the change into slot i of the chain and acquires its key.
//
//kind:fill OpDriver1
func fillChange(c *ops.SendChain, i int, wr *SendWR) error {
	err := wr.Mkey.acquire()
	if err == nil {
		c.FillMkey(i, request(wr), wr.Mkey.w)
	}
	return err
}

//kind:release OpDriver1
func releaseChange(wr *SendWR) { wr.Mkey.mkey.life.Leave() }

// undoChange forgets a change that was discarded.
//
//kind:undo OpDriver1
func undoChange(q *mlx5.SQ, wr *SendWR) {
	if k := wr.Mkey.mkey.signed; k != nil {
		k.Undo(q, q.Rung())
	}
}
