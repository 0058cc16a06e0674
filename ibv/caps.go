package ibv

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/flags"
)

// QPTypes is a set of QP types: bit n stands for QPType n.
type QPTypes uint32

// Has reports whether t is in the set.
func (s QPTypes) Has(t QPType) bool { return t < 32 && s>>t&1 != 0 }

// String joins the types with "|".
func (s QPTypes) String() string { return flags.String(s, qpTypeNames) }

// ODPFlags are the general capabilities of on-demand paging.
//
// C: enum ibv_odp_general_caps.
type ODPFlags uint64

const (
	ODPSupport  ODPFlags = abi.IBV_ODP_SUPPORT          // registration with OnDemand
	ODPImplicit ODPFlags = abi.IBV_ODP_SUPPORT_IMPLICIT // of the whole address space at once
)

var odpFlagNames = []string{"Support", "Implicit"}

// String joins the names with "|".
func (f ODPFlags) String() string { return flags.String(f, odpFlagNames) }

// ODPOps are the operations of a transport that may use memory registered on demand.
//
// C: enum ibv_odp_transport_cap_bits.
type ODPOps uint32

const (
	ODPSend        ODPOps = abi.IBV_ODP_SUPPORT_SEND
	ODPRecv        ODPOps = abi.IBV_ODP_SUPPORT_RECV
	ODPWrite       ODPOps = abi.IBV_ODP_SUPPORT_WRITE
	ODPRead        ODPOps = abi.IBV_ODP_SUPPORT_READ
	ODPAtomic      ODPOps = abi.IBV_ODP_SUPPORT_ATOMIC
	ODPSRQRecv     ODPOps = abi.IBV_ODP_SUPPORT_SRQ_RECV
	ODPFlush       ODPOps = abi.IBV_ODP_SUPPORT_FLUSH
	ODPAtomicWrite ODPOps = abi.IBV_ODP_SUPPORT_ATOMIC_WRITE
)

var odpOpNames = []string{"Send", "Recv", "Write", "Read", "Atomic", "SRQRecv", "Flush", "AtomicWrite"}

// String joins the names with "|".
func (o ODPOps) String() string { return flags.String(o, odpOpNames) }

// RawPacketCaps are the offloads for frames of RawPacket QPs.
//
// C: enum ibv_raw_packet_caps.
type RawPacketCaps uint32

const (
	RawVLANStripping RawPacketCaps = abi.IBV_RAW_PACKET_CAP_CVLAN_STRIPPING
	RawScatterFCS    RawPacketCaps = abi.IBV_RAW_PACKET_CAP_SCATTER_FCS // receives include the frame's checksum
	RawIPCsum        RawPacketCaps = abi.IBV_RAW_PACKET_CAP_IP_CSUM
	RawDelayDrop     RawPacketCaps = abi.IBV_RAW_PACKET_CAP_DELAY_DROP
)

var rawPacketCapNames = []string{"VLANStripping", "ScatterFCS", "IPCsum", "DelayDrop"}

// String joins the names with "|".
func (c RawPacketCaps) String() string { return flags.String(c, rawPacketCapNames) }

// HashFields are the packet fields that receive-side scaling can hash.
//
// C: enum ibv_rx_hash_fields (libibverbs/verbs.h, rdma-core v44.0, line 272).
type HashFields uint64

const (
	HashSrcIPv4    HashFields = 1 << 0
	HashDstIPv4    HashFields = 1 << 1
	HashSrcIPv6    HashFields = 1 << 2
	HashDstIPv6    HashFields = 1 << 3
	HashSrcPortTCP HashFields = 1 << 4
	HashDstPortTCP HashFields = 1 << 5
	HashSrcPortUDP HashFields = 1 << 6
	HashDstPortUDP HashFields = 1 << 7
	HashIPsecSPI   HashFields = 1 << 8
	HashInner      HashFields = 1 << 31 // of the packet inside a tunnel
)

var hashFieldNames = []string{"SrcIPv4", "DstIPv4", "SrcIPv6", "DstIPv6", "SrcPortTCP", "DstPortTCP", "SrcPortUDP",
	"DstPortUDP", "IPsecSPI", 31: "Inner"}

// String joins the names with "|".
func (f HashFields) String() string { return flags.String(f, hashFieldNames) }

// HashFuncs are hash functions of receive-side scaling.
//
// C: enum ibv_rx_hash_function_flags (libibverbs/verbs.h, rdma-core v44.0, line 260).
type HashFuncs uint8

// HashToeplitz is the function of Microsoft's RSS specification.
const HashToeplitz HashFuncs = 1 << 0

var hashFuncNames = []string{"Toeplitz"}

// String joins the names with "|".
func (f HashFuncs) String() string { return flags.String(f, hashFuncNames) }

// TagMatchingFlags are the transports on which a device matches tags.
//
// C: enum ibv_tm_cap_flags.
type TagMatchingFlags uint32

// TagMatchingRC is tag matching on RC.
const TagMatchingRC TagMatchingFlags = abi.IBV_TM_CAP_RC

var tagMatchingNames = []string{"RC"}

// String joins the names with "|".
func (f TagMatchingFlags) String() string { return flags.String(f, tagMatchingNames) }

// AtomicSizes is a set of operand sizes: bit n stands for 2^(n+2) bytes.
//
// C: enum ibv_pci_atomic_op_size (libibverbs/verbs.h, rdma-core v44.0, line 328).
type AtomicSizes uint16

// Has reports whether the set has operands of the given size.
func (s AtomicSizes) Has(bytes int) bool {
	return bytes >= 4 && bytes&(bytes-1) == 0 && s>>(bits.TrailingZeros(uint(bytes))-2)&1 != 0
}

// String joins the sizes with "|", as in "4|8"; no size is "0".
func (s AtomicSizes) String() string {
	var sizes []string
	for i := range 16 {
		if s>>i&1 != 0 {
			sizes = append(sizes, strconv.Itoa(4<<i))
		}
	}
	if sizes == nil {
		return "0"
	}
	return strings.Join(sizes, "|")
}
