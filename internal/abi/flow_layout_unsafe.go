package abi

import "unsafe"

// The build breaks here when a mirror of steering rules loses its layout.
var (
	_ [56]byte = [unsafe.Sizeof(FlowActionESPAttr{})]byte{}
	_ [20]byte = [unsafe.Sizeof(FlowAttr{})]byte{}
	_ [16]byte = [unsafe.Sizeof(FlowEthFilter{})]byte{}
	_ [8]byte  = [unsafe.Sizeof(FlowIPv4Filter{})]byte{}
	_ [12]byte = [unsafe.Sizeof(FlowIPv4ExtFilter{})]byte{}
	_ [40]byte = [unsafe.Sizeof(FlowIPv6Filter{})]byte{}
	_ [4]byte  = [unsafe.Sizeof(FlowTCPUDPFilter{})]byte{}
	_ [8]byte  = [unsafe.Sizeof(FlowESPFilter{})]byte{}
	_ [4]byte  = [unsafe.Sizeof(FlowTunnelFilter{})]byte{}
	_ [8]byte  = [unsafe.Sizeof(FlowGREFilter{})]byte{}
	_ [4]byte  = [unsafe.Sizeof(FlowMPLSFilter{})]byte{}
	_ [40]byte = [unsafe.Sizeof(FlowSpecEth{})]byte{}
	_ [24]byte = [unsafe.Sizeof(FlowSpecIPv4{})]byte{}
	_ [32]byte = [unsafe.Sizeof(FlowSpecIPv4Ext{})]byte{}
	_ [88]byte = [unsafe.Sizeof(FlowSpecIPv6{})]byte{}
	_ [16]byte = [unsafe.Sizeof(FlowSpecTCPUDP{})]byte{}
	_ [24]byte = [unsafe.Sizeof(FlowSpecESP{})]byte{}
	_ [16]byte = [unsafe.Sizeof(FlowSpecTunnel{})]byte{}
	_ [24]byte = [unsafe.Sizeof(FlowSpecGRE{})]byte{}
	_ [16]byte = [unsafe.Sizeof(FlowSpecMPLS{})]byte{}
	_ [12]byte = [unsafe.Sizeof(FlowSpecActionTag{})]byte{}
	_ [8]byte  = [unsafe.Sizeof(FlowSpecActionDrop{})]byte{}
	_ [16]byte = [unsafe.Sizeof(FlowSpecActionHandle{})]byte{}
	_ [16]byte = [unsafe.Sizeof(FlowSpecCounterAction{})]byte{}
	_ [4]byte  = [unsafe.Sizeof(CountersInitAttr{})]byte{}
	_ [12]byte = [unsafe.Sizeof(CounterAttachAttr{})]byte{}
	_ [24]byte = [unsafe.Sizeof(FlowActionESP{})]byte{}
	_ [56]byte = [unsafe.Sizeof(ESPKeymatAESGCM{})]byte{}
	_ [4]byte  = [unsafe.Sizeof(ESPReplayBMP{})]byte{}
	_ [6]byte  = [unsafe.Offsetof(FlowSpecEth{}.Val)]byte{}
	_ [6]byte  = [unsafe.Offsetof(FlowSpecTCPUDP{}.Val)]byte{}
	_ [8]byte  = [unsafe.Offsetof(FlowSpecIPv4Ext{}.Val)]byte{}
	_ [20]byte = [unsafe.Offsetof(FlowSpecIPv4Ext{}.Mask)]byte{}
	_ [48]byte = [unsafe.Offsetof(FlowSpecIPv6{}.Mask)]byte{}
	_ [8]byte  = [unsafe.Offsetof(FlowSpecCounterAction{}.Counters)]byte{}
	_ [52]byte = [unsafe.Offsetof(FlowActionESPAttr{}.ESN)]byte{}
)
