package ucma

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// queryECE returns the options of a QP; none if the device has none.
func queryECE(v control.Verbs, qp control.Handle) (e abi.ECE, err error) {
	if err := v.QueryECE(qp, &e); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return e, err
	}
	return e, nil
}

func setECE(v control.Verbs, qp control.Handle, vendor, options uint32) error {
	if vendor == 0 {
		return nil // the QP has none
	}
	err := v.SetECE(qp, &abi.ECE{VendorID: vendor, Options: options})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// initECE gives a new QP the options that a request has. They are the vendor's own: those of another vendor do not
// count.
func initECE(v control.Verbs, i *id, qp control.Handle) error {
	e, err := queryECE(v, qp)
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.local = abi.UCMECE{VendorID: e.VendorID, Options: e.Options}
	remote := i.remote
	i.mu.Unlock()
	switch remote.VendorID {
	case 0:
		return nil
	case e.VendorID:
		return setECE(v, qp, remote.VendorID, remote.Options)
	}
	return setECE(v, qp, e.VendorID, 0)
}

// agreeECE notes which of the options of a request the QP has taken.
func agreeECE(v control.Verbs, i *id, qp control.Handle) error {
	if i.now().remote.VendorID == 0 {
		return nil
	}
	e, err := queryECE(v, qp)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.local.Options = e.Options
	return nil
}

// takeECE gives the QP of an ID the options that the peer has accepted.
func takeECE(v control.Verbs, i *id, qp control.Handle, e abi.UCMECE) error {
	local := i.now().local
	if e.VendorID == 0 { // the peer, or a kernel on the way, does not know of them
		e = abi.UCMECE{VendorID: local.VendorID}
	} else if e.VendorID != local.VendorID {
		return syscall.EINVAL
	}
	i.mu.Lock()
	i.remote.VendorID = e.VendorID
	i.mu.Unlock()
	return setECE(v, qp, e.VendorID, e.Options)
}
