package mlx5dv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
)

// onQP calls do with the handle of a QP that is kept open meanwhile, and with its state: QP.State within do would enter
// the QP again.
func onQP(op string, qp *ibv.QP, do func(c *call, h uintptr, s ibv.QPState) error) error {
	var state ibv.QPState
	if qp != nil {
		state = qp.State()
	}
	ref, dev := verbs.Ref(qp)
	return onObject(op, "qp", "an open QP", ref, dev, func(c *call, h uintptr) error {
		c.object = ref.Name
		return do(c, h, state)
	})
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
	ref, dev := verbs.Ref(ah)
	return onObject("mlx5dv map ah to qp", "ah", "an open AH", ref, dev, func(c *call, h uintptr) error {
		c.object = ref.Name
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
// requests as usual. A change of a key with a signature counts once for each WQE that it takes.
// With libmlx5 the QP must be on the ops data path, on which libmlx5 knows where each work request is.
//
// C: mlx5dv_qp_cancel_posted_send_wrs(3), of libmlx5 v36.
func CancelSends(qp *ibv.QP, id uint64) (n int, err error) {
	err = onQP("mlx5dv cancel sends", qp, func(c *call, h uintptr, s ibv.QPState) error {
		path, _ := qp.DataPath()
		if native(c.dev) && path == ibv.DataPathDirect {
			n, err = cancelDirect(c, qp, h, id)
			return err
		}
		if path != ibv.DataPathOps {
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

// cancelDirect cancels sends on a ring of this module, from where the device stopped.
//
// C: mlx5_qp_query_sqd (rdma-core v44.0, providers/mlx5/qp.c).
func cancelDirect(c *call, qp *ibv.QP, h uintptr, id uint64) (int, error) {
	const (
		queryQP = 0x50b // C: MLX5_CMD_OP_QUERY_QP
		context = 24    // in the answer. C: struct mlx5_ifc_query_qp_out_bits, mlx5_ifc_qpc_bits
		next    = context + 0x5a0/8
		drained = 5 // C: MLX5_QPC_STATE_SQDRAINED
	)
	be := binary.BigEndian
	in, out := make([]byte, 16), make([]byte, 272)
	be.PutUint16(in, queryQP)
	be.PutUint32(in[8:], qp.Num())
	if err := c.lib.DevXQPQuery(h, in, out); err != nil {
		return 0, err
	}
	if state := out[context] >> 4; state != drained {
		return 0, &ibv.ArgError{Arg: "qp", Got: fmt.Sprintf("a QP that the device has in state %d", state),
			Want: "one in SQD, with nothing under way"}
	}
	return verbs.CancelSends(qp, be.Uint16(out[next:]), id)
}
