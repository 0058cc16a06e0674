package ucma

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/usercm"
)

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
	i.local = usercm.ECE{VendorID: e.VendorID, Options: e.Options}
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

// eces returns the options of both ends.
func (i *id) eces() (local, remote usercm.ECE) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.local, i.remote
}

// queryECE returns the options of a QP; none if the device has none.
func (c *CM) queryECE(qp control.Handle) (e abi.ECE, err error) {
	if err := c.v.QueryECE(qp, &e); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return e, err
	}
	return e, nil
}

func (c *CM) setECE(qp control.Handle, vendor, options uint32) error {
	if vendor == 0 {
		return nil // the QP has none
	}
	err := c.v.SetECE(qp, &abi.ECE{VendorID: vendor, Options: options})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// initECE gives a new QP the options that a request has. They are the vendor's own: those of another vendor do not
// count.
func (c *CM) initECE(i *id, qp control.Handle) error {
	e, err := c.queryECE(qp)
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.local = usercm.ECE{VendorID: e.VendorID, Options: e.Options}
	remote := i.remote
	i.mu.Unlock()
	switch remote.VendorID {
	case 0:
		return nil
	case e.VendorID:
		return c.setECE(qp, remote.VendorID, remote.Options)
	}
	return c.setECE(qp, e.VendorID, 0)
}

// agreeECE notes which of the options of a request the QP has taken.
func (c *CM) agreeECE(i *id, qp control.Handle) error {
	if _, remote := i.eces(); remote.VendorID == 0 {
		return nil
	}
	e, err := c.queryECE(qp)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.local.Options = e.Options
	return nil
}

// takeECE gives the QP of an ID the options that the peer has accepted.
func (c *CM) takeECE(i *id, qp control.Handle, e usercm.ECE) error {
	local, _ := i.eces()
	if e.VendorID == 0 { // the peer, or a kernel on the way, does not know of them
		e = usercm.ECE{VendorID: local.VendorID}
	} else if e.VendorID != local.VendorID {
		return syscall.EINVAL
	}
	i.mu.Lock()
	i.remote.VendorID = e.VendorID
	i.mu.Unlock()
	return c.setECE(qp, e.VendorID, e.Options)
}
