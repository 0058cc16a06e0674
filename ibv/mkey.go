package ibv

import (
	"fmt"
	"math"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/level"
	"github.com/pureverbs/pureverbs/internal/life"
	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/work"
)

// Mkey is an indirect memory key of mlx5: mlx5dv.CreateMkey makes it, and work requests select the memory that it
// covers. It belongs to its PD.
//
// C: struct mlx5dv_mkey.
type Mkey struct {
	node
	pd        *PD
	handle    uintptr
	lkey      uint32
	rkey      uint32
	signature bool            // or an encryption
	signed    *mlx5.SignedKey // nil if libmlx5 follows it, or there is nothing to follow
	destroy   func(mkey uintptr) error
}

// MkeyChange is the change that a work request of the opcode OpDriver1 makes to an Mkey: mlx5dv.Mkey.Change makes it.
// The memory of its keys is the program's to keep registered.
type MkeyChange struct {
	mkey *Mkey
	w    *work.MkeyUpdate
}

// MkeyInfo describes a new Mkey of package mlx5dv.
type MkeyInfo struct {
	Handle     uintptr
	LKey, RKey uint32
	Signs      bool
	Encrypts   bool
	Several    bool // units that the device encrypts at a time
	Follow     bool // as the control path does not
	PSV        [2]uint32
}

// CreateMkey makes an Mkey by the functions of another package.
func (friends) CreateMkey(pd *PD, op string, create func(pd uintptr) (MkeyInfo, error),
	destroy func(mkey uintptr) error) (*Mkey, error) {
	if err := pd.enter(op); err != nil {
		return nil, err
	}
	defer pd.leave()
	i, err := create(pd.handle)
	if err != nil {
		return nil, &OpError{Op: op, Object: pd.dev.Name(), Err: err}
	}
	m := &Mkey{pd: pd, handle: i.Handle, lkey: i.LKey, rkey: i.RKey, signature: i.Signs || i.Encrypts,
		destroy: destroy}
	if m.signature && i.Follow {
		m.signed = &mlx5.SignedKey{Signs: i.Signs, PSV: i.PSV, Encrypts: i.Encrypts, Several: i.Several}
		pd.dev.direct.qps.AddKey(m.lkey, m.signed)
	}
	pd.dev.noteKey(m.lkey, "an Mkey", true)
	m.node.initNumbered("mkey", pd.dev.Name(), &pd.node)
	life.Watch(m, &m.life)
	return m, nil
}

// ChangeMkey makes the change w of m.
func (friends) ChangeMkey(m *Mkey, w *work.MkeyUpdate) *MkeyChange {
	w.Handle, w.Key = m.handle, m.lkey
	return &MkeyChange{m, w}
}

// CheckMkey returns the last wrong signature of a key since the last CheckMkey. It reports whether this package follows
// the key.
func (friends) CheckMkey(m *Mkey) (info abi.MLX5DVMkeyErr, follows bool, err error) {
	if m.signed == nil {
		return info, false, nil
	}
	info, err = m.signed.Check()
	return info, true, err
}

func (m *Mkey) cObject() (uintptr, *verbs) { return m.handle, m.pd.dev.v }

// PD returns the PD that the key belongs to.
func (m *Mkey) PD() *PD { return m.pd }

// LKey returns the key for local use, in SGEs.
func (m *Mkey) LKey() uint32 { return m.lkey }

// RKey returns the key for peers.
func (m *Mkey) RKey() uint32 { return m.rkey }

// Close destroys the key. Work requests that use it must have completed.
//
// C: mlx5dv_destroy_mkey(3).
func (m *Mkey) Close() error {
	return m.node.close(func() error {
		err := m.destroy(m.handle)
		if err == nil {
			m.pd.dev.forgetKey(m.lkey)
			if m.signed != nil {
				m.pd.dev.direct.qps.RemoveKey(m.lkey, m.signed)
			}
		}
		return err
	})
}

// close frees the QP's share of them.
func (s *MLX5SendOps) close() error {
	if s.Notes == nil {
		return nil
	}
	return s.Notes.Close()
}

// acquire keeps the key open while the change is posted. It never waits, as AH.acquire.
func (c *MkeyChange) acquire() error {
	if !c.mkey.life.TryEnter() {
		return c.mkey.errClosed("change mkey")
	}
	return nil
}

func (c *MkeyChange) release() { c.mkey.life.Leave() }

// mkeyOf returns the change of a key of a work request whose opcode uses it, nil of others.
func (wr *SendWR) mkeyOf() *MkeyChange {
	if work.FieldsOf(uint32(wr.Opcode))&work.MkeyChange == 0 {
		return nil
	}
	return wr.Mkey
}

// checkMkey reports what is wrong with the change of a key.
func (qp *QP) checkMkey(c *MkeyChange) error {
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
	case c.mkey.signature && qp.direct != nil && c.mkey.signed == nil:
		return &UnsupportedError{Feature: "changing a key with a signature on the direct data path",
			Need: "CQs made with DataPathOps",
			Have: "a CQ of the direct data path, on which libmlx5 does not see the errors of signatures"}
	case c.mkey.signature && qp.signalAll:
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
	case qp.direct == nil && c.w.Length() > math.MaxUint32 && qp.dev.hasFault(level.LongBlocks):
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

// undoChanges forgets the changes of keys of work requests that were discarded.
func undoChanges(q *mlx5.SQ, wrs []SendWR) {
	for i := range wrs {
		if c := wrs[i].mkeyOf(); c != nil && c.mkey.signed != nil {
			c.mkey.signed.Undo(q, q.Rung())
		}
	}
}

// checkMLX5 reports what is wrong with a work request that has a form of its own.
func (qp *QP) checkMLX5(wr *SendWR, f work.Fields) error {
	switch {
	case wr.Flags&Inline != 0:
		return &ArgError{Arg: "Flags", Got: wr.Flags.String(), Want: "without Inline with " + wr.Opcode.String()}
	case f&work.WholeWQE != 0:
		return qp.checkWQE(wr)
	case wr.Inline != nil:
		return &ArgError{Arg: "Inline", Got: "set", Want: "nothing with " + wr.Opcode.String()}
	}
	return qp.checkCopy(wr)
}

// checkCopy reports what is wrong with a copy of local memory.
func (qp *QP) checkCopy(wr *SendWR) error {
	switch {
	case len(wr.SGEs) != 2:
		return &ArgError{Arg: "SGEs", Got: fmt.Sprint(len(wr.SGEs)), Want: "two: to where, and from where"}
	case wr.SGEs[0].Length != wr.SGEs[1].Length || wr.SGEs[0].Length == 0:
		return &ArgError{Arg: "SGEs", Got: fmt.Sprintf("%d bytes to copy to %d", wr.SGEs[1].Length, wr.SGEs[0].Length),
			Want: "two of the same length, and not 0"}
	case qp.make.mlx5.MostCopy > 0 && uint64(wr.SGEs[0].Length) > qp.make.mlx5.MostCopy:
		return &LimitError{What: "bytes to copy", Asked: uint64(wr.SGEs[0].Length), Limit: qp.make.mlx5.MostCopy,
			Where: qp.dev.Name() + " (mlx5dv.DeviceAttr.MaxWRMemcpy)"}
	}
	return nil
}

// checkWQE reports what is wrong with a WQE that the program wrote.
func (qp *QP) checkWQE(wr *SendWR) error {
	w := wr.Inline
	if len(w) < 16 || len(w) > 63*16 || len(w)%16 != 0 {
		return &ArgError{Arg: "Inline", Got: fmt.Sprintf("%d bytes", len(w)),
			Want: "a WQE: 16 to 1008 bytes, in units of 16"}
	}
	if ce := w[11]&0x0c == 0x08; ce != (wr.Flags&Signaled != 0) || qp.signalAll && !ce {
		return &ArgError{Arg: "Flags", Got: wr.Flags.String(), Want: "Signaled if and only if the WQE's control " +
			"segment asks for a completion, as it has to on a QP with SignalAll"}
	}
	if n := int(w[7]&0x3f) * 16; n != len(w) {
		return &ArgError{Arg: "Inline", Got: fmt.Sprintf("%d bytes, in whose control segment are %d", len(w), n),
			Want: "a WQE whose control segment tells its length"}
	}
	if num := uint32(w[4])<<16 | uint32(w[5])<<8 | uint32(w[6]); num != qp.Num() {
		return &ArgError{Arg: "Inline", Got: fmt.Sprintf("a WQE of QP %#x", num),
			Want: fmt.Sprintf("the QP's own number, %#x, in its control segment", qp.Num())}
	}
	return nil
}
