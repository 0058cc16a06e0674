package usercm

import (
	"encoding/binary"
	"structs"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// The structs of rdma/rdma_user_cm.h. Where a command has an ID, that is the kernel's number of it.

// CreateID is struct rdma_ucm_create_id. Its response is a uint32, the ID.
type CreateID struct {
	_             structs.HostLayout
	UID, Response uint64
	PS            uint16
	QPType        uint8
	_             [5]uint8
}

// Query is struct rdma_ucm_query. Structs rdma_ucm_destroy_id, rdma_ucm_init_qp_attr and rdma_ucm_migrate_id are alike:
// Arg is nothing, the state or the descriptor of the present file.
type Query struct {
	_        structs.HostLayout
	Response uint64
	ID, Arg  uint32
}

// What a Query asks for.
const (
	QueryAddr = 0
	QueryPath = 1
	QueryGID  = 2
)

// AddrResp is struct rdma_ucm_query_addr_resp.
type AddrResp struct {
	_                structs.HostLayout
	NodeGUID         abi.Be64
	Port, _          uint8
	PKey             abi.Be16
	SrcSize, DstSize uint16
	Src, Dst         sockaddr.Addr
	DeviceIndex      uint32 // since 5.10
	_                uint32
}

// RouteResp is struct rdma_ucm_query_route_resp, the response to QUERY_ROUTE. Its addresses are of IPv4 and IPv6.
type RouteResp struct {
	_           structs.HostLayout
	NodeGUID    abi.Be64
	Paths       [2]PathRec
	Src, Dst    [28]byte // struct sockaddr_in6
	NumPaths    uint32
	Port        uint8
	_           [3]uint8
	DeviceIndex uint32 // since 5.10
	_           uint32
}

// PathRec is struct ib_user_path_rec of rdma/ib_user_sa.h.
type PathRec struct {
	_                                      structs.HostLayout
	DGID, SGID                             abi.GID
	DLID, SLID                             abi.Be16
	RawTraffic                             uint32
	FlowLabel                              abi.Be32
	Reversible, MTU                        uint32
	PKey                                   abi.Be16
	HopLimit, TrafficClass, NumbPath, SL   uint8
	MTUSelector, RateSelector, Rate        uint8
	PacketLifeTimeSelector, PacketLifeTime uint8
	Preference                             uint8
}

// ToC returns the path as a struct ibv_sa_path_rec.
func (p *PathRec) ToC() abi.SAPathRec {
	return abi.SAPathRec{DGID: p.DGID, SGID: p.SGID, DLID: p.DLID, SLID: p.SLID, RawTraffic: int32(p.RawTraffic),
		FlowLabel: p.FlowLabel, HopLimit: p.HopLimit, TrafficClass: p.TrafficClass, Reversible: int32(p.Reversible),
		NumbPath: p.NumbPath, PKey: p.PKey, SL: p.SL, MTUSelector: p.MTUSelector, MTU: uint8(p.MTU),
		RateSelector: p.RateSelector, Rate: p.Rate, PacketLifeTimeSelector: p.PacketLifeTimeSelector,
		PacketLifeTime: p.PacketLifeTime, Preference: p.Preference}
}

// PathResp is struct rdma_ucm_query_path_resp with as many paths as librdmacm asks for.
type PathResp struct {
	_        structs.HostLayout
	NumPaths uint32
	_        uint32
	Paths    [6]abi.PathData
}

// Bind is struct rdma_ucm_bind.
type Bind struct {
	_    structs.HostLayout
	ID   uint32
	Size uint16
	_    uint16
	Addr sockaddr.Addr
}

// ResolveAddr is struct rdma_ucm_resolve_addr.
type ResolveAddr struct {
	_                structs.HostLayout
	ID, Timeout      uint32
	SrcSize, DstSize uint16
	_                uint32
	Src, Dst         sockaddr.Addr
}

// IDArg is struct rdma_ucm_resolve_route, and those of LISTEN and NOTIFY: a number follows the ID.
type IDArg struct {
	_       structs.HostLayout
	ID, Arg uint32
}

// ConnParam is struct rdma_ucm_conn_param.
type ConnParam struct {
	_                  structs.HostLayout
	QPNum, QKey        uint32
	Private            [256]byte
	PrivateLen, SRQ    uint8
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        uint8
	RetryCount         uint8
	RNRRetryCount      uint8
	Valid              uint8
}

// UDParam is struct rdma_ucm_ud_param.
type UDParam struct {
	_           structs.HostLayout
	QPNum, QKey uint32
	AHAttr      abi.AHAttr
	Private     [256]byte
	PrivateLen  uint8
	_           [7]uint8
}

// ECE is struct rdma_ucm_ece, since Linux 5.10.
type ECE struct {
	_                 structs.HostLayout
	VendorID, Options uint32
}

// Connect is struct rdma_ucm_connect.
type Connect struct {
	_     structs.HostLayout
	Param ConnParam
	ID, _ uint32
	ECE   ECE
}

// Accept is struct rdma_ucm_accept.
type Accept struct {
	_     structs.HostLayout
	UID   uint64
	Param ConnParam
	ID, _ uint32
	ECE   ECE
}

// Reject is struct rdma_ucm_reject.
type Reject struct {
	_                  structs.HostLayout
	ID                 uint32
	PrivateLen, Reason uint8
	_                  [2]uint8
	Private            [256]byte
}

// SetOption is struct rdma_ucm_set_option.
type SetOption struct {
	_                    structs.HostLayout
	Value                uint64
	ID, Level, Name, Len uint32
}

// JoinMcast is struct rdma_ucm_join_mcast. Its response is a uint32, the kernel's number of the group.
type JoinMcast struct {
	_             structs.HostLayout
	Response, UID uint64
	ID            uint32
	Size, Flags   uint16
	Addr          sockaddr.Addr
}

// GetEvent is struct rdma_ucm_get_event. Its response is an Event.
type GetEvent struct {
	_        structs.HostLayout
	Response uint64
}

// Event is struct rdma_ucm_event_resp.
type Event struct {
	_         structs.HostLayout
	UID       uint64
	ID, Event uint32
	Status    int32
	Param     [304]byte
	_         uint32
	ECE       ECE
}

// WriteCMEvent is struct rdma_ucm_write_cm_event.
type WriteCMEvent struct {
	_      structs.HostLayout
	ID, _  uint32
	Event  uint32
	Status int32
	Param  [304]byte
}

// QPAttr is struct ib_uverbs_qp_attr of rdma/ib_user_verbs.h, the response to INIT_QP_ATTR.
type QPAttr struct {
	_                                                   structs.HostLayout
	Mask, State, CurState, PathMTU, PathMigState, QKey  uint32
	RQPSN, SQPSN, DestQPNum, Access                     uint32
	AH, AltAH                                           abi.AHAttr
	Cap                                                 abi.QPCap
	PKeyIndex, AltPKeyIndex                             uint16
	EnSqdAsyncNotify, SQDraining                        uint8
	MaxRdAtomic, MaxDestRdAtomic, MinRNRTimer, PortNum  uint8
	Timeout, RetryCnt, RNRRetry, AltPortNum, AltTimeout uint8
	_                                                   [5]byte
}

// ToC returns the attributes as ibv_modify_qp takes them.
func (a *QPAttr) ToC() abi.QPAttr {
	return abi.QPAttr{QPState: a.State, CurQPState: a.CurState, PathMTU: a.PathMTU, PathMigState: a.PathMigState,
		QKey: a.QKey, RQPSN: a.RQPSN, SQPSN: a.SQPSN, DestQPNum: a.DestQPNum, QPAccessFlags: a.Access, Cap: a.Cap,
		AHAttr: a.AH, AltAHAttr: a.AltAH, PKeyIndex: a.PKeyIndex, AltPKeyIndex: a.AltPKeyIndex,
		EnSqdAsyncNotify: a.EnSqdAsyncNotify, SQDraining: a.SQDraining, MaxRdAtomic: a.MaxRdAtomic,
		MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer, PortNum: a.PortNum, Timeout: a.Timeout,
		RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry, AltPortNum: a.AltPortNum, AltTimeout: a.AltTimeout}
}

// Arg returns the event's parameter of RDMA_CM_EVENT_USER.
func (e *Event) Arg() uint64 { return binary.NativeEndian.Uint64(e.Param[:]) }

// SetArg sets the parameter of RDMA_CM_EVENT_USER.
func (e *WriteCMEvent) SetArg(arg uint64) { binary.NativeEndian.PutUint64(e.Param[:], arg) }
