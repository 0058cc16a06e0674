//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// devxGenerals has the commands that belong to no object. Those that are nil the kernel passes on and the adapter does
// not know; others the kernel refuses.
var devxGenerals = map[uint16]func(*command) uapi.Status{
	uapi.OpQueryHCACap:   queryHCACap,
	uapi.OpNop:           func(*command) uapi.Status { return uapi.StatusOK },
	uapi.OpQueryLAG:      queryLAG,
	uapi.OpQueryNICVport: queryNICVport,

	uapi.OpQueryHCAVport: queryHCAVport, uapi.OpQueryVportState: queryVportState,
	uapi.OpQueryRoceAddress: queryRoceAddress,

	uapi.OpQueryAdapter: nil, uapi.OpQueryISSI: nil, uapi.OpQueryEswVport: nil, uapi.OpQueryEswFunctions: nil,
	uapi.OpQueryVnicEnv: nil, uapi.OpQueryVportCounter: nil, uapi.OpGetDroppedPacketLog: nil,
	uapi.OpQueryCongStatus: nil, uapi.OpQueryCongParams: nil, uapi.OpQueryCongStatistics: nil,
}

// devxForAll has the commands that a context without DevX may send too, if the adapter has DevX. C:
// devx_is_whitelist_cmd.
var devxForAll = []uint16{uapi.OpQueryHCACap, uapi.OpQueryHCAVport, uapi.OpQueryEswVport, uapi.OpQueryEswFunctions}

func devxGeneral(c *call) unix.Errno {
	return devxCmd(c, uapi.DriverNS, uapi.DriverNS+1, func(d *command) (uapi.Status, unix.Errno) {
		op := uint16(uapi.CmdOpcode.Get(d.in))
		f, ok := devxGenerals[op]
		switch {
		case f != nil:
			return f(d), 0
		case !ok && (op < uapi.OpGeneralFirst || op >= uapi.OpGeneralEnd):
			return 0, unix.EINVAL
		}
		return uapi.StatusBadOp, 0
	})
}

// Fields of query_lag's answer. C: struct mlx5_ifc_lagc_bits.
var (
	lagState = uapi.Bits{At: 0x40 + 0x1d, Len: 3}
	lagRemap = [2]uapi.Bits{{At: 0x40 + 0x3c, Len: 4}, {At: 0x40 + 0x34, Len: 4}}
)

// queryLAG says which port of a bond carries what is for the first and the second: with both up, itself.
func queryLAG(d *command) uapi.Status {
	if d.ctx.Device.Config.LAGPorts == 0 {
		return uapi.StatusOK // not active
	}
	lagState.Put(d.out, 1)
	for i, f := range lagRemap {
		f.Put(d.out, uint64(i+1))
	}
	return uapi.StatusOK
}
