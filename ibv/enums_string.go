package ibv

import (
	"strconv"

	"github.com/pureverbs/pureverbs/internal/flags"
	"github.com/pureverbs/pureverbs/internal/work"
)

// enumString looks v up in names, where an empty name is a gap.
func enumString(typ string, v int64, names []string) string {
	if v >= 0 && v < int64(len(names)) && names[v] != "" {
		return names[v]
	}
	return typ + "(" + strconv.FormatInt(v, 10) + ")"
}

var qpTypeNames = []string{2: "RC", 3: "UC", 4: "UD", 8: "RawPacket", 9: "XRCSend", 10: "XRCRecv", 252: "SRD",
	253: "DCT", 254: "DCI", 255: "Driver"}

// String returns the name, as in "RC".
func (t QPType) String() string { return enumString("QPType", int64(t), qpTypeNames) }

var qpStateNames = []string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR", "UNKNOWN"}

// String returns the name, as in "RTR".
func (s QPState) String() string { return enumString("QPState", int64(s), qpStateNames) }

var mtuNames = []string{1: "256", 2: "512", 3: "1024", 4: "2048", 5: "4096"}

// String returns the number of bytes, as in "4096".
func (m MTU) String() string { return enumString("MTU", int64(m), mtuNames) }

var opcodeNames = func() (names []string) {
	for i := range work.Kinds {
		names = append(names, work.Kinds[i].Name)
	}
	return names
}()

// String returns the name, as in "WriteImm".
func (o Opcode) String() string { return enumString("Opcode", int64(o), opcodeNames) }

var sendFlagNames = []string{"Fence", "Signaled", "Solicited", "Inline", "IPCsum"}

// String joins the names of the flags with "|".
func (f SendFlags) String() string { return flags.String(f, sendFlagNames) }

var accessNames = []string{"LocalWrite", "RemoteWrite", "RemoteRead", "RemoteAtomic", "MWBind", "ZeroBased",
	"OnDemand", "HugeTLB",
	"FlushGlobal", "FlushPersistent", 20: "RelaxedOrdering", 31: "AccessNone"}

// String joins the names of the flags with "|".
func (f AccessFlags) String() string { return flags.String(f, accessNames) }

var wcStatusNames = []string{"Success", "LocLenErr", "LocQPOpErr", "LocEECOpErr", "LocProtErr", "WRFlushErr",
	"MWBindErr", "BadRespErr",
	"LocAccessErr", "RemInvReqErr", "RemAccessErr", "RemOpErr", "RetryExcErr", "RNRRetryExcErr", "LocRDDViolErr",
	"RemInvRDReqErr",
	"RemAbortErr", "InvEECNErr", "InvEECStateErr", "FatalErr", "RespTimeoutErr", "GeneralErr", "TMErr",
	"TMRndvIncomplete"}

// String returns the name, as in "RetryExcErr".
func (s WCStatus) String() string { return enumString("WCStatus", int64(s), wcStatusNames) }

var wcOpcodeNames = []string{0: "Send", 1: "Write", 2: "Read", 3: "CompareSwap", 4: "FetchAdd", 5: "BindMW",
	6: "LocalInv", 7: "TSO",
	8: "Flush", 9: "AtomicWrite", 128: "Recv", 129: "RecvImm", 130: "TMAdd", 131: "TMDel", 132: "TMSync", 133: "TMRecv",
	134: "TMNoTag",
	135: "Driver1", 136: "Driver2", 137: "Driver3"}

// String returns the name, as in "Recv".
func (o WCOpcode) String() string { return enumString("WCOpcode", int64(o), wcOpcodeNames) }

var wcFlagNames = []string{"GRH", "WithImm", "IPCsumOK", "WithInv", "TMSyncReq", "TMMatch", "TMDataValid"}

// String joins the names of the flags with "|".
func (f WCFlags) String() string { return flags.String(f, wcFlagNames) }

var wcFieldNames = []string{"ByteLen", "Imm", "QPN", "SrcQPN", "SLID", "SL", "DLIDPathBits", "Timestamp", "CVLAN",
	"FlowTag", "TMInfo", "WallClock"}

// String joins the names of the fields with "|".
func (f WCFields) String() string { return flags.String(f, wcFieldNames) }

var portStateNames = []string{"Nop", "Down", "Init", "Armed", "Active", "ActiveDefer"}

// String returns the name, as in "Active".
func (s PortState) String() string { return enumString("PortState", int64(s), portStateNames) }

var physStateNames = []string{1: "Sleep", 2: "Polling", 3: "Disabled", 4: "Training", 5: "LinkUp",
	6: "ErrorRecovery", 7: "Test"}

// String returns the name, as in "LinkUp".
func (s PhysState) String() string { return enumString("PhysState", int64(s), physStateNames) }

var linkLayerNames = []string{"Unspecified", "InfiniBand", "Ethernet"}

// String returns the name, as in "Ethernet".
func (l LinkLayer) String() string { return enumString("LinkLayer", int64(l), linkLayerNames) }

var gidTypeNames = []string{"IB", "RoCEv1", "RoCEv2"}

// String returns the name, as in "RoCEv2".
func (t GIDType) String() string { return enumString("GIDType", int64(t), gidTypeNames) }

var nodeTypeNames = []string{1: "CA", 2: "Switch", 3: "Router", 4: "RNIC", 5: "USNIC", 6: "USNICUDP", 7: "Unspecified"}

// String returns the name, as in "CA".
func (t NodeType) String() string {
	if t == NodeUnknown {
		return "Unknown"
	}
	return enumString("NodeType", int64(t), nodeTypeNames)
}

var transportNames = []string{"IB", "IWARP", "USNIC", "USNICUDP", "Unspecified"}

// String returns the name, as in "IB".
func (t TransportType) String() string {
	if t == TransportUnknown {
		return "Unknown"
	}
	return enumString("TransportType", int64(t), transportNames)
}

var atomicCapNames = []string{"None", "HCA", "Glob"}

// String returns the name, as in "HCA".
func (c AtomicCap) String() string { return enumString("AtomicCap", int64(c), atomicCapNames) }

var migStateNames = []string{"Migrated", "Rearm", "Armed"}

// String returns the name, as in "Migrated".
func (s MigState) String() string { return enumString("MigState", int64(s), migStateNames) }

var srqTypeNames = []string{"Basic", "XRC", "TM"}

// String returns the name, as in "Basic".
func (t SRQType) String() string { return enumString("SRQType", int64(t), srqTypeNames) }

var eventNames = []string{"CQErr", "QPFatal", "QPReqErr", "QPAccessErr", "CommEst", "SQDrained", "PathMig",
	"PathMigErr", "DeviceFatal",
	"PortActive", "PortErr", "LIDChange", "PKeyChange", "SMChange", "SRQErr", "SRQLimitReached", "QPLastWQEReached",
	"ClientReregister",
	"GIDChange", "WQFatal", "SpeedChange"}

// String returns the name, as in "PortErr".
func (t AsyncEventType) String() string { return enumString("AsyncEventType", int64(t), eventNames) }

var maskNames = []string{"State", "CurState", "EnSQDAsyncNotify", "AccessFlags", "PKeyIndex", "Port", "QKey", "AV",
	"PathMTU", "Timeout",
	"RetryCnt", "RNRRetry", "RQPSN", "MaxQPRdAtomic", "AltPath", "MinRNRTimer", "SQPSN", "MaxDestRdAtomic",
	"PathMigState", "Cap",
	"DestQPN", 25: "RateLimit"}

// String joins the names of the attributes with "|".
func (m QPAttrMask) String() string { return flags.String(m, maskNames) }

var deviceCapNames = []string{0: "ResizeMaxWR", 1: "BadPKeyCntr", 2: "BadQKeyCntr", 3: "RawMulti", 4: "AutoPathMig",
	5: "ChangePhyPort",
	6: "UDAVPortEnforce", 7: "CurrQPStateMod", 8: "ShutdownPort", 9: "InitType", 10: "PortActiveEvent",
	11: "SysImageGUID",
	12: "RCRNRNakGen", 13: "SRQResize", 14: "NNotifyCQ", 17: "MemWindow", 18: "UDIPCsum", 20: "XRC",
	21: "MemMgtExtensions",
	23: "MemWindowType2A", 24: "MemWindowType2B", 25: "RCIPCsum", 26: "RawIPCsum", 29: "ManagedFlowSteering",
	34: "RawScatterFCS",
	36: "PCIWriteEndPadding", 38: "FlushGlobal", 39: "FlushPersistent", 40: "AtomicWrite", 41: "CCDMABounce"}

// String joins the names of the capabilities with "|".
func (c DeviceCapFlags) String() string { return flags.String(c, deviceCapNames) }

var portCapNames = []string{1: "SM", 2: "Notice", 3: "Trap", 4: "OptIPD", 5: "AutoMigr", 6: "SLMap", 7: "MKeyNVRAM",
	8: "PKeyNVRAM",
	9: "LEDInfo", 11: "SysImageGUID", 12: "PKeySwExtPortTrap", 14: "ExtendedSpeeds", 15: "Mask2", 16: "CM",
	17: "SNMPTunnel",
	18: "Reinit", 19: "DeviceMgmt", 20: "VendorClass", 21: "DRNotice", 22: "CapMaskNotice", 23: "BootMgmt",
	24: "LinkLatency",
	25: "ClientReg", 26: "IPBasedGIDs"}

// String joins the names of the capabilities with "|".
func (c PortCap) String() string { return flags.String(c, portCapNames) }

var portCap2Names = []string{0: "SetNodeDesc", 1: "InfoExt", 2: "Virt", 3: "SwitchPortStateTable",
	4: "Width2X", 5: "SpeedHDR",
	10: "SpeedNDR", 12: "SpeedXDR"}

// String joins the names of the capabilities with "|".
func (c PortCap2) String() string { return flags.String(c, portCap2Names) }
