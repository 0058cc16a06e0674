package control

import "github.com/pureverbs/pureverbs/internal/abi"

// MLX5 has what devices of mlx5 have in addition. Its methods are named after the functions of libmlx5, and have their
// meaning. A control path that lacks one returns an error that matches errors.ErrUnsupported.
type MLX5 interface {
	Rings
	Extensions
	Mkeys
	DevX
	Matchers
	Scheduler
	DirectRules
}

// Extensions are attributes of mlx5 for objects of Verbs.
type Extensions interface {
	QueryDevice(ctx Handle, attr *abi.MLX5DVContext) error
	GetClockInfo(ctx Handle, info *abi.MLX5DVClockInfo) error
	CreateCQ(ctx Handle, attr *abi.CQInitAttrEx, dv *abi.MLX5DVCQInitAttr) (Handle, error)
	CreateWQ(ctx Handle, attr *abi.WQInitAttr, dv *abi.MLX5DVWQInitAttr) (Handle, error)
	DCIStreamIDReset(qp Handle, stream uint16) error
	MapAHToQP(ah Handle, qpn uint32) error
	QPCancelPostedSendWRs(mqp uintptr, id uint64) (int, error)
	AllocDM(ctx Handle, attr *abi.AllocDMAttr, dv *abi.MLX5DVAllocDMAttr) (Handle, error)
	// DMMapOpAddr returns an address, which stays mapped until the process ends.
	DMMapOpAddr(dm Handle, op uint8) (uintptr, error)
	RegDmabufMR(pd Handle, off uint64, length int, iova uint64, fd int, access, own uint32) (Handle, error)
	SetContextAllocators(ctx Handle, a *abi.MLX5DVCtxAllocators) error
	GetDataDirectSysfsPath(ctx Handle, buf []byte) error
}

// Mkey describes an indirect memory key.
type Mkey struct {
	LKey, RKey uint32
	// Follow is set if the data path has to follow the signature and the encryption of the key. MkeyCheck then has no
	// use. PSV are the device's numbers of the places where it keeps the state of a signature: in memory, on the wire.
	Follow bool
	PSV    [2]uint32
}

// Mkeys makes indirect memory keys, and keys that encrypt.
type Mkeys interface {
	// CreateMkey writes the granted number of entries to attr.
	CreateMkey(attr *abi.MLX5DVMkeyInitAttr) (Handle, Mkey, error)
	DestroyMkey(mkey Handle) error
	MkeyCheck(mkey Handle, info *abi.MLX5DVMkeyErr) error
	CryptoLogin(ctx Handle, attr *abi.MLX5DVCryptoLoginAttr) error
	CryptoLoginQueryState(ctx Handle, state *uint32) error
	CryptoLogout(ctx Handle) error
	// DEKCreate returns the device's number of the key as well, or 0 if a library keeps it.
	DEKCreate(ctx Handle, attr *abi.MLX5DVDEKInitAttr) (dek Handle, number uint32, err error)
	DEKQuery(dek Handle, attr *abi.MLX5DVDEKAttr) error
	DEKDestroy(dek Handle) error
	// AsksForClearKeys reports whether a key in the clear has MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN in its attributes.
	AsksForClearKeys() bool
}

// DevX sends commands to the firmware, and makes what they refer to. Rings has DevXGeneralCmd.
type DevX interface {
	DevXObjCreate(ctx Handle, in, out []byte) (Handle, error)
	DevXObjQuery(obj Handle, in, out []byte) error
	DevXObjModify(obj Handle, in, out []byte) error
	DevXObjDestroy(obj Handle) error
	DevXQPQuery(qp Handle, in, out []byte) error
	DevXQPModify(qp Handle, in, out []byte) error
	DevXCQQuery(cq Handle, in, out []byte) error
	DevXCQModify(cq Handle, in, out []byte) error
	DevXSRQQuery(srq Handle, in, out []byte) error
	DevXSRQModify(srq Handle, in, out []byte) error
	DevXWQQuery(wq Handle, in, out []byte) error
	DevXWQModify(wq Handle, in, out []byte) error
	DevXIndTblQuery(table Handle, in, out []byte) error
	DevXIndTblModify(table Handle, in, out []byte) error
	DevXUmemReg(ctx Handle, addr uintptr, size int, access uint32) (umem Handle, id uint32, err error)
	DevXUmemRegEx(ctx Handle, in *abi.MLX5DVDevXUmemIn) (umem Handle, id uint32, err error)
	DevXUmemDereg(umem Handle) error
	DevXAllocUAR(ctx Handle, flags uint32) (*abi.MLX5DVDevXUAR, Handle, error)
	DevXFreeUAR(uar Handle) error
	DevXQueryEQN(ctx Handle, vector uint32) (uint32, error)
	DevXCreateEventChannel(ctx Handle, flags uint32) (ch Handle, fd int, err error)
	DevXDestroyEventChannel(ch Handle) error
	DevXSubscribe(ch, obj Handle, events []uint16, cookie uint64) error
	DevXSubscribeFD(ch Handle, fd int, obj Handle, event uint16) error
	DevXGetEvent(ch Handle, event []byte) (int, error)
	DevXCreateCmdComp(ctx Handle) (comp Handle, fd int, err error)
	DevXDestroyCmdComp(comp Handle) error
	DevXObjQueryAsync(obj Handle, in []byte, outlen int, id uint64, comp Handle) error
	DevXGetAsyncCmdComp(comp Handle, resp []byte) error
	AllocVAR(ctx Handle) (*abi.MLX5DVVAR, Handle, error)
	FreeVAR(v Handle) error
	PPAlloc(ctx Handle, context []byte, flags uint32) (pp Handle, index uint16, err error)
	PPFree(pp Handle) error
}

// Matchers makes steering rules in the device's format, and their actions. Verbs.DestroyFlow ends a rule,
// Verbs.DestroyFlowAction an action.
type Matchers interface {
	CreateFlowMatcher(ctx Handle, attr *abi.MLX5DVFlowMatcherAttr, mask []byte) (Handle, error)
	DestroyFlowMatcher(matcher Handle) error
	CreateFlow(matcher Handle, value []byte, actions []abi.MLX5DVFlowActionAttr) (Handle, error)
	// TakesOffsets reports whether a counter of a flow may have an offset.
	TakesOffsets() bool
	CreateFlowActionModifyHeader(ctx Handle, actions []uint64, table uint32) (Handle, error)
	CreateFlowActionPacketReformat(ctx Handle, data []byte, reformat, table uint32) (Handle, error)
	CreateFlowActionESP(ctx Handle, e *abi.ESP, attr *abi.MLX5DVFlowActionESP) (Handle, error)
	CreateSteeringAnchor(ctx Handle, attr *abi.MLX5DVSteeringAnchorAttr) (sa Handle, id uint32, err error)
	DestroySteeringAnchor(sa Handle) error
}

// Scheduler shares bandwidth among QPs, and chooses their paths and numbers.
type Scheduler interface {
	SchedNodeCreate(ctx Handle, attr *abi.MLX5DVSchedAttr) (Handle, error)
	SchedLeafCreate(ctx Handle, attr *abi.MLX5DVSchedAttr) (Handle, error)
	SchedNodeModify(node Handle, attr *abi.MLX5DVSchedAttr) error
	SchedLeafModify(leaf Handle, attr *abi.MLX5DVSchedAttr) error
	SchedNodeDestroy(node Handle) error
	SchedLeafDestroy(leaf Handle) error
	ModifyQPSchedElem(qp, requestor, responder Handle) error
	QueryQPLAGPort(qp Handle) (port, active uint8, err error)
	ModifyQPLAGPort(qp Handle, port uint8) error
	ModifyQPUDPSport(qp Handle, port uint16) error
	ReservedQPNAlloc(ctx Handle) (uint32, error)
	ReservedQPNDealloc(ctx Handle, qpn uint32) error
}

// DRDest is a member of an array of destinations. Reformat is 0 if the frame goes there as it is.
type DRDest struct{ Dest, Reformat Handle }

// DirectRules makes tables of rules that the program writes into the device's memory.
type DirectRules interface {
	DRDomainCreate(ctx Handle, typ uint32) (Handle, error)
	DRDomainDestroy(domain Handle) error
	DRDomainSync(domain Handle, flags uint32) error
	DRDomainSetReclaimDeviceMemory(domain Handle, enable bool) error
	DRDomainAllowDuplicateRules(domain Handle, allow bool) error
	DRTableCreate(domain Handle, level uint32) (Handle, error)
	DRTableDestroy(table Handle) error
	DRMatcherCreate(table Handle, priority uint16, criteria uint8, mask []byte) (Handle, error)
	DRMatcherDestroy(matcher Handle) error
	DRMatcherSetLayout(matcher Handle, layout *abi.MLX5DVDRMatcherLayout) error
	DRRuleCreate(matcher Handle, value []byte, actions []Handle) (Handle, error)
	DRRuleDestroy(rule Handle) error
	DRActionDestroy(action Handle) error
	DRActionDrop() (Handle, error)
	DRActionDefaultMiss() (Handle, error)
	DRActionTag(tag uint32) (Handle, error)
	DRActionDestQP(qp Handle) (Handle, error)
	DRActionDestTable(table Handle) (Handle, error)
	DRActionDestRootTable(table Handle, priority uint16) (Handle, error)
	DRActionDestVport(domain Handle, vport uint32) (Handle, error)
	DRActionDestIBPort(domain Handle, port uint32) (Handle, error)
	DRActionDestTIR(obj Handle) (Handle, error)
	DRActionDestArray(domain Handle, dests []DRDest) (Handle, error)
	DRActionFlowCounter(obj Handle, offset uint32) (Handle, error)
	DRActionASO(domain, obj Handle, offset, flags uint32, regC uint8) (Handle, error)
	DRActionModifyASO(action Handle, offset, flags uint32, regC uint8) error
	DRASOOtherDomainLink(obj, peer, domain Handle, flags uint32, regC uint8) error
	DRASOOtherDomainUnlink(obj, domain Handle) error
	DRActionPacketReformat(domain Handle, flags, way uint32, data []byte) (Handle, error)
	DRActionModifyHeader(domain Handle, flags uint32, actions []uint64) (Handle, error)
	DRActionFlowMeter(attr *abi.MLX5DVDRFlowMeterAttr, param []byte) (Handle, error)
	DRActionModifyFlowMeter(action Handle, attr *abi.MLX5DVDRFlowMeterAttr, param []byte, fields uint64) error
	DRActionFlowSampler(attr *abi.MLX5DVDRFlowSamplerAttr, actions []Handle) (Handle, error)
	DRActionPopVLAN() (Handle, error)
	DRActionPushVLAN(domain Handle, header uint32) (Handle, error)
	DumpDRDomain(domain Handle) ([]byte, error)
	DumpDRTable(table Handle) ([]byte, error)
	DumpDRMatcher(matcher Handle) ([]byte, error)
	DumpDRRule(rule Handle) ([]byte, error)
}
