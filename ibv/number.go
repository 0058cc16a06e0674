package ibv

import "math"

// number is a number that devices limit. What a library rounds up, or cuts to fewer bits, is bounded by its limit
// before the call: see limit.ceiling.
type number struct {
	what string
	most func(a *DeviceAttr) int // negative if the device does not report it
}

// of returns a requested value with the limit of the device.
func (n *number) of(a *DeviceAttr, asked int) limit { return limit{n.what, asked, n.most(a)} }

// The numbers with a limit that ibv_query_device and ibv_query_device_ex report. Those of the extended query are
// unknown without it.
var (
	numCQE        = number{"cqe", func(a *DeviceAttr) int { return a.MaxCQE }}
	numMaxSendWR  = number{"max_send_wr", func(a *DeviceAttr) int { return a.MaxQPWR }}
	numMaxRecvWR  = number{"max_recv_wr", func(a *DeviceAttr) int { return a.MaxQPWR }}
	numMaxSendSGE = number{"max_send_sge", func(a *DeviceAttr) int { return a.MaxSGE }}
	numMaxRecvSGE = number{"max_recv_sge", func(a *DeviceAttr) int { return a.MaxSGE }}
	numMaxInline  = number{"max_inline_data", func(*DeviceAttr) int { return likelyMaxInline }}
	numSRQWR      = number{"max_wr", func(a *DeviceAttr) int { return a.MaxSRQWR }}
	numSRQSGE     = number{"max_sge", func(a *DeviceAttr) int { return a.MaxSRQSGE }}
	numWQWR       = number{"max_wr", mostWQ}
	numWQSGE      = number{"max_sge", func(a *DeviceAttr) int { return a.MaxSGE }}
	numTags       = number{"max_num_tags", func(a *DeviceAttr) int {
		return a.extended(func(e *DeviceAttrEx) uint64 { return uint64(e.TagMatching.MaxTags) })
	}}
	numTagOps = number{"max_ops", func(a *DeviceAttr) int {
		return a.extended(func(e *DeviceAttrEx) uint64 { return uint64(e.TagMatching.MaxOps) })
	}}
	numIndTable = number{"rwq ind table size", func(a *DeviceAttr) int {
		return a.extended(func(e *DeviceAttrEx) uint64 { return uint64(e.RSS.MaxIndirectionTableSize) })
	}}
	numDM = number{"max_dm_size", func(a *DeviceAttr) int {
		return a.extended(func(e *DeviceAttrEx) uint64 { return e.MaxDMSize })
	}}
)

// likelyMaxInline is above the limit of known devices, which no attribute reports.
const likelyMaxInline = 1024

// extended returns a limit of the extended query.
func (a *DeviceAttr) extended(most func(*DeviceAttrEx) uint64) int {
	if a.Ex == nil {
		return -1
	}
	return int(min(most(a.Ex), math.MaxInt))
}

// mostWQ is the largest WQ of the device, which not every device reports.
func mostWQ(a *DeviceAttr) int {
	if a.extended(func(e *DeviceAttrEx) uint64 { return uint64(e.MaxWQTypeRQ) }) > 0 {
		return a.MaxQPWR
	}
	return -1
}
