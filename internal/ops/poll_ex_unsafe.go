package ops

import (
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
)

// ExPoller polls an extended CQ by the functions in its struct ibv_cq_ex: Start, then Next as long as more is wanted,
// then End. The provider holds the CQ's lock in between. Between a successful Start or Next and the following call the
// other methods describe one completion.
type ExPoller struct {
	cq               uintptr
	tail             *abi.CQExTail
	start, next, end uintptr
	readers          [readers]uintptr // 0 for one that the CQ was not made with
	notify           uintptr
	attr             uintptr // struct ibv_poll_cq_attr
	tm               *abi.WCTMInfo
	tmAddr           uintptr
	mem              *dma.Mem

	EFA EFAReaders // of a CQ of libefa's
}

// Reader is a function that reads a field of a completion.
type Reader int

// The readers that return their field.
const (
	ReadOpcode Reader = iota
	ReadVendorErr
	ReadFlags
	ReadByteLen
	ReadImm // as struct ibv_wc has it: big-endian, or a key in host order
	ReadQPN
	ReadSrcQPN
	ReadSLID
	ReadSL
	ReadDLIDPathBits
	ReadTimestamp
	ReadCVLAN
	ReadFlowTag
	readTMInfo
	ReadWallClock
	readers
)

// Empty is the result of Start and Next when there is no completion. Other errors may be negative: that of libmlx5 for
// an entry that it cannot read is -2 (rdma-core v44.0, providers/mlx5/cq.c:49), which is not ENOENT.
const Empty = int(syscall.ENOENT)

// NewExPoller returns a poller for the ibv_cq_ex at cq, which was made with these IBV_WC_EX_WITH_* on the context ctx.
// If the provider lacks a function, it returns the name of it.
func NewExPoller(t Table, ctx, cq uintptr, fields uint64) (p *ExPoller, missing string, _ error) {
	shift, _ := abi.TailShift(ctx)
	tail := cmem.At[abi.CQExTail](cq + abi.OffCQEx + shift)
	p = &ExPoller{cq: cq, tail: tail, notify: t.ReqNotifyCQ}
	for _, f := range [...]struct {
		name string
		bit  uint64 // 0: always there
		from *uintptr
		to   *uintptr
	}{
		{"start_poll", 0, &tail.StartPoll, &p.start},
		{"next_poll", 0, &tail.NextPoll, &p.next},
		{"end_poll", 0, &tail.EndPoll, &p.end},
		{"read_opcode", 0, &tail.ReadOpcode, &p.readers[ReadOpcode]},
		{"read_vendor_err", 0, &tail.ReadVendorErr, &p.readers[ReadVendorErr]},
		{"read_wc_flags", 0, &tail.ReadWCFlags, &p.readers[ReadFlags]},
		{"read_byte_len", abi.IBV_WC_EX_WITH_BYTE_LEN, &tail.ReadByteLen, &p.readers[ReadByteLen]},
		{"read_imm_data", abi.IBV_WC_EX_WITH_IMM, &tail.ReadImmData, &p.readers[ReadImm]},
		{"read_qp_num", abi.IBV_WC_EX_WITH_QP_NUM, &tail.ReadQPNum, &p.readers[ReadQPN]},
		{"read_src_qp", abi.IBV_WC_EX_WITH_SRC_QP, &tail.ReadSrcQP, &p.readers[ReadSrcQPN]},
		{"read_slid", abi.IBV_WC_EX_WITH_SLID, &tail.ReadSLID, &p.readers[ReadSLID]},
		{"read_sl", abi.IBV_WC_EX_WITH_SL, &tail.ReadSL, &p.readers[ReadSL]},
		{"read_dlid_path_bits", abi.IBV_WC_EX_WITH_DLID_PATH_BITS, &tail.ReadDLIDPathBits,
			&p.readers[ReadDLIDPathBits]},
		{"read_completion_ts", abi.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, &tail.ReadCompletionTS,
			&p.readers[ReadTimestamp]},
		{"read_cvlan", abi.IBV_WC_EX_WITH_CVLAN, &tail.ReadCVLAN, &p.readers[ReadCVLAN]},
		{"read_flow_tag", abi.IBV_WC_EX_WITH_FLOW_TAG, &tail.ReadFlowTag, &p.readers[ReadFlowTag]},
		{"read_tm_info", abi.IBV_WC_EX_WITH_TM_INFO, &tail.ReadTMInfo, &p.readers[readTMInfo]},
		{"read_completion_wallclock_ns", abi.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
			&tail.ReadCompletionWallclockNS, &p.readers[ReadWallClock]},
	} {
		if f.bit != 0 && fields&f.bit == 0 {
			continue // perhaps behind the end of the provider's struct
		}
		if *f.to = *f.from; *f.to == 0 {
			return nil, f.name, nil
		}
	}
	mem, err := dma.Alloc(int(unsafe.Sizeof(abi.WCTMInfo{})+unsafe.Sizeof(abi.PollCQAttr{})), nil)
	if err != nil {
		return nil, "", err
	}
	p.mem, p.tmAddr = mem, mem.Addr()
	p.tm = cmem.At[abi.WCTMInfo](p.tmAddr)
	p.attr = p.tmAddr + unsafe.Sizeof(abi.WCTMInfo{})
	return p, "", nil
}

// Start begins a batch with its first completion. It returns 0, Empty, or another error; only after 0 there is a batch,
// and End has to be called.
func (p *ExPoller) Start() int { return int(int32(ccall.Hot(p.start, p.cq, p.attr, 0))) }

// Next goes on to the next completion of the batch, and returns what Start returns.
func (p *ExPoller) Next() int { return int(int32(ccall.Hot(p.next, p.cq, 0, 0))) }

// End ends the batch: the device gets back the entries of its completions.
func (p *ExPoller) End() { ccall.Hot(p.end, p.cq, 0, 0) }

// ID returns the ID of the work request.
func (p *ExPoller) ID() uint64 { return p.tail.WRID }

// Status returns the verbs status.
func (p *ExPoller) Status() uint32 { return p.tail.Status }

// Read returns a field, 0 if the CQ was not made with it. Only as many bits count as the field has.
func (p *ExPoller) Read(r Reader) uint64 {
	if p.readers[r] == 0 {
		return 0
	}
	return uint64(ccall.Hot(p.readers[r], p.cq, 0, 0))
}

// TMInfo returns the tag and the private data of a message with tag matching, zeros if the CQ was not made with them.
func (p *ExPoller) TMInfo() (tag uint64, priv uint32) {
	if p.readers[readTMInfo] == 0 {
		return 0, 0
	}
	ccall.Hot(p.readers[readTMInfo], p.cq, p.tmAddr, 0)
	return p.tm.Tag, p.tm.Priv
}

// Arm requests one event on the CQ's channel, as Poller.Arm does.
func (p *ExPoller) Arm(solicitedOnly bool) int { return Arm(p.notify, p.cq, solicitedOnly) }

// Free frees the memory, if there is a poller. It must not be used afterwards.
func (p *ExPoller) Free() error {
	if p == nil {
		return nil
	}
	return p.mem.Free()
}
