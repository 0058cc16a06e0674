package ibv

import "github.com/pureverbs/pureverbs/internal/abi"

// qpMaker creates and destroys the C object of a QP, by libibverbs or, for a QP of an ID, by
// librdmacm.
type qpMaker struct {
	create  func(pd uintptr, attr *abi.QPInitAttrEx) (uintptr, error)
	destroy func(qp uintptr) error

	// createOut is create for a QP whose completions carry no payloads. It returns 0 if it cannot; nil means never.
	createOut func(pd uintptr, attr *abi.QPInitAttrEx) uintptr

	dc      bool // by libmlx5
	srd     bool // by libefa
	mlx5    MLX5SendOps
	streams bool // of a DCI

	exp     expQP // changes and queries it, on MLNX_OFED 4; else nil
	postExp bool  // by ibv_exp_post_send

	maxAtomic uint32 // bytes of the longest atomic with masks, on MLNX_OFED 4

	shared *int // counts the QP among those with shared registers
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
	if h, err = m.create(domain, init); err != nil {
		m.gone(pd.dev)
	}
	return h, m.mlx5.NoScatter, err
}

// end destroys the C object.
func (m *qpMaker) end(d *Device, h uintptr) error {
	err := m.destroy(h)
	if err == nil {
		m.gone(d)
	}
	return err
}

func (m *qpMaker) gone(d *Device) {
	d.direct.registers.leave(m.shared)
	m.shared = nil
}
