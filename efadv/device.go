package efadv

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind/libefa"
)

// DeviceAttr are the limits of an adapter. Fields that the library does not know are 0.
//
// C: struct efadv_device_attr.
type DeviceAttr struct {
	MaxSendWR   int
	MaxRecvWR   int
	MaxSendSGE  int
	MaxRecvSGE  int
	MaxInline   int
	MaxInlineEx int // of QPs made with SendOps, as SRD QPs are
	Caps        DeviceCaps
	MaxRDMASize int // bytes of a read or write
}

// QueryDevice returns the limits of an adapter.
//
// C: efadv_query_device(3).
func QueryDevice(dev *ibv.Device) (*DeviceAttr, error) {
	_, a, err := query(dev, "efadv query device")
	if err != nil {
		return nil, err
	}
	return &DeviceAttr{MaxSendWR: int(a.MaxSQWR), MaxRecvWR: int(a.MaxRQWR), MaxSendSGE: int(a.MaxSQSGE),
		MaxRecvSGE: int(a.MaxRQSGE), MaxInline: int(a.InlineBufSize), MaxInlineEx: int(a.InlineBufSizeEx),
		Caps: DeviceCaps(a.DeviceCaps), MaxRDMASize: int(a.MaxRDMASize)}, nil
}

// SendDepth has the parameters of MaxSendDepth.
//
// C: struct efadv_sq_depth_attr.
type SendDepth struct {
	SGEs        int // of a send
	RDMASGEs    int // of a read or write
	Inline      int
	InlineWrite bool // QPOptions.InlineWrites
}

// MaxSendDepth returns the number of work requests that a send queue may have. It needs rdma-core v63.
//
// C: efadv_get_max_sq_depth(3).
func MaxSendDepth(dev *ibv.Device, d SendDepth) (n int, err error) {
	const op = "efadv max send depth"
	if err := errors.Join(fits("SGEs", d.SGEs), fits("RDMASGEs", d.RDMASGEs), fits("Inline", d.Inline)); err != nil {
		return 0, opError(op, "", err)
	}
	a := &abi.EFADVSQDepthAttr{MaxSendSGE: uint32(d.SGEs), MaxRDMASGE: uint32(d.RDMASGEs),
		MaxInlineData: uint32(d.Inline)}
	if d.InlineWrite {
		a.Flags = 1
	}
	ref, dev := verbs.Ref(dev)
	err = ask(op, "the depth of a send queue", "dev", ref, dev, func(lib libefa.Lib, h uintptr) (err error) {
		n, err = lib.GetMaxSQDepth(h, a)
		return err
	})
	return n, err
}

// MaxRecvDepth returns the number of receives of that many SGEs that a receive queue may have. It needs
// rdma-core v63.
//
// C: efadv_get_max_rq_depth(3).
func MaxRecvDepth(dev *ibv.Device, sges int) (n int, err error) {
	const op = "efadv max recv depth"
	if err := fits("sges", sges); err != nil {
		return 0, opError(op, "", err)
	}
	a := &abi.EFADVRQDepthAttr{MaxRecvSGE: uint32(sges)}
	ref, dev := verbs.Ref(dev)
	err = ask(op, "the depth of a receive queue", "dev", ref, dev, func(lib libefa.Lib, h uintptr) (err error) {
		n, err = lib.GetMaxRQDepth(h, a)
		return err
	})
	return n, err
}

// fits returns an error if a number is negative, or too large for C's field.
func fits(arg string, n int) error {
	if n < 0 || n > math.MaxInt32 {
		return &ibv.ArgError{Arg: arg, Got: strconv.Itoa(n), Want: fmt.Sprintf("0 to %d", math.MaxInt32)}
	}
	return nil
}
