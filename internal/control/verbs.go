//go:generate go run ./gen

package control

import (
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// Verbs has the verbs that create, change, query and destroy objects. Its methods are named after the functions of
// libibverbs, and have their meaning. A control path that lacks one returns an error that matches
// errors.ErrUnsupported.
//
// Results are values. Memory that an argument points to is the caller's, and is not kept.
type Verbs interface {
	Devices
	Contexts
	Domains
	Memory
	Queues
	Pairs
	Steering
	Experimental

	// Path returns the file of the library, and "" if there is none.
	Path() string
	// Version returns the version of the library, as in "44.0". It may be empty.
	Version() string
}

// Device describes a device that is not open.
type Device struct {
	NodeType, Transport int32 // enum ibv_node_type, enum ibv_transport_type
}

// Context describes an open device.
type Context struct {
	Device      Handle
	CmdFD       int // of commands
	AsyncFD     int // of async events
	CompVectors int
	Size        int // of the struct verbs_context of C; 0 if there is none

	Keys        *Lack  // what it takes to invalidate keys and to have memory windows; nil where the library can
	PlainFields uint64 // IBV_WC_EX_WITH_* that completions have without CreateCQEx; 0 where the library has that
}

// MR describes an MR.
type MR struct {
	Addr       uintptr
	Length     int
	PD         Handle
	LKey, RKey uint32
	Number     uint32 // the kernel's
}

// CQEvent is an event of GetCQEvent. A reader keeps one, so that the calls do not allocate.
type CQEvent struct {
	CQ     Handle
	Cookie uintptr

	Args [5]uintptr // of the control path
}

// Devices lists devices and opens them.
type Devices interface {
	GetDeviceList() (list Handle, devices []Handle, err error)
	FreeDeviceList(list Handle)
	GetDeviceName(dev Handle) (string, error)
	GetDeviceGUID(dev Handle) (uint64, error)
	GetDeviceIndex(dev Handle) int
	HasDeviceIndex() bool
	OpenDevice(dev Handle) (Handle, error)
	ImportDevice(cmdFD int) (Handle, error)
	CloseDevice(ctx Handle) error
	IsForkInitialized() (uint32, error)
	// Device describes a device of the list.
	Device(dev Handle) Device
}

// Contexts queries an open device and reads its events.
type Contexts interface {
	QueryDevice(ctx Handle, attr *abi.DeviceAttr) error
	QueryDeviceEx(ctx Handle, attr *abi.DeviceAttrEx) error
	Removed(ctx Handle) bool
	QueryRTValuesEx(ctx Handle, v *abi.ValuesEx) error
	QueryPort(ctx Handle, port uint8, attr *abi.PortAttr) error
	QueryGID(ctx Handle, port uint8, index int, gid *abi.GID) error
	QueryGIDEx(ctx Handle, port uint8, index int, e *abi.GIDEntry) error
	HasQueryGIDEx() bool
	QueryGIDTable(ctx Handle, entries []abi.GIDEntry) (int, error)
	QueryPKey(ctx Handle, port uint8, index int) (uint16, error)
	ResolveEthL2FromGID(ctx Handle, attr *abi.AHAttr) (mac [6]byte, vid uint16, err error)
	GetAsyncEvent(ctx Handle, ev *abi.AsyncEvent) error
	AckAsyncEvent(ev *abi.AsyncEvent)
	// Context describes an open device.
	Context(ctx Handle) Context
	// Watch makes explain see each EIO and EACCES of a call on the device, on the thread that made the call: the kernel
	// returns EIO from every command on a device that is gone, and EACCES from every command that a thread with other
	// credentials writes.
	Watch(ctx Handle, explain func(error) error)
	// Unwatch undoes Watch, before the device is closed.
	Unwatch(ctx Handle)
	// Owner returns the context of an object.
	Owner(object Handle) Handle
}

// Domains makes protection, thread and XRC domains.
type Domains interface {
	AllocPD(ctx Handle) (Handle, error)
	DeallocPD(pd Handle) error
	ImportPD(ctx Handle, handle uint32) (Handle, error)
	UnimportPD(pd Handle) error
	AllocTD(ctx Handle) (Handle, error)
	DeallocTD(ctx, td Handle) error
	AllocParentDomain(ctx, pd, td Handle) (Handle, error)
	OpenXRCD(ctx Handle, attr *abi.XRCDInitAttr) (Handle, error)
	CloseXRCD(ctx, xrcd Handle) error
	// PDNumber returns the kernel's number of a PD.
	PDNumber(pd Handle) uint32
}

// Memory registers memory, and makes windows and device memory.
type Memory interface {
	RegMR(pd Handle, addr uintptr, length int, access uint32) (Handle, error)
	RegMRIOVA(pd Handle, addr uintptr, length int, iova uint64, access uint32) (Handle, error)
	RegMRIOVA2(pd Handle, addr uintptr, length int, iova uint64, access uint32) (Handle, error)
	HasRegMRIOVA2() bool
	RegMREx(pd Handle, attr *abi.MRInitAttr) (Handle, error)
	RegDmabufMR(pd Handle, off uint64, length int, iova uint64, fd int, access uint32) (Handle, error)
	RegDMMR(ctx, pd, dm Handle, off uint64, length int, access uint32) (Handle, error)
	AllocNullMR(ctx, pd Handle) (Handle, error)
	ReregMR(mr uintptr, flags uint32, pd Handle, addr uintptr, length int, access uint32) (code int, err error)
	DeregMR(mr Handle) error
	ImportMR(pd Handle, handle uint32) (Handle, error)
	UnimportMR(mr Handle) error
	AdviseMR(ctx, pd Handle, advice, flags uint32, sges []abi.SGE) error
	AllocMW(ctx, pd Handle, windowType uint32) (Handle, error)
	BindMW(ctx, qp, mw Handle, bind *abi.MWBind) error
	DeallocMW(ctx, mw Handle) error
	AllocDM(ctx Handle, attr *abi.AllocDMAttr) (Handle, error)
	FreeDM(ctx, dm Handle) error
	MemcpyToDM(dm Handle, off uint64, p []byte) error
	MemcpyFromDM(p []byte, dm Handle, off uint64) error
	ImportDM(ctx Handle, handle uint32) (Handle, error)
	UnimportDM(dm Handle) error
	AllocDMAH(ctx Handle, attr *abi.DMAHInitAttr) (Handle, error)
	DeallocDMAH(dmah Handle) error
	// MR describes an MR; rereg changes it.
	MR(mr Handle) MR
	// MWKey returns the present key of a window.
	MWKey(mw Handle) uint32
	// DMNumber returns the kernel's number of device memory; ok is false if it is not known.
	DMNumber(dm Handle) (number uint32, ok bool)
}

// Queues makes completion channels, CQs, SRQs and WQs.
type Queues interface {
	CreateCompChannel(ctx Handle) (Handle, error)
	DestroyCompChannel(ch Handle) error
	CreateCQ(ctx Handle, cqe int, cookie uintptr, channel Handle, vector int) (Handle, error)
	CreateCQEx(ctx Handle, attr *abi.CQInitAttrEx) (Handle, error)
	ResizeCQ(cq Handle, cqe int) error
	ModifyCQ(ctx, cq Handle, attr *abi.ModifyCQAttr) error
	DestroyCQ(cq Handle) error
	GetCQEvent(ch Handle, e *CQEvent) error
	AckCQEvents(cq Handle, n int, e *CQEvent)
	CreateSRQ(pd Handle, attr *abi.SRQInitAttr) (Handle, error)
	CreateSRQEx(ctx Handle, attr *abi.SRQInitAttrEx) (Handle, error)
	ModifySRQ(srq Handle, attr *abi.SRQAttr, mask uint32) error
	QuerySRQ(srq Handle, attr *abi.SRQAttr) error
	GetSRQNum(ctx, srq Handle) (uint32, error)
	PostSRQOps(ctx, srq Handle, ops []abi.OpsWR, lists [][]abi.SGE) (done int, err error)
	DestroySRQ(srq Handle) error
	CreateWQ(ctx Handle, attr *abi.WQInitAttr) (Handle, error)
	ModifyWQ(ctx, wq Handle, attr *abi.WQAttr) error
	DestroyWQ(ctx, wq Handle) error
	CreateRWQIndTable(ctx Handle, log uint32, wqs []Handle) (Handle, error)
	DestroyRWQIndTable(ctx, table Handle) error
	// ChannelFD returns a descriptor of a completion channel. It is called once. The caller closes the descriptor
	// before it destroys the channel.
	ChannelFD(ch Handle) (int, error)
	// CQCapacity returns the entries of a CQ; ResizeCQ changes them.
	CQCapacity(cq Handle) int
	// WQNumber returns the number of a WQ.
	WQNumber(wq Handle) uint32
}

// Pairs makes queue pairs and address handles.
type Pairs interface {
	CreateQP(pd Handle, attr *abi.QPInitAttrEx) (Handle, error)
	CreateQPEx(ctx Handle, attr *abi.QPInitAttrEx) (Handle, error)
	OpenQP(ctx Handle, attr *abi.QPOpenAttr) (Handle, error)
	QPToQPEx(qp Handle) (Handle, error)
	HasQPToQPEx() bool
	ModifyQP(qp Handle, attr *abi.QPAttr, mask uint32) error
	ModifyQPRateLimit(ctx, qp Handle, attr *abi.QPRateLimitAttr) error
	QueryQP(qp Handle, attr *abi.QPAttr, mask uint32, init *abi.QPInitAttrEx) error
	QueryQPDataInOrder(qp Handle, op, flags uint32) (uint32, error)
	QueryECE(qp Handle, ece *abi.ECE) error
	SetECE(qp Handle, ece *abi.ECE) error
	DestroyQP(qp Handle) error
	CmdDestroyQP(qp Handle) error
	AttachMcast(qp Handle, gid *abi.GID, lid uint16) error
	DetachMcast(qp Handle, gid *abi.GID, lid uint16) error
	CreateAH(pd Handle, attr *abi.AHAttr) (Handle, error)
	DestroyAH(ah Handle) error
	// QPNumber returns the number of a QP. That of a DCT is 0 until it is in RTR.
	QPNumber(qp Handle) uint32
	// QPState returns where the state is that the last modify or query has left, while the QP is open. Posting reads
	// it. It is nil if there is no such QP.
	QPState(qp Handle) *atomic.Uint32
}

// Steering makes steering rules, counters and actions.
type Steering interface {
	CreateFlow(ctx, qp Handle, attr []byte) (Handle, error)
	DestroyFlow(ctx, flow Handle) error
	CreateCounters(ctx Handle) (Handle, error)
	DestroyCounters(ctx, counters Handle) error
	AttachCountersPointFlow(ctx, counters Handle, attr *abi.CounterAttachAttr, flow Handle) error
	ReadCounters(ctx, counters Handle, values []uint64, flags uint32) error
	CreateFlowActionESP(ctx Handle, e *abi.ESP) (Handle, error)
	ModifyFlowActionESP(ctx, action Handle, e *abi.ESP) error
	DestroyFlowAction(ctx, action Handle) error
	QueryCompCntrCaps(ctx Handle, caps *abi.CompCntrCaps) error
	CreateCompCntr(ctx Handle, attr *abi.CompCntrInitAttr) (Handle, error)
	DestroyCompCntr(cntr Handle) error
	SetCompCntr(cntr Handle, v uint64) error
	SetErrCompCntr(cntr Handle, v uint64) error
	IncCompCntr(cntr Handle, n uint64) error
	IncErrCompCntr(cntr Handle, n uint64) error
	ReadCompCntr(cntr Handle) (uint64, error)
	ReadErrCompCntr(cntr Handle) (uint64, error)
	QPAttachCompCntr(qp, cntr Handle, attr *abi.QPAttachCompCntrAttr) error
}

// Experimental has what only MLNX_OFED 4 has. Elsewhere its methods return ErrNoOp.
type Experimental interface {
	// Experimental reports whether the device has these verbs.
	Experimental(ctx Handle) bool
	ExpAtomics(ctx Handle) (abi.ExpExtAtomicsParams, abi.ExpMaskedAtomicParams, error)
	ExpPair(ctx Handle, is ExpPair) (*Pair, error)
	// ExpPoller returns what polls a CQ of CreateCQEx. After ErrNoOp the functions of struct ibv_cq_ex do.
	ExpPoller(ctx, cq Handle, fields uint64) (Poller, error)
}
