package mlx5

import (
	"encoding/binary"
	"runtime"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// bonded returns the capabilities of the device, if the QP sends from a port of a bond.
func (q *qp) bonded() (caps, error) {
	const ports = 0x27c // C: num_lag_ports
	g := q.c.queryCaps(capsGeneral)
	switch t := q.init.QPType; {
	case g.get(ports, 4) <= 1:
	case t == abi.IBV_QPT_RC, t == abi.IBV_QPT_UC, t == abi.IBV_QPT_UD, t == abi.IBV_QPT_RAW_PACKET,
		t == abi.IBV_QPT_XRC_SEND, q.own.flags&abi.MLX5_QP_FLAG_TYPE_DCI != 0:
		return g, nil
	}
	return nil, syscall.EOPNOTSUPP
}

// QueryQPLAGPort returns the port of a bond that a QP sends from, and the one that carries its packets now.
func (q *qp) QueryQPLAGPort() (port, active uint8, err error) {
	const affinity = 0x278                        // C: lag_tx_port_affinity
	const state, first, second = 0x5d, 0x7c, 0x74 // C: lag_state, tx_remap_affinity_1 and 2
	g, err := q.bonded()
	if err != nil {
		return 0, 0, err
	}
	in, lag := make([]byte, 16), make(caps, 16)
	binary.BigEndian.PutUint16(in, queryLAG)
	if err := answered(lag, q.c.general(in, lag)); err != nil {
		return 0, 0, err
	}
	if lag.get(state, 3) == 0 && !g.has(affinity) {
		return 0, 0, syscall.EOPNOTSUPP
	}
	if q.init.QPType == abi.IBV_QPT_RAW_PACKET {
		const size, at = 176, 0x84
		out, e := q.query(queryTIS, q.own.numbers.TISN, size)
		port, err = uint8(out.get(at, 4)), e
	} else {
		out, e := q.query(queryQP, q.number, queryQPSize)
		port, err = uint8(out.get(affinityAt, 4)), e
	}
	if err != nil {
		return 0, 0, err
	}
	switch port {
	case 1:
		return port, uint8(lag.get(first, 4)), nil
	case 2:
		return port, uint8(lag.get(second, 4)), nil
	}
	return 0, 0, syscall.EOPNOTSUPP
}

// ModifyQPLAGPort has a QP send from a port of a bond.
func (q *qp) ModifyQPLAGPort(port uint8) error {
	const changes = 0x152 // C: rts2rts_lag_tx_port_affinity
	g, err := q.bonded()
	if err != nil {
		return err
	}
	if _, _, err := q.QueryQPLAGPort(); err != nil { // the device may ignore what follows if there is no bond
		return err
	}
	switch {
	case q.init.QPType == abi.IBV_QPT_RAW_PACKET:
		const size, changed, at = 192, 0xbd, 0x104
		return q.modify(modifyTIS, q.own.numbers.TISN, size, func(in []byte) {
			setBits(in, changed, 1, 1)
			setBits(in, at, 4, uint32(port))
		})
	case q.init.QPType == abi.IBV_QPT_XRC_SEND || !g.has(changes) || !q.isRTS():
		return syscall.EOPNOTSUPP
	}
	const option = 1 << 15 // C: MLX5_QPC_OPT_MASK_RTS2RTS_LAG_TX_PORT_AFFINITY
	return q.modify(rts2rts, q.number, modifyQPSize, func(in []byte) {
		setBits(in, optionsAt, 32, option)
		setBits(in, affinityAt, 4, uint32(port))
	})
}

// ModifyQPUDPSport sets the source port of a QP's packets.
func (q *qp) ModifyQPUDPSport(port uint16) error {
	const changes = 0x151 // C: rts2rts_qp_udp_sport
	t := q.init.QPType
	if t != abi.IBV_QPT_RC && t != abi.IBV_QPT_UC || !q.isRTS() || !q.c.queryCaps(capsGeneral).has(changes) {
		return syscall.EOPNOTSUPP
	}
	const option = 1 << 2 // C: MLX5_QPC_OPT_MASK_32_UDP_SPORT
	return q.modify(rts2rts, q.number, modifyQPSize, func(in []byte) {
		binary.BigEndian.PutUint64(in[moreOptionsAt/8:], option)
		setBits(in, udpPortAt, 16, uint32(port))
	})
}

// QueryQPDataInOrder returns what the device promises of the order in which data arrives.
func (q *qp) QueryQPDataInOrder(_, flags uint32) (uint32, error) {
	const whole, parts = abi.IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG, abi.IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES
	switch {
	case !processorInOrder && flags&abi.IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY == 0 || !q.inOrder():
		return 0, nil
	case flags&abi.IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS != 0:
		return whole | parts, nil
	}
	return 1, nil
}

// processorInOrder is whether the processor sees the stores of a device in their order.
const processorInOrder = runtime.GOARCH == "amd64" || runtime.GOARCH == "386"

// inOrder asks the device. It promises nothing if it does not answer.
func (q *qp) inOrder() bool {
	// C: qp_data_in_order of the capabilities, qpc.data_in_order, dctc.data_in_order.
	const known, at, dctSize, dctAt = 0x62, 0x11a, 128, 0x9d
	dct := q.own.flags&abi.MLX5_QP_FLAG_TYPE_DCT != 0
	if !dct && !q.isRTS() || !q.c.queryCaps(capsGeneral).has(known) {
		return false
	}
	if dct {
		out, err := q.query(queryDCT, q.number, dctSize)
		return err == nil && out.has(dctAt)
	}
	out, err := q.query(queryQP, q.number, queryQPSize)
	return err == nil && out.has(at)
}

// MapAHToQP has the path of an address take part in the congestion control of a QP, until the address handle ends.
func (n *ah) MapAHToQP(qpn uint32) error {
	const kind, size, number, sl, gidIndex, gid = 0x3a, 64, 0xe0, 0x164, 0x1e4, 0x40 // C: MLX5_OBJ_TYPE_AV_QP_MAPPING
	if !n.global || !n.c.queryCaps(capsGeneral).hasGeneral(kind) {
		return syscall.EOPNOTSUPP
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mapping != nil {
		return nil
	}
	in := generalCommand(createGeneral, kind, 0, size)
	setBits(in, number, 32, qpn)
	setBits(in, sl, 4, uint32(n.av[avRateSL]))
	setBits(in, gidIndex, 8, binary.BigEndian.Uint32(n.av[avFlow:])>>20)
	copy(in[gid:], n.av[avGID:])
	o, _, err := n.c.makeGeneral(in)
	if err == nil {
		n.mapping = &o
	}
	return err
}
