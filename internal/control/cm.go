package control

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// CM is the connection manager, rdma_cm. Its methods are named after the functions of librdmacm, and have their
// meaning.
type CM interface {
	GetAddrInfo(node, service string, hints *AddrInfo) (list []AddrInfo, code int, err error)
	ResolveAddrInfo(id Handle, node, service string, hints *AddrInfo) (code int, err error)
	QueryAddrInfo(id Handle) ([]AddrInfo, error)
	CreateEP(a *AddrInfo) (Handle, error)
	CreateEventChannel() (ch Handle, err error)
	DestroyEventChannel(ch Handle)
	GetEvent(ch Handle, do func(*CMEvent)) error
	Response(ev *CMEvent) (established bool)
	MoveRequests(from, to Handle)
	CreateID(ch Handle, ps uint32) (Handle, error)
	DestroyID(id Handle) error
	MigrateID(id, ch Handle) error
	BindAddr(id Handle, a *sockaddr.Addr) error
	ResolveAddr(id Handle, src, dst *sockaddr.Addr, ms int) error
	ResolveRoute(id Handle, ms int) error
	Listen(id Handle, backlog int) error
	Connect(id Handle, p abi.RDMAConnParam, data []byte) error
	Accept(id Handle, p abi.RDMAConnParam, data []byte) error
	Reject(id Handle, data []byte) error
	RejectECE(id Handle, data []byte) error
	Establish(id Handle) error
	Disconnect(id Handle) error
	Notify(id Handle, event uint32) error
	CreateQP(id, pd Handle, attr *abi.QPInitAttrEx) (Handle, error) // or rdma_create_qp_ex, with a CompMask
	InitQPAttr(id Handle, attr *abi.QPAttr) (mask uint32, err error)
	Old() bool
	SetOption(id Handle, level, name int, value []byte) error
	JoinMulticast(id Handle, a *sockaddr.Addr, flags uint32, cookie uintptr) error
	LeaveMulticast(id Handle, a *sockaddr.Addr) error
	SetLocalECE(id Handle, e *abi.ECE) error
	GetRemoteECE(id Handle, e *abi.ECE) error
	WriteCMEvent(id Handle, event uint32, status int32, arg uint64) error
	GetDevices() (list Handle, handles []Handle, err error)
	FreeDevices(list Handle)

	// ChannelFD returns the descriptor of an event channel.
	ChannelFD(ch Handle) int
	// SetChannel notes that the kernel has moved an ID to a channel already.
	SetChannel(id, ch Handle)
	// ForgetQP notes that the QP of CreateQP is destroyed.
	ForgetQP(id Handle)
	// State returns what is known of an ID.
	State(id Handle) CMState
	// Paths returns a copy of the path records.
	Paths(id Handle) []abi.SAPathRec
	// GAIText describes a code of GetAddrInfo.
	GAIText(code int) string
}

// CMState has the public fields of a struct rdma_cm_id.
type CMState struct {
	Verbs      Handle // the context of the device, 0 before the ID has one
	Transport  int32  // enum ibv_transport_type of the device, 0 before the ID has one
	Port       uint8
	PKey       uint16
	SGID, DGID abi.GID
	Src, Dst   sockaddr.Addr
	HasQP      bool // of CreateQP
}

// CMEvent is a copy of an event of rdma_cm.
//
// C: struct rdma_cm_event.
type CMEvent struct {
	abi.RDMACMEvent
	UD   bool   // Param is an RDMAUDParam
	Data []byte // private data
}

// AddrInfo is a copy of a struct rdma_addrinfo.
type AddrInfo struct {
	Flags, Family, QPType, PortSpace int32

	Src, Dst         []byte // struct sockaddr
	SrcName, DstName string // not of hints
	Route, Connect   []byte // not of hints
}

// ErrCredentials is returned, with EACCES, for a call that wrote nothing because Linux refuses the calling thread.
var ErrCredentials = errors.New("the thread's credentials are not those of the thread that opened rdma_cm")

// Refused is the error that wraps ErrCredentials and EACCES.
type Refused struct{}

func (Refused) Error() string { return ErrCredentials.Error() + ": " + syscall.EACCES.Error() }

// Unwrap returns both.
func (Refused) Unwrap() []error { return []error{ErrCredentials, syscall.EACCES} }
