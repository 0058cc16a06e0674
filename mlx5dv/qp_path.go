package mlx5dv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/life"
)

// onQP calls do with the handle of a QP that is kept open meanwhile, and with its state: QP.State within do would enter
// the QP again.
func onQP(op string, qp *ibv.QP, do func(c *call, h uintptr, s ibv.QPState) error) error {
	if qp == nil {
		return opError(op, "", &ibv.ArgError{Arg: "qp", Got: "nil", Want: "an open QP"})
	}
	ref, dev := verbs.Ref(qp)
	state := qp.State()
	return onObject(op, ref, dev, func(c *call, h uintptr) error { return do(c, h, state) })
}

func onObject(op string, ref life.Ref, dev *ibv.Device, do func(c *call, h uintptr) error) error {
	c, err := begin(dev, op)
	if err != nil {
		return err
	}
	c.object = ref.Name
	h, err := c.useVerbs(ref, dev)
	if err == nil {
		err = do(c, h)
	}
	if err != nil {
		return c.fail(err)
	}
	c.done()
	return nil
}

// LAGPort is the port of a bond that a QP sends from.
type LAGPort struct {
	Configured uint8 // the QP's port
	Active     uint8 // the one that carries its packets now: another one while its own is down
}

// QueryLAGPort returns the port of a bond that a QP sends from.
//
// C: mlx5dv_query_qp_lag_port(3), of libmlx5 v30.
func QueryLAGPort(qp *ibv.QP) (p LAGPort, err error) {
	err = onQP("mlx5dv query qp lag port", qp, func(c *call, h uintptr, s ibv.QPState) (err error) {
		p.Configured, p.Active, err = c.lib.QueryQPLAGPort(h)
		return explainLAG(c, qp, s, err)
	})
	return p, err
}

// ModifyLAGPort chooses the port of a bond, from 1 on, that a QP sends from. An RC, UC, UD QP or DCI
// must be in RTS.
//
// C: mlx5dv_modify_qp_lag_port(3), of libmlx5 v30.
func ModifyLAGPort(qp *ibv.QP, port uint8) error {
	return onQP("mlx5dv modify qp lag port", qp, func(c *call, h uintptr, s ibv.QPState) error {
		if port == 0 {
			return &ibv.ArgError{Arg: "port", Got: "0", Want: "1 or more"}
		}
		err := c.lib.ModifyQPLAGPort(h, port)
		if errors.Is(err, syscall.EINVAL) {
			return &ibv.ArgError{Arg: "port", Got: fmt.Sprint(port), Want: "a port of the bond"}
		}
		return explainLAG(c, qp, s, err)
	})
}

func explainLAG(c *call, qp *ibv.QP, s ibv.QPState, err error) error {
	return verbs.ExplainUnsupported(err, "a port of a bond", "a bonded device (DeviceAttr.LAGPorts), and a QP in RTS",
		fmt.Sprintf("%v QP in %v of %s", qp.Type(), s, c.dev.Name()))
}

// ModifyUDPPort sets the source port of a QP's RoCE v2 packets, by which switches choose among equal
// paths. The QP must be RC or UC, in RTS; the specification wants a port of 0xc000 or more.
//
// C: mlx5dv_modify_qp_udp_sport(3), of libmlx5 v33.
func ModifyUDPPort(qp *ibv.QP, port uint16) error {
	return onQP("mlx5dv modify qp udp port", qp, func(c *call, h uintptr, s ibv.QPState) error {
		return verbs.ExplainUnsupported(c.lib.ModifyQPUDPSport(h, port), "a UDP source port",
			"a device that can change it, and an RC or UC QP in RTS",
			fmt.Sprintf("%v QP in %v of %s", qp.Type(), s, c.dev.Name()))
	})
}

// MapAHToQP has the path of an AH take part in the congestion control of the QP with this number. It
// lasts until the AH is closed; an AH has one QP, the first.
//
// C: mlx5dv_map_ah_to_qp(3), of libmlx5 v36.
func MapAHToQP(ah *ibv.AH, qpn uint32) error {
	const op = "mlx5dv map ah to qp"
	if ah == nil {
		return opError(op, "", &ibv.ArgError{Arg: "ah", Got: "nil", Want: "an open AH"})
	}
	ref, dev := verbs.Ref(ah)
	return onObject(op, ref, dev, func(c *call, h uintptr) error {
		if qpn >= 1<<24 {
			return &ibv.ArgError{Arg: "qpn", Got: fmt.Sprintf("%#x", qpn), Want: "a number of 24 bits"}
		}
		return verbs.ExplainUnsupported(c.lib.MapAHToQP(h, qpn), "an AH that is mapped to a QP",
			"a device with such mappings, and an AH with a GID", dev.Name())
	})
}

// CancelSends turns each send work request of a QP that has this ID, and that the device has not
// begun, into one that does nothing. It returns how many there were. The QP must be in SQD, with all
// that was begun completed, and made with SendOps and SignaturePipelining; it completes the work
// requests as usual. It works on the data path of libmlx5, which knows where each work request is.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_qp_cancel_posted_send_wrs(3), of libmlx5 v36.
func CancelSends(qp *ibv.QP, id uint64) (n int, err error) {
	err = onQP("mlx5dv cancel sends", qp, func(c *call, _ uintptr, s ibv.QPState) error {
		if path, _ := qp.DataPath(); path != ibv.DataPathOps {
			return &ibv.UnsupportedError{Feature: "canceling sends", Need: "CQs made with DataPathOps",
				Have: fmt.Sprintf("the data path %v, whose rings libmlx5 does not follow", path)}
		}
		ex, err := verbs.QPEx(qp)
		if err != nil || s != ibv.StateSQD {
			return &ibv.ArgError{Arg: "qp", Got: "a QP in " + s.String(),
				Want: "one with SendOps, in SQD"}
		}
		if ex, err = c.lib.QPExFromIBVQPEx(ex); err == nil {
			n, err = c.lib.QPCancelPostedSendWRs(ex, id)
		}
		return err
	})
	return n, err
}
