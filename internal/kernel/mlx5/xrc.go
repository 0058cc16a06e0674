package mlx5

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// OpenXRCD opens an XRC domain.
func (c *context) OpenXRCD(a *abi.XRCDInitAttr) (*xrcd, error) {
	if a.CompMask != abi.IBV_XRCD_INIT_ATTR_FD|abi.IBV_XRCD_INIT_ATTR_OFLAGS {
		return nil, syscall.EINVAL
	}
	number, err := c.file.OpenXRCD(a.FD, uint32(a.OFlags))
	return &xrcd{numbered(c, number)}, err
}

// CloseXRCD closes an XRC domain.
func (x *xrcd) CloseXRCD() error { return x.c.destroyed(x.c.file.CloseXRCD(x.number)) }

// OpenQP opens a QP of an XRC domain that another process has made.
func (v *Verbs) OpenQP(_ handle, a *abi.QPOpenAttr) (handle, error) {
	const need = abi.IBV_QP_OPEN_ATTR_NUM | abi.IBV_QP_OPEN_ATTR_XRCD | abi.IBV_QP_OPEN_ATTR_TYPE
	if a.CompMask&need != need {
		return 0, syscall.EINVAL
	}
	x, err := get[xrcd](v, a.XRCD)
	if err != nil {
		return 0, err
	}
	q := &qp{ringed: of(x.c), opened: true, init: abi.QPInitAttrEx{QPType: a.QPType, QPContext: a.QPContext}}
	return q.enter(q, ring{}, func() error {
		r, err := x.c.file.OpenQP(uint64(q.handle), x.number, a.QPNum, uint8(a.QPType))
		if err != nil {
			return err
		}
		q.kernel, q.number = r.QPHandle, r.QPN
		if err = deviceNumber24("open_qp", "qpn", r.QPN); err != nil {
			_, e := x.c.file.DestroyQP(q.kernel)
			err = x.c.undo(err, e)
		}
		return err
	})
}
