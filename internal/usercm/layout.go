package usercm

import (
	"encoding/binary"
	"structs"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// What an abi.UCMQuery asks for.
const (
	QueryAddr = 0
	QueryPath = 1
	QueryGID  = 2
)

// PathResp is struct rdma_ucm_query_path_resp with as many paths as librdmacm asks for.
type PathResp struct {
	_        structs.HostLayout
	NumPaths uint32
	_        uint32
	Paths    [6]abi.PathData
}

// Arg returns the event's parameter of RDMA_CM_EVENT_USER.
func Arg(e *abi.UCMEventResp) uint64 { return binary.NativeEndian.Uint64(e.Param[:]) }

// SetArg sets the parameter of RDMA_CM_EVENT_USER.
func SetArg(e *abi.UCMWriteCMEvent, arg uint64) { binary.NativeEndian.PutUint64(e.Param[:], arg) }
