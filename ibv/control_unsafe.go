package ibv

import "unsafe"

// Control calls f with the struct ibv_context * of the device, for use by another C library.
// The device stays open until f returns: f must not keep the handle, close the device or call
// its methods. On ControlNative there is no C object, and the error is an *UnsupportedError. The same
// holds for Control of the other objects.
func (d *Device) Control(f func(handle unsafe.Pointer)) error {
	return d.node.control("control device", d.v, &d.handle, f)
}

// Control calls f with the struct ibv_pd * of the domain: see Device.Control. Close waits for
// f, but does not know of objects that C makes on the domain.
func (pd *PD) Control(f func(handle unsafe.Pointer)) error {
	return pd.node.control("control pd", pd.dev.v, &pd.handle, f)
}

// Control calls f with the struct ibv_cq * of the queue: see Device.Control. C may poll it only
// with DataPathOps, and only while nobody else does.
func (cq *CQ) Control(f func(handle unsafe.Pointer)) error {
	return cq.node.control("control cq", cq.dev.v, &cq.handle, f)
}

// Control calls f with the struct ibv_srq * of the queue: see Device.Control. C may post only
// with DataPathOps, and only while nobody else does.
func (s *SRQ) Control(f func(handle unsafe.Pointer)) error {
	return s.node.control("control srq", s.pd.dev.v, &s.handle, f)
}

// Control calls f with the struct ibv_wq * of the queue: see Device.Control. C may post only
// with DataPathOps, and only while nobody else does. It must not change the state.
func (w *WQ) Control(f func(handle unsafe.Pointer)) error {
	return w.node.control("control wq", w.pd.dev.v, &w.handle, f)
}

// Control calls f with the struct ibv_rwq_ind_table * of the table: see Device.Control.
func (t *RWQIndTable) Control(f func(handle unsafe.Pointer)) error {
	return t.node.control("control rwq ind table", t.dev.v, &t.handle, f)
}

// Control calls f with the struct ibv_qp * of the queue pair: see Device.Control. C may post
// only with DataPathOps, and only while nobody else does. It must not change the state; call
// Modify for that. On MLNX_OFED 4 the handle of a DCT is a struct ibv_exp_dct *, NULL before RTR.
func (qp *QP) Control(f func(handle unsafe.Pointer)) error {
	h := &qp.handle
	if qp.make.Object != nil {
		h = qp.make.Object
	}
	return qp.node.control("control qp", qp.dev.v, h, f)
}

// Control calls f with the struct ibv_mr * of the region: see Device.Control.
func (mr *MR) Control(f func(handle unsafe.Pointer)) error {
	return mr.node.control("control mr", mr.pd.dev.v, &mr.handle, f)
}

// Control calls f with the struct ibv_dm * of the memory: see Device.Control.
func (dm *DM) Control(f func(handle unsafe.Pointer)) error {
	return dm.node.control("control dm", dm.dev.v, &dm.handle, f)
}

// Control calls f with the struct ibv_ah * of the address: see Device.Control.
func (ah *AH) Control(f func(handle unsafe.Pointer)) error {
	return ah.node.control("control ah", ah.pd.dev.v, &ah.handle, f)
}

// Control calls f with the struct ibv_mw * of the window: see Device.Control. C must not bind it.
func (mw *MW) Control(f func(handle unsafe.Pointer)) error {
	return mw.node.control("control mw", mw.pd.dev.v, &mw.handle, f)
}

// Control calls f with the struct ibv_comp_channel * of the channel: see Device.Control. Its events are read by a
// goroutine of this package, so that C must read none.
func (ch *CompChannel) Control(f func(handle unsafe.Pointer)) error {
	return ch.node.control("control comp channel", ch.dev.v, &ch.handle, f)
}

func (n *node) control(op string, v *verbs, handle *uintptr, f func(unsafe.Pointer)) error {
	return n.do(op, func() error {
		err := v.needLibrary("a C object")
		if err == nil {
			f(*(*unsafe.Pointer)(unsafe.Pointer(handle)))
		}
		return err
	})
}
