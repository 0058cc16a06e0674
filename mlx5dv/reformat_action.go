package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// check refuses data that do not go with the way.
func (r Reformat) check(data []byte) error {
	n := len(data)
	bad := func(want string) error {
		return &ibv.ArgError{Arg: "data", Got: fmt.Sprintf("%d bytes for %v", n, r), Want: want}
	}
	switch {
	case r > ReformatL3ToTunnel:
		return &ibv.ArgError{Arg: "Reformat", Got: r.String(), Want: "ReformatL2FromTunnel to ReformatL3ToTunnel"}
	case r == ReformatL2FromTunnel && n != 0:
		return bad("empty")
	case r == ReformatL3FromTunnel && n != 14 && n != 18:
		return bad("an Ethernet header of 14 or 18 bytes")
	case (r == ReformatL2ToTunnel || r == ReformatL3ToTunnel) && n < 14:
		return bad("headers, of 14 bytes or more")
	case n > mostCommand:
		return &ibv.LimitError{What: "data", Asked: uint64(n), Limit: mostCommand, Where: "uverbs"}
	}
	return nil
}

// CreateReformatAction makes an action that changes the frames of rules in a table: TableNICRx for the ways out of a
// tunnel, TableNICTx for those into one. FlowApply names it.
//
// C: mlx5dv_create_flow_action_packet_reformat(3), of libmlx5 v21.
func CreateReformatAction(dev *ibv.Device, table FlowTable, way Reformat, data []byte) (*ibv.FlowAction, error) {
	const op = "create reformat action"
	if err := way.check(data); err != nil {
		return nil, opError(op, nameOf(dev), err)
	}
	lib, _, err := begin(dev, op).reach()
	if err != nil {
		return nil, err
	}
	return verbs.NewFlowAction(dev, op, func(handle uintptr) (uintptr, error) {
		h, err := lib.CreateFlowActionPacketReformat(handle, data, uint32(way), uint32(table))
		if err != nil {
			err = explainSteering(err, dev, fmt.Sprintf("%v in table %v", way, table), -1)
		}
		return h, err
	})
}
