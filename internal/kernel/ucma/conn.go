package ucma

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

// param returns the parameters of a connection as the kernel takes them. The QP of the ID, if it has one, replaces the
// caller's.
func (i *id) param(p *abi.RDMAConnParam, data []byte) abi.UCMConnParam {
	i.mu.Lock()
	defer i.mu.Unlock()
	k := abi.UCMConnParam{QPNum: p.QPNum, SRQ: p.SRQ, ResponderResources: i.limits.responder,
		InitiatorDepth: i.limits.initiator, FlowControl: p.FlowControl, RetryCount: p.RetryCount,
		RNRRetryCount: p.RNRRetryCount, Valid: 1}
	if i.qp.handle != 0 {
		k.QPNum, k.SRQ = i.qp.number, i.qp.srq
	}
	k.PrivateDataLen = uint8(copy(k.PrivateData[:maxPrivate], data))
	return k
}

// maxPrivate is the most private data that the length of it can express. What a transport carries is less.
const maxPrivate = 255

// limit sets the reads and atomics of a connection to those of p, or to what it leaves open: the device's limits, and
// if the peer has asked for less, that.
func (i *id) limit(p *abi.RDMAConnParam, asked bool) (limits, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dev == nil {
		return limits{}, syscall.EINVAL
	}
	most := i.dev.most
	tooMany := p.ResponderResources != abi.RDMA_MAX_RESP_RES && p.ResponderResources > most.responder ||
		p.InitiatorDepth != abi.RDMA_MAX_INIT_DEPTH && p.InitiatorDepth > most.initiator
	if i.ps == abi.RDMA_PS_TCP && tooMany {
		return limits{}, syscall.EINVAL
	}
	if asked {
		most = limits{min(most.responder, i.limits.responder), min(most.initiator, i.limits.initiator)}
	}
	l := limits{p.ResponderResources, p.InitiatorDepth}
	if l.responder == abi.RDMA_MAX_RESP_RES {
		l.responder = most.responder
	}
	if l.initiator == abi.RDMA_MAX_INIT_DEPTH {
		l.initiator = most.initiator
	}
	i.limits = l
	return l, nil
}

// Connect is rdma_connect.
func (c *CM) Connect(h control.Handle, p abi.RDMAConnParam, data []byte) error {
	return c.once(h, func(w usercm.Writer, i *id) error {
		if _, err := i.limit(&p, false); err != nil {
			return err
		}
		return usercm.Tell(w, usercm.CmdConnect, &abi.UCMConnect{ConnParam: i.param(&p, data), ID: i.number,
			ECE: i.now().local})
	})
}

// Accept is rdma_accept. It brings up the QP of the ID, if it has one.
func (c *CM) Accept(h control.Handle, p abi.RDMAConnParam, data []byte) error {
	return c.with(h, func(w usercm.Writer, i *id) error {
		l, err := i.limit(&p, true)
		if err != nil {
			return err
		}
		if i.typ != abi.IBV_QPT_UD {
			if err := c.qps.bringUp(w, i, &l); err != nil {
				return err
			}
		}
		s := i.now() // what is accepted has the vendor of the request
		err = usercm.Tell(w, usercm.CmdAccept, &abi.UCMAccept{UID: uint64(i.handle), ConnParam: i.param(&p, data),
			ID: i.number, ECE: abi.UCMECE{VendorID: s.remote.VendorID, Options: s.local.Options}})
		if err != nil {
			_ = c.qps.stop(i)
		}
		return err
	})
}

// Establish is rdma_establish.
func (c *CM) Establish(h control.Handle) error {
	return c.once(h, func(w usercm.Writer, i *id) error {
		if i.now().qp.handle != 0 {
			return syscall.EINVAL
		}
		return establish(w, i)
	})
}

// establish has the kernel send the peer the last message of the handshake.
func establish(w usercm.Writer, i *id) error {
	return usercm.Tell(w, usercm.CmdAccept, &abi.UCMAccept{ID: i.number})
}

// Reject is rdma_reject.
func (c *CM) Reject(h control.Handle, data []byte) error { return c.reject(h, data, 0) }

// RejectECE is rdma_reject_ece.
func (c *CM) RejectECE(h control.Handle, data []byte) error {
	const vendorOption = 35 // C: IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED
	return c.reject(h, data, vendorOption)
}

func (c *CM) reject(h control.Handle, data []byte, reason uint8) error {
	return c.once(h, func(w usercm.Writer, i *id) error {
		q := abi.UCMReject{ID: i.number, Reason: reason}
		q.PrivateDataLen = uint8(copy(q.PrivateData[:maxPrivate], data))
		return usercm.Tell(w, usercm.CmdReject, &q)
	})
}

// Disconnect is rdma_disconnect.
func (c *CM) Disconnect(h control.Handle) error {
	return c.once(h, func(w usercm.Writer, i *id) error {
		if i.now().dev == nil {
			return syscall.EINVAL
		}
		if err := c.qps.stop(i); err != nil {
			return err
		}
		return usercm.Tell(w, usercm.CmdDisconnect, &i.number)
	})
}

// SetLocalECE is rdma_set_local_ece.
func (c *CM) SetLocalECE(h control.Handle, e *abi.ECE) error {
	i, err := c.ids.get(h)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.qp.handle != 0 || e.VendorID == 0 || e.CompMask != 0 {
		return syscall.EINVAL
	}
	i.local = abi.UCMECE{VendorID: e.VendorID, Options: e.Options}
	return nil
}

// GetRemoteECE is rdma_get_remote_ece.
func (c *CM) GetRemoteECE(h control.Handle, e *abi.ECE) error {
	i, err := c.ids.get(h)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.qp.handle != 0 {
		return syscall.EINVAL
	}
	*e = abi.ECE{VendorID: i.remote.VendorID, Options: i.remote.Options}
	return nil
}
