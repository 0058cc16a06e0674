package ibv

import (
	"github.com/pureverbs/pureverbs/internal/abi"
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
func (friends) CreateMkey(pd *PD, op string, make func(pd uintptr) (MkeyInfo, error),
	destroy func(mkey uintptr) error) (*Mkey, error) {
	m := &Mkey{pd: pd, destroy: destroy}
	return create(op, pd.dev.Name(), "mkey", m, &m.node, func() error {
		i, err := make(pd.handle)
		if err != nil {
			return err
		}
		m.handle, m.lkey, m.rkey, m.signature = i.Handle, i.LKey, i.RKey, i.Signs || i.Encrypts
		if m.signature && i.Follow {
			m.signed = &mlx5.SignedKey{Signs: i.Signs, PSV: i.PSV, Encrypts: i.Encrypts, Several: i.Several}
			pd.dev.direct.qps.AddKey(m.lkey, m.signed)
		}
		pd.dev.noteKey(m.lkey, "an Mkey", true)
		return nil
	}, &pd.node)
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
