package ibv

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// qpMaker creates, changes and destroys the C object of a QP, by libibverbs or, for a QP of an ID, by
// librdmacm.
type qpMaker struct {
	control.Pair

	// createOut is Create for a QP whose completions carry no payloads. It returns 0 if it cannot; nil means never.
	createOut func(pd uintptr, attr *abi.QPInitAttrEx) uintptr

	dc      bool // by libmlx5
	srd     bool // by libefa
	mlx5    MLX5SendOps
	streams bool // of a DCI

	maxAtomic uint32 // bytes of the longest atomic with masks, where a Pair posts them

	shared *int // counts the QP among those with shared registers
}

// pair returns the verbs of a QP. A nil destroy stands for DestroyQP.
func (d *Device) pair(create func(pd uintptr, attr *abi.QPInitAttrEx) (uintptr, error),
	destroy func(qp uintptr) error) control.Pair {
	if destroy == nil {
		destroy = d.v.DestroyQP
	}
	return control.Pair{Create: create, Destroy: destroy, Modify: d.v.ModifyQP, Query: d.v.QueryQP}
}

// run creates the C object. out means that its completions carry no payloads.
func (m *qpMaker) run(pd *PD, o *QPOptions, send, recv *CQ, init *abi.QPInitAttrEx) (h uintptr, out bool, err error) {
	domain, shared, err := pd.pdFor(o.Type, send.path)
	if err != nil {
		return 0, false, err
	}
	m.shared = shared
	if m.createOut != nil && o.Type.inline() && pd.dev.keepsOut(o, send, recv) {
		if h := m.createOut(domain, init); h != 0 {
			return h, true, nil
		}
	}
	if h, err = m.Create(domain, init); err != nil {
		m.gone(pd.dev)
	}
	return h, m.mlx5.NoScatter, err
}

// end destroys the C object.
func (m *qpMaker) end(d *Device, h uintptr) error {
	err := m.Destroy(h)
	if err == nil {
		m.gone(d)
	}
	return err
}

func (m *qpMaker) gone(d *Device) {
	d.direct.registers.leave(m.shared)
	m.shared = nil
}

// MLX5SendOps lists the work requests of mlx5 that a QP takes.
type MLX5SendOps struct {
	Opcodes   uint32 // 1<<OpMemcpy and so on
	MkeySetup bool
	MostCopy  uint64
	Notes     *MR // of the device about copies, on the direct data path; the QP closes it

	ScatterToCQE bool // completions may carry the results of reads and atomics, whatever SignalAll is
	NoScatter    bool // completions carry no payloads
}
